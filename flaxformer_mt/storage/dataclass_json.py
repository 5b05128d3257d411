"""Builds config dataclasses from JSON. Checks keys, and types and bounds of fields.

`dataclasses.asdict` is the inverse. Field types may be int, float, bool, str, Literal,
`tuple[X, ...]` and dataclasses of these.
"""

import dataclasses
import difflib
import functools
import math
import numbers
import typing
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple, TypeVar

T = TypeVar("T")


def from_dict(kind: type[T], values: Any, *, where: str = "") -> T:
    """Returns a dataclass `kind` made from nested dicts and lists (parsed JSON).

    A missing key keeps its default. `where` is the dotted path of `values`, for messages.

    Raises ValueError if a key is unknown (the message names the nearest one), a value has the wrong
    type, or the dataclass refuses a value.
    """
    if not isinstance(values, dict):
        raise ValueError(f"{where or 'the config'}: expected an object of keys, got {values!r}")
    types = _types(kind)
    names = [field.name for field in dataclasses.fields(typing.cast(Any, kind))]
    for name in values:
        if name not in names:
            raise ValueError(f"unknown key {_dotted(where, name)}: {did_you_mean(name, names)}")
    fields = {name: _value(types[name], values[name], _dotted(where, name)) for name in values}
    return kind(**fields)


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """Returns the end of an error message: the most similar choice, or all if none is similar."""
    choices = list(choices)
    nearest = difflib.get_close_matches(word, choices, n=1)
    return f"did you mean {nearest[0]}?" if nearest else f"choose from {', '.join(choices)}"


class Bounds(NamedTuple):
    """The numbers x with low <= x <= high. If `below`, only the finite ones with x < high."""

    low: float
    high: float = math.inf
    hint: str = ""
    below: bool = False


POSITIVE_INT = Bounds(1)
NOT_NEGATIVE = Bounds(0, below=True)
FRACTION = Bounds(0, 1, below=True)


def check_fields(config: Any, section: str, bounds: Mapping[str, Bounds]) -> None:
    """Raises ValueError if a field of a dataclass has a wrong type or choice, or is out of bounds.

    Any real number may stand for a float, and a list for a tuple. Items of a tuple may be integers
    of NumPy. The message names the field in its `section` (such as "training"; "" = none), what is
    expected, and the value.
    """
    for name, kind in _types(type(config)).items():
        _check_type(kind, getattr(config, name), _dotted(section, name))
    for name, (low, high, hint, below) in bounds.items():
        value = getattr(config, name)
        if not low <= value <= high or (below and value == high):
            upper = f" and {'below' if below else 'at most'} {high:.15g}" if high < math.inf else ""
            finite = "" if abs(value) < math.inf else " and finite"
            raise ValueError(
                f"{_dotted(section, name)} must be at least {low:g}{upper}{finite}, got {value}"
                f"{f' ({hint})' if hint else ''}"
            )


_types = functools.cache(typing.get_type_hints)


def _value(kind: Any, value: Any, where: str) -> Any:
    """Returns parsed JSON as a value of the type `kind`."""
    if dataclasses.is_dataclass(kind):
        return from_dict(typing.cast(type, kind), value, where=where)
    if typing.get_origin(kind) is tuple and isinstance(value, list | tuple):
        item_kind = typing.get_args(kind)[0]
        return tuple(_value(item_kind, item, f"{where}[{i}]") for i, item in enumerate(value))
    _check_type(kind, value, where)
    return float(value) if kind is float else value


def _check_type(kind: Any, value: Any, where: str) -> None:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple and isinstance(value, list | tuple):
        for i, item in enumerate(value):
            is_integer = isinstance(item, numbers.Integral) and not isinstance(item, bool)
            _check_type(arguments[0], int(item) if is_integer else item, f"{where}[{i}]")
        return
    if origin is Literal:
        valid = value in arguments
    elif kind is float:
        valid = isinstance(value, numbers.Real) and not isinstance(value, bool)
    else:
        valid = type(value) is kind  # not isinstance: True is an instance of int
    if not valid:
        choices = " or ".join(map(repr, arguments))
        expected = choices if origin is Literal else str(kind) if arguments else kind.__name__
        raise ValueError(f"{where}: expected {expected}, got {value!r}")


def _dotted(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name
