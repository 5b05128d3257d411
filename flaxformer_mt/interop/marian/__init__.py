"""Models in the format of Hugging Face's MarianMTModel, read and written."""
