"""Compiled programs: a search over many sentences, on all devices of the process."""
