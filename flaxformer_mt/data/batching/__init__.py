"""Token ids -> batches."""
