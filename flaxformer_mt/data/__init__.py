"""Text to batches: pair sources, tokenizers, and the pipeline that feeds training. Numpy only."""
