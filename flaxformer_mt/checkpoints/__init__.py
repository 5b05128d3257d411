"""The checkpoints of a workdir: atomic writes, checksums, reading, averaging, and loading."""
