"""Sources of sentence pairs: text files, tables, public corpora and the demo text."""
