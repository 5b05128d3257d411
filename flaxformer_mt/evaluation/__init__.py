"""Metrics of translations, and quality estimates of single ones."""
