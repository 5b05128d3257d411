"""Parameters of a test: the first few for `make test`, the others for `make test-all`."""

from collections.abc import Iterable

import pytest


def slow_after(count: int, values: Iterable) -> list:
    """Returns the values as parameters. Those after the first `count` are marked slow."""
    return [
        pytest.param(
            *(value if isinstance(value, tuple) else (value,)),
            marks=[pytest.mark.slow] if index >= count else [],
        )
        for index, value in enumerate(values)
    ]
