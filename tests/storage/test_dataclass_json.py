"""Types and bounds of the fields of a config: each message names field, expectation and value."""

import dataclasses
import math
from typing import Any, Literal

import numpy as np
import pytest

from flaxformer_mt.storage.dataclass_json import (
    FRACTION,
    NOT_NEGATIVE,
    POSITIVE_INT,
    Bounds,
    check_fields,
)


@dataclasses.dataclass
class Example:
    count: int = 1
    amount: float = 0.0
    rate: float = 0.0
    share: float = 1
    limit: float = 2.0
    order: Literal["first", "last"] = "first"
    names: tuple[str, ...] = ()


TABLE = {
    "count": POSITIVE_INT,
    "amount": NOT_NEGATIVE,
    "rate": FRACTION,
    "share": Bounds(1e-6, 1, "1 takes all"),
    "limit": Bounds(0, hint="0 is the lowest"),
}


def test_accepts_the_bounds_themselves():
    check_fields(Example(), "example", TABLE)
    check_fields(Example(10**400, 1e300, 0.999), "example", TABLE)
    check_fields(Example(share=1e-6, limit=math.inf), "example", TABLE)
    check_fields(Example(amount=np.float32(1), names=("a", "b")), "example", TABLE)
    as_from_a_file: Any = ["a"]
    check_fields(Example(names=as_from_a_file), "example", TABLE)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"count": 0}, "example.count must be at least 1, got 0"),
        ({"amount": -0.5}, "example.amount must be at least 0, got -0.5"),
        ({"amount": float("inf")}, "example.amount must be at least 0 and finite, got inf"),
        ({"amount": float("nan")}, "example.amount must be at least 0 and finite, got nan"),
        ({"rate": 1.0}, "example.rate must be at least 0 and below 1, got 1.0"),
        (
            {"share": 2},
            "example.share must be at least 1e-06 and at most 1, got 2 (1 takes all)",
        ),
        (
            {"share": 10**400},
            f"example.share must be at least 1e-06 and at most 1, got {10**400} (1 takes all)",
        ),
        ({"limit": -1.0}, "example.limit must be at least 0, got -1.0 (0 is the lowest)"),
        ({"count": 1.5}, "example.count: expected int, got 1.5"),
        ({"count": True}, "example.count: expected int, got True"),
        ({"rate": "0"}, "example.rate: expected float, got '0'"),
        ({"rate": False}, "example.rate: expected float, got False"),
        ({"order": "lsat"}, "example.order: expected 'first' or 'last', got 'lsat'"),
        ({"names": "ab"}, "example.names: expected tuple[str, ...], got 'ab'"),
        ({"names": ("a", 3)}, "example.names[1]: expected str, got 3"),
    ],
    ids=str,
)
def test_refuses_other_values(values, message):
    with pytest.raises(ValueError) as error:
        check_fields(Example(**values), "example", TABLE)
    assert str(error.value) == message


def test_without_a_section_the_message_starts_with_the_field():
    with pytest.raises(ValueError, match="^count must be at least 1, got 0$"):
        check_fields(Example(count=0), "", TABLE)
