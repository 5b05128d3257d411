"""Prepared corpora: text of any size as token ids on disk, which training reads."""
