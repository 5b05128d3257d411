"""What devices send each other in a compiled program, read off its optimised HLO text."""

import dataclasses
import math
import re
from collections.abc import Iterator
from typing import NamedTuple

KINDS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")
_COMPUTATION = re.compile(r"^(?:ENTRY )?%?([\w.-]+) \(.*\{\s*$")
_OPERATION = re.compile(
    rf"^\s*(?:ROOT )?%?[\w.-]+ = (?P<type>.*?) (?P<kind>{'|'.join(KINDS)})(?P<start>-start)?\("
)
_WHILE = re.compile(r" while\(.*condition=%?([\w.-]+), body=%?([\w.-]+)")
_CALLED = re.compile(
    r"(?:calls|to_apply|body|condition|true_computation|false_computation)=%?([\w.-]+)"
)
_ARRAY = re.compile(r"\b(pred|[a-z]+\d+(?:e\d+m\d+\w*)?)\[([\d,]*)\]")


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


class _Line(NamedTuple):
    kind: str
    bytes: int
    group: int


def count_collectives(hlo: str, *, devices: int) -> list[Collective]:
    """Every kind in the program, the most bytes first.

    What stands in a loop counts as often as the loop goes round; where the text does not tell how
    often (a search ends when it is done), once. A pair of -start and -done counts once.

    Args:
      hlo: `compiled.as_text()`.
      devices: of the program; a group of unknown size is taken to be all of them.
    """
    lines: dict[str, list[_Line]] = {}
    calls: dict[str, list[tuple[str, int]]] = {}
    texts: dict[str, list[str]] = {}
    here = entry = ""
    for line in hlo.splitlines():
        if opened := _COMPUTATION.match(line):
            here = opened[1]
            entry = here if line.startswith("ENTRY") else entry
        texts.setdefault(here, []).append(line)
    for here, text in texts.items():
        for line in text:
            calls.setdefault(here, []).extend(_calls(line, texts))
            if found := _OPERATION.match(line):
                of_line = _Line(
                    found["kind"],
                    _bytes(found["type"], halved=found["start"] is not None),
                    _group_size(line, devices),
                )
                lines.setdefault(here, []).append(of_line)
    totals: dict[str, Collective] = {}
    for computation, times in _runs(entry, calls):
        for kind, size, group in lines.get(computation, ()):
            old = totals.get(kind, Collective(kind, 0, 0, 0))
            sent = round(size * _share_sent(kind, group))
            totals[kind] = Collective(
                kind, old.count + times, old.bytes + times * size, old.sent + times * sent
            )
    return sorted(totals.values(), key=lambda one: -one.bytes)


def _runs(entry: str, calls: dict[str, list[tuple[str, int]]]) -> Iterator[tuple[str, int]]:
    """Each computation with how often it runs, once for each place that calls it."""
    waiting = [(entry, 1)]
    while waiting:
        computation, times = waiting.pop()
        yield computation, times
        waiting += [(name, times * each) for name, each in calls.get(computation, ())]


def _calls(line: str, texts: dict[str, list[str]]) -> list[tuple[str, int]]:
    """The computations that a line calls, and how often."""
    if "=%" not in line and "={" not in line:
        return []
    if loop := _WHILE.search(line):
        return [(loop[2], _trip_count(line, texts.get(loop[1], [])))]
    called = _CALLED.findall(line)
    for branches in re.findall(r"branch_computations=\{([^}]*)\}", line):
        called += [name.strip().lstrip("%") for name in branches.split(",")]
    return [(name, 1) for name in called if name in texts]


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


def _bytes(types: str, *, halved: bool) -> int:
    """Of a type or a tuple of them; a -start gives its operands back beside its results."""
    sizes = [
        math.prod(int(size) for size in shape.split(",") if size) * _width(name)
        for name, shape in _ARRAY.findall(types)
    ]
    if halved and types.startswith("((") or (halved and len(sizes) > 1 and len(sizes) % 2 == 0):
        return sum(sizes[len(sizes) // 2 :])
    return sum(sizes)


def _width(name: str) -> int:
    """Bytes of one number of an HLO type: f32 4, bf16 2, pred 1."""
    bits = re.search(r"\d+", name)
    return max(1, int(bits[0]) // 8) if bits else 1


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
