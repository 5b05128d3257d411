"""Rules for reading flags and for showing them in the help, where they differ from tyro's."""

import dataclasses
import typing
from typing import Any

from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

FLAG_TYPES = ConstructorRegistry()
"""For the argument `registry` of `tyro.cli`."""


@FLAG_TYPES.primitive_rule
def _bool_rule(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
    """Accepts `--flag`, `--flag true` and `--flag false`; tyro accepts `--flag` and `--no-flag`."""
    if info.type is not bool:
        return None
    return PrimitiveConstructorSpec(
        nargs=(0, 1),
        metavar="[true|false]",
        instance_from_str=_parse_bool,
        is_instance=lambda value: isinstance(value, bool),
        str_from_instance=lambda value: [str(value).lower()],
    )


def _parse_bool(words: list[str]) -> bool:
    word = words[0].lower() if words else "true"
    if word not in ("true", "false"):
        raise ValueError(f"expected true or false, got {words[0]!r}")
    return word == "true"


@FLAG_TYPES.primitive_rule
def _optional_rule(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
    """Shows `X | None` as X: None is the value of a flag that is not given."""
    kinds = typing.get_args(info.type)
    if len(kinds) != 2 or kinds[1] is not type(None):
        return None
    spec = ConstructorRegistry.get_primitive_spec(PrimitiveTypeInfo.make(kinds[0], info.markers))
    assert isinstance(spec, PrimitiveConstructorSpec)
    return dataclasses.replace(
        spec,
        is_instance=lambda value: value is None or spec.is_instance(value),
        str_from_instance=lambda value: (
            ["not", "given"] if value is None else spec.str_from_instance(value)
        ),
    )
