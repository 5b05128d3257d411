"""How arrays lie in a compiled program: what fills up their tiles, and what moves them about.

A TPU keeps arrays in tiles of 8 x 128 numbers (float32), which dimensions that do not divide leave
partly empty; and where one operation wants an array in another order than the last one left it in,
all of it is copied.
"""

import dataclasses
import re

from flaxformer_mt.planning.hlo import array_bytes, operations

MOVES = ("copy", "transpose", "reshape")


@dataclasses.dataclass(frozen=True)
class Move:
    """One kind of moving, over a whole run of the program.

    Attributes:
      kind: "copy", "transpose" or "reshape", as HLO has it.
      in_loop: those that stand in a loop, or those that do not.
      count: how often it runs.
      bytes: written, tiles filled up.
    """

    kind: str
    in_loop: bool
    count: int
    bytes: int


def count_moves(hlo: str) -> list[Move]:
    """All that only move numbers, the most bytes first; not those that are part of another one.

    Args:
      hlo: `compiled.as_text()`.
    """
    totals: dict[tuple[str, bool], Move] = {}
    for one in operations(hlo):
        if one.kind not in MOVES or one.fused:
            continue
        key = one.kind, one.in_loop
        size = sum(array_bytes(one.type, tiled=True))
        old = totals.get(key, Move(*key, 0, 0))
        totals[key] = Move(*key, old.count + one.times, old.bytes + one.times * size)
    return sorted(totals.values(), key=lambda one: -one.bytes)


def argument_padding(hlo: str) -> float:
    """Bytes of a program's arguments as they lie / bytes of their numbers; 1 = nothing wasted."""
    found = re.search(r"entry_computation_layout=\{\((.*?)\)->", hlo)
    if not found:
        return 1.0
    numbers = sum(array_bytes(found[1]))
    return sum(array_bytes(found[1], tiled=True)) / numbers if numbers else 1.0
