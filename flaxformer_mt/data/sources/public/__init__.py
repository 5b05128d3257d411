"""Public corpora by name: download, check, extract once, then read as text files."""
