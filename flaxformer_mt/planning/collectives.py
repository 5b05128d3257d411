"""Counts the bytes that devices send in a compiled program, from its optimised HLO text."""

import functools
import math
import re
from collections import Counter

_COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.-]+) \(.*\{\s*$")
_COLLECTIVE = re.compile(
    r"^\s*(?:ROOT )?%?[\w.-]+ = (?P<type>.*?) (?P<kind>all-reduce|all-gather|reduce-scatter|"
    r"all-to-all|collective-permute)(?P<start>-start)?\("
)
_CALLED = re.compile(r" (?:calls|to_apply|body|true_computation|false_computation)=%?([\w.-]+)")
_ARRAY = re.compile(r"\b(pred|[a-z]+\d+(?:e\d+m\d+\w*)?)\[([\d,]*)\]")


def sent_bytes(hlo: str, *, devices: int) -> Counter[str]:
    """Returns the bytes that one device sends in one run, by kind such as "all-reduce".

    It assumes ring algorithms. A collective in a loop counts once for each iteration, or once if
    the text does not state the number of iterations. `hlo` is `compiled.as_text()`. `devices` is
    also the default size of a group.
    """
    computations: dict[str, list[str]] = {}
    name = entry = ""
    for line in hlo.splitlines():
        if found := _COMPUTATION.match(line):
            name = found[2]
            entry = name if found[1] else entry
        computations.setdefault(name, []).append(line)

    @functools.cache
    def sent_by(computation: str) -> Counter[str]:
        sent: Counter[str] = Counter()
        for line in computations.get(computation, ()):
            if found := _COLLECTIVE.match(line):
                size = _result_bytes(found["type"], is_start=bool(found["start"]))
                sent[found["kind"]] += round(size * _sent_share(found["kind"], line, devices))
            loop = re.search(r" while\(.*condition=%?([\w.-]+)", line)
            times = _trip_count(line, computations.get(loop[1], [])) if loop else 1
            for called in _CALLED.findall(line):
                inner = sent_by(called)
                if called.startswith("all-reduce-scatter"):
                    # TPUs fuse an all-reduce and the slice of it that each device keeps.
                    inner = Counter({"reduce-scatter": inner.total() // 2})
                sent.update({kind: times * size for kind, size in inner.items()})
        return sent

    return sent_by(entry)


def _trip_count(line: str, condition: list[str]) -> int:
    """Returns the iterations of a loop that counts up to a constant; 1 for any other loop."""
    if known := re.search(r'known_trip_count":\{"n":"(\d+)"', line):
        return int(known[1])
    text = "\n".join(condition)
    compared = re.search(r"ROOT .* compare\([^)]*?%?([\w.-]+)\), direction=LT", text)
    if not compared:
        return 1
    limit = re.search(rf"%?{re.escape(compared[1])} = s32\[\]\S* constant\((\d+)\)", text)
    return int(limit[1]) if limit else 1


def _result_bytes(types: str, *, is_start: bool) -> int:
    """Returns the bytes of a type or a tuple of types.

    The tuple of an asynchronous start lists operands, results and, as u32 scalars, its context.
    """
    sizes = []
    for name, shape in _ARRAY.findall(types):
        if is_start and name == "u32" and not shape:
            continue  # context
        bits = re.search(r"\d+", name)
        width = max(1, int(bits[0]) // 8) if bits else 1  # f32 4, bf16 2, pred 1
        sizes.append(width * math.prod(int(size) for size in shape.split(",") if size))
    if is_start and len(sizes) > 1 and len(sizes) % 2 == 0:
        sizes = sizes[len(sizes) // 2 :]
    return sum(sizes)


def _sent_share(kind: str, line: str, devices: int) -> float:
    """Returns the bytes that a device sends for each byte of its result in a ring algorithm."""
    group = _group_size(line, devices)
    if kind == "all-reduce":
        return 2 * (group - 1) / group
    if kind == "reduce-scatter":
        return group - 1.0
    return 1.0 if kind == "collective-permute" else (group - 1) / group


def _group_size(line: str, devices: int) -> int:
    """Returns the number of devices in the group of a collective."""
    if listed := re.search(r"replica_groups=\{\{([\d,]*)\}", line):
        return len(listed[1].split(","))
    if iota := re.search(r"replica_groups=\[(\d+),(\d+)\]<=", line):
        return int(iota[2])
    if named := re.search(r"replica_groups=mesh\[([^\]]*)\] \{([^}]*)\}", line):
        sizes = dict(re.findall(r"'(\w+)'=(\d+)", named[1]))
        return math.prod(int(sizes.get(axis, 1)) for axis in re.findall(r"'(\w+)'", named[2]))
    return devices
