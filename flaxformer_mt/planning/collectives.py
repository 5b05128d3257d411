"""Bytes that devices send each other in a compiled program, read from its optimised HLO text."""

import math
import re
from collections import Counter
from typing import NamedTuple

_COMPUTATION = re.compile(r"^(?:ENTRY )?%?([\w.-]+) \(.*\{\s*$")
_COLLECTIVE = re.compile(
    r"^\s*(?:ROOT )?%?[\w.-]+ = (?P<type>.*?) (?P<kind>all-reduce|all-gather|reduce-scatter|"
    r"all-to-all|collective-permute)(?P<start>-start)?\("
)
_CALLED = re.compile(r" (?:calls|to_apply|true_computation|false_computation)=%?([\w.-]+)")
_WHILE = re.compile(r" while\(.*condition=%?([\w.-]+), body=%?([\w.-]+)")
_ARRAY = re.compile(r"\b(pred|[a-z]+\d+(?:e\d+m\d+\w*)?)\[([\d,]*)\]")


class _Caller(NamedTuple):
    """The computation that runs another one, and how often."""

    name: str
    times: int


def sent_bytes(hlo: str, *, devices: int) -> Counter[str]:
    """Returns the bytes that one device sends in one run, by kind such as "all-reduce".

    Each collective goes round a ring of its group. In a loop it counts as often as the loop runs,
    or once where the text does not state the number of iterations.

    Args:
      hlo: `compiled.as_text()`.
      devices: of the program; the size of a group that the text does not state.
    """
    computations: dict[str, list[str]] = {}
    name = ""
    for line in hlo.splitlines():
        if found := _COMPUTATION.match(line):
            name = found[1]
        computations.setdefault(name, []).append(line)
    callers: dict[str, _Caller] = {}
    for caller, lines in computations.items():
        for line in lines:
            if loop := _WHILE.search(line):
                trips = _trip_count(line, computations.get(loop[1], []))
                callers[loop[2]] = _Caller(caller, trips)
            callers |= {name: _Caller(caller, 1) for name in _CALLED.findall(line)}
    sent: Counter[str] = Counter()
    for computation, lines in computations.items():
        times = _times(computation, callers)
        for line in lines:
            if found := _COLLECTIVE.match(line):
                size = _result_bytes(found["type"], is_start=bool(found["start"]))
                share = _share_sent(found["kind"], _group_size(line, devices))
                sent[found["kind"]] += times * round(size * share)
    return sent


def _times(computation: str, callers: dict[str, _Caller]) -> int:
    """How often a computation runs: the product of the loops around it."""
    times = 1
    while computation in callers:
        computation, trips = callers[computation]
        times *= trips
    return times


def _trip_count(line: str, condition: list[str]) -> int:
    """Iterations of a loop that counts up to a constant; 1 for any other loop."""
    if known := re.search(r'known_trip_count":\{"n":"(\d+)"', line):
        return int(known[1])
    text = "\n".join(condition)
    compared = re.search(r"ROOT .* compare\([^)]*?%?([\w.-]+)\), direction=LT", text)
    if not compared:
        return 1
    limit = re.search(rf"%?{re.escape(compared[1])} = s32\[\]\S* constant\((\d+)\)", text)
    return int(limit[1]) if limit else 1


def _result_bytes(types: str, *, is_start: bool) -> int:
    """Bytes of a type or a tuple of types; an asynchronous start lists its operands first."""
    sizes = [
        _width(name) * math.prod(int(size) for size in shape.split(",") if size)
        for name, shape in _ARRAY.findall(types)
    ]
    if is_start and len(sizes) > 1 and len(sizes) % 2 == 0:
        return sum(sizes[len(sizes) // 2 :])
    return sum(sizes)


def _width(name: str) -> int:
    """Bytes of one number: f32 4, bf16 2, pred 1."""
    bits = re.search(r"\d+", name)
    return max(1, int(bits[0]) // 8) if bits else 1


def _group_size(line: str, devices: int) -> int:
    """Devices that take part in one collective."""
    if listed := re.search(r"replica_groups=\{\{([\d,]*)\}", line):
        return len(listed[1].split(","))
    if iota := re.search(r"replica_groups=\[(\d+),(\d+)\]<=", line):
        return int(iota[2])
    if named := re.search(r"replica_groups=mesh\[([^\]]*)\] \{([^}]*)\}", line):
        sizes = dict(re.findall(r"'(\w+)'=(\d+)", named[1]))
        return math.prod(int(sizes.get(axis, 1)) for axis in re.findall(r"'(\w+)'", named[2]))
    return devices


def _share_sent(kind: str, group: int) -> float:
    """Bytes that a device sends for each byte of its result, round a ring of `group` devices."""
    others = (group - 1) / group if group > 1 else 0.0
    if kind == "all-reduce":
        return 2 * others
    if kind == "reduce-scatter":
        return float(group - 1)
    return 1.0 if kind == "collective-permute" else others
