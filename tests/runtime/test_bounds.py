"""The table of bounds of a config: each message names field, bounds and value."""

import dataclasses

import pytest

from flaxformer_mt.runtime.dataclass_json import FRACTION, NOT_NEGATIVE, POSITIVE_INT, check_bounds


@dataclasses.dataclass
class Example:
    count: int = 1
    amount: float = 0.0
    rate: float = 0.0


TABLE = {"count": POSITIVE_INT, "amount": NOT_NEGATIVE, "rate": FRACTION}


def test_accepts_the_bounds_themselves():
    check_bounds(Example(), "example", TABLE)
    check_bounds(Example(10**9, 1e300, 0.999), "example", TABLE)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"count": 0}, "example.count must be at least 1, got 0"),
        ({"amount": -0.5}, "example.amount must be at least 0, got -0.5"),
        ({"amount": float("inf")}, "example.amount must be at least 0 and finite, got inf"),
        ({"amount": float("nan")}, "example.amount must be at least 0 and finite, got nan"),
        ({"rate": 1.0}, "example.rate must be at least 0 and below 1, got 1.0"),
    ],
    ids=str,
)
def test_refuses_other_values(values, message):
    with pytest.raises(ValueError) as error:
        check_bounds(Example(**values), "example", TABLE)
    assert str(error.value) == message
