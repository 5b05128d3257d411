"""Metrics of a test set, minimum Bayes risk, and checks of single translations."""

from typing import Literal

Utility = Literal["chrf", "bleu"]
"""The metric with which `mbr` compares two translations.

It is not defined in `mbr`, because importing that module loads sacreBLEU, which is slow."""
