"""What devices send each other in a compiled program, read off its optimised HLO text."""

import dataclasses
import math
import re

from flaxformer_mt.planning.hlo import array_bytes, operations

KINDS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")


@dataclasses.dataclass(frozen=True)
class Collective:
    """One kind, over a whole run of the program.

    Attributes:
      kind: as HLO has it, "all-reduce".
      count: how often it runs.
      bytes: what all of them give one device, together.
      sent: what one device sends for them, if each goes round in a ring.
    """

    kind: str
    count: int
    bytes: int
    sent: int


def count_collectives(hlo: str, *, devices: int) -> list[Collective]:
    """Every kind in the program, the most bytes first.

    What stands in a loop counts as often as the loop goes round; where the text does not tell how
    often (a search ends when it is done), once. A pair of -start and -done counts once.

    Args:
      hlo: `compiled.as_text()`.
      devices: of the program; a group of unknown size is taken to be all of them.
    """
    totals: dict[str, Collective] = {}
    for one in operations(hlo):
        kind = one.kind.removesuffix("-start")
        if kind not in KINDS:
            continue
        size = _result_bytes(one.type, halved=kind != one.kind)
        sent = round(size * _share_sent(kind, _group_size(one.line, devices)))
        old = totals.get(kind, Collective(kind, 0, 0, 0))
        totals[kind] = Collective(
            kind, old.count + one.times, old.bytes + one.times * size, old.sent + one.times * sent
        )
    return sorted(totals.values(), key=lambda one: -one.bytes)


def _result_bytes(types: str, *, halved: bool) -> int:
    """Of a type or a tuple of them; a -start gives its operands back beside its results."""
    sizes = array_bytes(types)
    if halved and types.startswith("((") or (halved and len(sizes) > 1 and len(sizes) % 2 == 0):
        return sum(sizes[len(sizes) // 2 :])
    return sum(sizes)


def _group_size(line: str, devices: int) -> int:
    """How many devices take part together."""
    if listed := re.search(r"replica_groups=\{\{([\d,]*)\}", line):
        return len(listed[1].split(","))
    if iota := re.search(r"replica_groups=\[(\d+),(\d+)\]<=", line):
        return int(iota[2])
    if named := re.search(r"replica_groups=mesh\[([^\]]*)\] \{([^}]*)\}", line):
        sizes = dict(re.findall(r"'(\w+)'=(\d+)", named[1]))
        return math.prod(int(sizes.get(axis, 1)) for axis in re.findall(r"'(\w+)'", named[2]))
    return devices


def _share_sent(kind: str, group: int) -> float:
    """Bytes that a device sends, for each byte that it is given, round a ring."""
    away = (group - 1) / group if group > 1 else 0.0
    if kind == "all-reduce":
        return 2 * away
    if kind == "reduce-scatter":
        return float(group - 1)
    return 1.0 if kind == "collective-permute" else away
