"""The compiler's estimate of memory and time of one program on some hardware."""

import dataclasses
import math
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from flaxformer_mt.inspection.flops import jaxpr_flops
from flaxformer_mt.planning.collectives import sent_bytes
from flaxformer_mt.planning.hardware import Hardware


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
    """Why it does not compile; "" if it does."""

    @property
    def seconds(self) -> float:
        """Computing time plus sending time; 0 = unknown. Real hardware overlaps some of the two."""
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
    """Returns the required bytes in a compiler's out-of-memory message; 0 if it has none.

    Examples: "Ran out of memory in memory space hbm. Used 20.51G of 15.75G hbm" and, of temporaries
    alone, "the total memory required for HLO temporaries (834.50G) exceeds available HBM".
    """
    used = re.search(r"(?:Used |required [^(]*\()([\d.]+)([KMGT])", message)
    return round(float(used[1]) * 1024 ** (1 + "KMGT".index(used[2]))) if used else 0


def _compute_seconds(compiled: Any, flops: int, hardware: Hardware) -> float:
    """Returns the compiler's time of one device without communication; 0 = unknown.

    The compiler counts every loop body once. So its time is multiplied by the ratio of our count of
    operations to its count.
    """
    if not hardware.flops:
        return 0.0
    costs: Any = compiled.cost_analysis() or {}
    of_device, counted = flops / len(hardware.devices), float(costs.get("flops", 0.0))
    # The two counts also differ slightly without loops, so they are compared only with loops.
    loops = " while(" in compiled.as_text() and counted > 0
    factor = max(1.0, of_device / counted) if loops else 1.0
    return max(0.0, float(costs.get("optimal_seconds", 0.0))) * factor
