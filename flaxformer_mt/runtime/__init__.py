"""Around the computation: devices, sharding, processes, memory, caches, signals."""
