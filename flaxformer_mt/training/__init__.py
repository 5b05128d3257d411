"""BATCHES -> PARAMS: loss, optimiser, one step, checkpoints, averaging and reporting."""
