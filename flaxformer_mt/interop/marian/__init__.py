"""Hugging Face Marian models, read and written."""
