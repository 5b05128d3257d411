"""The operations of a compiled program, read off its optimised HLO text."""

import math
import re
from collections.abc import Iterator
from typing import NamedTuple

_COMPUTATION = re.compile(r"^(?:ENTRY )?%?([\w.-]+) \(.*\{\s*$")
_OPERATION = re.compile(r"^\s*(?:ROOT )?%?[\w.-]+ = (?P<type>.*?) (?P<kind>[a-z][a-z-]*)\(")
_WHILE = re.compile(r" while\(.*condition=%?([\w.-]+), body=%?([\w.-]+)")
_CALLED = re.compile(
    r"(?:calls|to_apply|body|condition|true_computation|false_computation)=%?([\w.-]+)"
)
_ARRAY = re.compile(
    r"\b(?P<name>pred|[a-z]+\d+(?:e\d+m\d+\w*)?)\[(?P<shape>[\d,]*)\]"
    r"(?:\{(?P<order>[\d,]*)(?::T\((?P<tile>[\d,]+)\))?)?"
)


class Operation(NamedTuple):
    """One line of the text.

    Attributes:
      kind: as HLO has it, "all-reduce-start".
      type: of its result.
      line: all of it.
      times: how often it runs.
      in_loop: whether it stands in a loop.
      fused: whether it is part of another operation, and leaves nothing in memory.
    """

    kind: str
    type: str
    line: str
    times: int
    in_loop: bool
    fused: bool


class _Call(NamedTuple):
    computation: str
    times: int = 1
    in_loop: bool = False
    fused: bool = False


def operations(hlo: str) -> Iterator[Operation]:
    """All that runs, once for each place that calls it.

    What stands in a loop counts as often as the loop goes round; where the text does not tell how
    often (a search ends when it is done), once.

    Args:
      hlo: `compiled.as_text()`.
    """
    texts: dict[str, list[str]] = {}
    here = entry = ""
    for line in hlo.splitlines():
        if opened := _COMPUTATION.match(line):
            here = opened[1]
            entry = here if line.startswith("ENTRY") else entry
        texts.setdefault(here, []).append(line)
    waiting = [_Call(entry)]
    while waiting:
        caller = waiting.pop()
        for line in texts.get(caller.computation, ()):
            if found := _OPERATION.match(line):
                yield Operation(found["kind"], found["type"], line, *caller[1:])
            waiting += [
                _Call(
                    called.computation,
                    caller.times * called.times,
                    caller.in_loop or called.in_loop,
                    caller.fused or called.fused,
                )
                for called in _calls(line, texts)
            ]


def array_bytes(types: str, *, tiled: bool = False) -> list[int]:
    """Of each array of a type or a tuple of them.

    Args:
      types: as HLO has them: "(f32[8,64]{1,0:T(8,128)}, s32[])".
      tiled: with what fills up the tiles in which the array lies.
    """
    return [
        _width(found["name"]) * math.prod(_extents(found, tiled=tiled))
        for found in _ARRAY.finditer(types)
    ]


def _extents(array: re.Match[str], *, tiled: bool) -> list[int]:
    """Dimensions, the major ones first if `tiled`: the last are then multiples of the tile's."""
    shape = [int(size) for size in array["shape"].split(",") if size]
    if not tiled or not array["tile"] or not shape:
        return shape
    extents = [shape[int(place)] for place in reversed(array["order"].split(","))]
    tile = [int(size) for size in array["tile"].split(",")][-len(extents) :]
    whole = extents[: len(extents) - len(tile)]
    parts = zip(extents[len(whole) :], tile, strict=True)
    return whole + [-(-extent // size) * size for extent, size in parts]


def _calls(line: str, texts: dict[str, list[str]]) -> list[_Call]:
    """The computations that a line calls, and how often."""
    if "=%" not in line and "={" not in line:
        return []
    if loop := _WHILE.search(line):
        return [_Call(loop[2], _trip_count(line, texts.get(loop[1], [])), in_loop=True)]
    called = _CALLED.findall(line)
    for branches in re.findall(r"branch_computations=\{([^}]*)\}", line):
        called += [name.strip().lstrip("%") for name in branches.split(",")]
    return [_Call(name, fused=" fusion(" in line) for name in called if name in texts]


def _trip_count(line: str, condition: list[str]) -> int:
    """How often a loop goes round, if it counts up to a constant; else 1."""
    if known := re.search(r'known_trip_count":\{"n":"(\d+)"', line):
        return int(known[1])
    text = "\n".join(condition)
    compared = re.search(r"ROOT .* compare\([^)]*?%?([\w.-]+)\), direction=LT", text)
    if not compared:
        return 1
    limit = re.search(rf"%?{re.escape(compared[1])} = s32\[\]\S* constant\((\d+)\)", text)
    return int(limit[1]) if limit else 1


def _width(name: str) -> int:
    """Bytes of one number of an HLO type: f32 4, bf16 2, pred 1."""
    bits = re.search(r"\d+", name)
    return max(1, int(bits[0]) // 8) if bits else 1
