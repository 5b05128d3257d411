"""The compiler's estimate of memory and time of one program on some hardware."""

import dataclasses
import functools
import math
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from flaxformer_mt.inspection.flops import jaxpr_flops
from flaxformer_mt.planning.hardware import Hardware

_COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.-]+) \(.*\{\s*$")
_COLLECTIVE = re.compile(
    r"^\s*(?:ROOT )?%?[\w.-]+ = (?P<type>.*?) (?P<kind>all-reduce|all-gather|reduce-scatter|"
    r"all-to-all|collective-permute)(?P<start>-start)?\("
)
_CALLED = re.compile(r" (?:calls|to_apply|body|true_computation|false_computation)=%?([\w.-]+)")
_ARRAY = re.compile(r"\b(pred|[a-z]+\d+(?:e\d+m\d+\w*)?)\[([\d,]*)\]")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Estimate:
    """Memory, operations, communication and time of one run of a program."""

    name: str
    """Name of the program, such as "train 96 x (256 -> 256)"."""
    peak_bytes: int = 0
    """Arguments, results and temporaries on one device; donated memory counts once."""
    flops: int = 0
    """Floating-point operations over all devices, counted before compiler optimisations."""
    sent: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Bytes that one device sends, by kind of collective."""
    compute_seconds: float = 0.0
    """Time without communication; 0 = unknown."""
    send_seconds: float = 0.0
    """Time of all collectives in sequence, at the full bandwidth of all links."""
    target_tokens: float = 0.0
    """Number of target tokens in the batch."""
    peak_flops: float = 0.0
    """Peak operations per second of all devices; 0 = unknown."""
    failure: str = ""
    """Why the program does not compile; "" if it does."""

    @property
    def seconds(self) -> float:
        """Computing time plus sending time; 0 = unknown. Real hardware overlaps them in part."""
        return self.compute_seconds + self.send_seconds if self.compute_seconds else 0.0

    @property
    def tokens_per_second(self) -> float:
        """Target tokens per second, over all devices; 0 = unknown."""
        return self.target_tokens / self.seconds if self.seconds else 0.0

    @property
    def utilization(self) -> float:
        """Share of the peak operations per second (MFU); 0 = unknown."""
        possible = self.peak_flops * self.seconds
        return self.flops / possible if possible else 0.0


def estimate(
    name: str,
    hardware: Hardware,
    program: Any,
    arguments: Sequence[Any],
    target_tokens: float = 0.0,
) -> Estimate:
    """Compiles a jitted program for `hardware` and returns the compiler's estimate.

    `arguments` are shapes with shardings on its devices. If compilation fails, the estimate has the
    reason as `failure` and, if the compiler states it, the required memory.
    """
    print(f"{hardware.name}: compiling {name}", file=sys.stderr)
    try:
        traced = program.trace(*arguments)
        flops = jaxpr_flops(traced.jaxpr)
        compiled = traced.lower().compile(compiler_options=hardware.compiler_options or None)
    except (ValueError, RuntimeError) as error:  # compilation raises RuntimeErrors
        lines = (line.strip() for line in str(error).splitlines())
        failure = next((line for line in lines if line), "no reason given")
        return Estimate(name=name, peak_bytes=requested_bytes(str(error)), failure=failure)
    sent = sent_bytes(compiled.as_text(), devices=len(hardware.devices))
    return Estimate(
        name=name,
        peak_bytes=peak_bytes(compiled),
        flops=flops,
        sent=sent,
        compute_seconds=_compute_seconds(compiled, flops, hardware),
        send_seconds=sent.total() / (hardware.interconnect or math.inf),
        target_tokens=target_tokens,
        peak_flops=hardware.flops * len(hardware.devices),
    )


def peak_bytes(compiled: Any) -> int:
    """Returns the bytes that a compiled program needs on each device."""
    memory = compiled.memory_analysis()
    results = memory.output_size_in_bytes - memory.alias_size_in_bytes
    return memory.argument_size_in_bytes + results + memory.temp_size_in_bytes


def requested_bytes(message: str) -> int:
    """Returns the required bytes that a compiler's out-of-memory message states; 0 if none.

    Examples: "Ran out of memory in memory space hbm. Used 20.51G of 15.75G hbm", and of temporaries
    alone "the total memory required for HLO temporaries (834.50G) exceeds available HBM".
    """
    used = re.search(r"(?:Used |required [^(]*\()([\d.]+)([KMGT])", message)
    return round(float(used[1]) * 1024 ** (1 + "KMGT".index(used[2]))) if used else 0


def _compute_seconds(compiled: Any, flops: int, hardware: Hardware) -> float:
    """Returns the compiler's time of one device without communication; 0 = unknown.

    The compiler counts every loop body once. So its time is scaled by the number of operations in
    `flops`, divided by the compiler's number.
    """
    if not hardware.flops:
        return 0.0
    costs: Any = compiled.cost_analysis() or {}
    of_device, counted = flops / len(hardware.devices), float(costs.get("flops", 0.0))
    # Without loops, the two numbers differ slightly, and the time needs no correction.
    loops = " while(" in compiled.as_text() and counted > 0
    factor = max(1.0, of_device / counted) if loops else 1.0
    return max(0.0, float(costs.get("optimal_seconds", 0.0))) * factor


def sent_bytes(hlo: str, *, devices: int) -> Counter[str]:
    """Returns the bytes that one device sends in one run, by kind such as "all-reduce".

    It assumes ring algorithms. A collective in a loop counts once for each iteration, or once if
    the text does not state the number of iterations. `hlo` is `compiled.as_text()`. A group without
    a stated size has all `devices`.
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
