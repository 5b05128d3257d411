"""Bounds of numbers in config dataclasses: one table instead of one check per field."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple


class Bounds(NamedTuple):
    """The finite numbers x with low <= x < below."""

    low: float
    below: float = math.inf


POSITIVE_INT = Bounds(1)
NOT_NEGATIVE = Bounds(0)
FRACTION = Bounds(0, 1)


def check_bounds(config: Any, section: str, bounds: Mapping[str, Bounds]) -> None:
    """Checks fields of a dataclass against a table.

    Args:
      config: the dataclass.
      section: the name that users know it by, such as "training".
      bounds: field name -> bounds.

    Raises:
      ValueError: the message names the field, its bounds and its value.
    """
    for name, (low, below) in bounds.items():
        value = getattr(config, name)
        if not low <= value < below:
            wanted = f"at least {low}" + (f" and below {below}" if below < math.inf else "")
            finite = "" if math.isfinite(value) else " and finite"
            raise ValueError(f"{section}.{name} must be {wanted}{finite}, got {value}")
