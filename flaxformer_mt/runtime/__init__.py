"""Devices, sharding, processes, memory, caches and process settings."""
