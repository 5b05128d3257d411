"""Builds config dataclasses from JSON. Checks keys, types and bounds of numbers.

`dataclasses.asdict` is the inverse. Field types may be int, float, bool, str, Literal,
`tuple[X, ...]` and dataclasses of these.
"""

import dataclasses
import difflib
import math
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
    types = typing.get_type_hints(kind)
    names = [field.name for field in dataclasses.fields(typing.cast(Any, kind))]
    for name in values:
        if name not in names:
            raise ValueError(f"unknown key {_dotted(where, name)}: {did_you_mean(name, names)}")
    fields = {name: _value(types[name], values[name], _dotted(where, name)) for name in values}
    return kind(**fields)


def rename_keys(
    values: dict[str, Any], renamed: Mapping[str, str], removed: Iterable[str] = ()
) -> dict[str, Any]:
    """Returns nested dicts with the current keys, so that files of earlier versions load.

    `renamed` maps old to new dotted paths. The keys at the dotted paths `removed` are dropped.
    """
    from flax.traverse_util import flatten_dict, unflatten_dict  # imports JAX, which is slow

    flat = flatten_dict(values, sep=".", keep_empty_nodes=True)
    flat = {
        name: value
        for name, value in flat.items()
        if not any(f"{name}.".startswith(f"{old}.") for old in removed)
    }
    for old, new in renamed.items():
        if old in flat:
            flat.setdefault(new, flat.pop(old))
    return unflatten_dict(flat, sep=".")


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """Returns the end of an error message: the most similar choice, or all if none is similar."""
    choices = list(choices)
    nearest = difflib.get_close_matches(word, choices, n=1)
    return f"did you mean {nearest[0]}?" if nearest else f"choose from {', '.join(choices)}"


def _value(kind: Any, value: Any, where: str) -> Any:
    if dataclasses.is_dataclass(kind):
        return from_dict(typing.cast(type, kind), value, where=where)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple and isinstance(value, list | tuple):
        return tuple(_value(arguments[0], item, f"{where}[{i}]") for i, item in enumerate(value))
    if origin is Literal and value in arguments:
        return value
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is kind:  # not isinstance: True is an instance of int
        return value
    expected = " or ".join(map(repr, arguments)) if origin is Literal else _type_name(kind)
    raise ValueError(f"{where}: expected {expected}, got {value!r}")


def _type_name(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) and not typing.get_args(kind) else str(kind)


def _dotted(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


class Bounds(NamedTuple):
    """The finite numbers x with low <= x < below."""

    low: float
    below: float = math.inf


POSITIVE_INT = Bounds(1)
NOT_NEGATIVE = Bounds(0)
FRACTION = Bounds(0, 1)


def check_bounds(config: Any, section: str, bounds: Mapping[str, Bounds]) -> None:
    """Raises ValueError if a field of a dataclass is outside its bounds.

    The message names the field in its `section` (such as "training"), its bounds and its value.
    """
    for name, (low, below) in bounds.items():
        value = getattr(config, name)
        if not low <= value < below:
            wanted = f"at least {low}" + (f" and below {below}" if below < math.inf else "")
            finite = "" if math.isfinite(value) else " and finite"
            raise ValueError(f"{section}.{name} must be {wanted}{finite}, got {value}")
