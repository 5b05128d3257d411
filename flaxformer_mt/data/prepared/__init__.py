"""Prepared corpora: text of any size to token ids on disk, and batches from them."""
