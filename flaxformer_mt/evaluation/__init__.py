"""Metrics of translations, and quality estimates of single ones."""

from typing import Literal

Utility = Literal["chrf", "bleu"]
"""How `mbr` compares two translations. It is here because sacreBLEU would delay other imports."""
