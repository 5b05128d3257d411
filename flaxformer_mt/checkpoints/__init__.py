"""The checkpoints of a workdir: written whole, checked, read, averaged, and started from."""
