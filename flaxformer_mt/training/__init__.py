"""Training, batches to parameters: loss, optimiser, state, step, loop, validation, reporting."""
