"""Devices to compile for: a slice of TPU chips that libtpu describes, or those of this machine.

open_topology("v5e:2x4")    8 chips, on any Linux machine with libtpu, which compiles for them
local_devices()             what JAX finds here
"""

import contextlib
import dataclasses
import importlib.util
import math
import os
import re
from typing import Any

import jax

EXAMPLES = "v5e:1x1, v5e:2x4, v5e:16x16, v6e:2x4, v4:2x2x2, v5p:2x2x1"
_QUIET = {
    "TPU_SKIP_MDS_QUERY": "1",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "TPU_ACCELERATOR_TYPE": "v5litepod-1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_STDERR_LOG_LEVEL": "3",
    "TPU_MIN_LOG_LEVEL": "3",
}
_PATTERN = re.compile(r"(?P<kind>v\d+[a-z]?):(?P<bounds>\d+(x\d+){1,2})")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Chip:
    """What its maker states of one device. 0 = not known.

    Attributes:
      name: such as "v5e".
      memory: bytes of HBM.
      flops: bfloat16 operations a second, at most.
      bandwidth: bytes a second between HBM and the cores, at most.
      interconnect: bytes a second that it can send to other chips, all links together.
      axes: dimensions of the grid or torus in which its slices lie.
      most: chips of the largest slice.
    """

    name: str
    memory: int = 0
    flops: float = 0.0
    bandwidth: float = 0.0
    interconnect: float = 0.0
    axes: int = 0
    most: int = 0


# From Google's pages on each TPU version (cloud.google.com/tpu/docs).
_STATED = {  # GiB, operations, bytes from memory, bits to other chips (a second), axes, most chips
    "v4": (32, 275e12, 1228e9, 2400e9, 3, 4096),
    "v5e": (16, 197e12, 819e9, 1600e9, 2, 256),
    "v5p": (95, 459e12, 2765e9, 4800e9, 3, 8960),
    "v6e": (32, 918e12, 1640e9, 3584e9, 2, 256),
}
CHIPS = {
    name: Chip(
        name=name,
        memory=memory << 30,
        flops=flops,
        bandwidth=bandwidth,
        interconnect=bits / 8,
        axes=axes,
        most=most,
    )
    for name, (memory, flops, bandwidth, bits, axes, most) in _STATED.items()
}


@dataclasses.dataclass(frozen=True)
class Slice:
    """Devices and what each of them is.

    Attributes:
      name: for people, "v5e:2x4".
      devices: as JAX has them; those of a topology can be compiled for, not run on.
      chip: of one device: a v4 chip is two devices to this compiler, each with half of all.
      compiler_options: for `Lowered.compile`.
    """

    name: str
    devices: tuple[Any, ...]
    chip: Chip
    compiler_options: dict[str, Any] = dataclasses.field(default_factory=dict)


def open_topology(name: str, *, full_effort: bool = False) -> Slice:
    """The chips of a TPU slice that need not be there.

    Args:
      name: version and arrangement, "v5e:2x4".
      full_effort: compile as a real run does, which takes some seven times as long, and after
        which this compiler states no time.

    Raises:
      ValueError: no such slice, or no libtpu: says how to get it.
    """
    match = _PATTERN.fullmatch(name)
    if not match or match["kind"] not in CHIPS:
        raise ValueError(
            f"--topology must be a TPU version ({', '.join(CHIPS)}) and an arrangement of chips, "
            f"such as {EXAMPLES}; got {name!r}"
        )
    if importlib.util.find_spec("libtpu") is None:
        raise ValueError(
            f"compiling for {name} takes libtpu (no TPU is needed): pip install -e '.[tpu]'"
        )
    # It is never asked to run anything: let it be quiet, ask no cloud, and share this machine.
    for variable, value in _QUIET.items():
        os.environ.setdefault(variable, value)
    with contextlib.suppress(RuntimeError):  # JAX is in use already
        jax.config.update("jax_platforms", "cpu")
    bounds = [int(size) for size in match["bounds"].split("x")]
    chip = CHIPS[match["kind"]]
    if len(bounds) != chip.axes or not 1 <= math.prod(bounds) <= chip.most:
        raise ValueError(
            f"--topology {name}: slices of {chip.name} have {chip.axes} dimensions and at most "
            f"{chip.most} chips (there are, for example, {EXAMPLES})"
        )
    devices = _describe(name, bounds)
    cores = max(1, len(devices) // math.prod(bounds))
    one = dataclasses.replace(
        chip,
        memory=chip.memory // cores,
        flops=chip.flops / cores,
        bandwidth=chip.bandwidth / cores,
        interconnect=chip.interconnect / cores,
    )
    options = {} if full_effort else {"exec_time_optimization_effort": -1.0}
    return Slice(name, devices, one, options)


def _describe(name: str, bounds: list[int]) -> tuple[Any, ...]:
    from jax.experimental import topologies

    # A host has 2 x 2 chips, but for slices that are smaller or do not divide: there it has one.
    even = bounds[0] % 2 == 0 and bounds[1] % 2 == 0
    host = {} if even else {"chips_per_host_bounds": (1, 1, 1)}
    try:
        return tuple(topologies.get_topology_desc(name, platform="tpu", **host).devices)
    except Exception as error:  # of the plug-in: whatever it raises is about this name
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"--topology {name} cannot be compiled for: {reason} (these can: {EXAMPLES})"
        ) from error


def local_devices() -> Slice:
    """The devices that JAX finds here; their memory, if they tell it."""
    devices = tuple(jax.devices())
    statistics: Any = devices[0].memory_stats() or {}
    kind = devices[0].device_kind
    chip = Chip(name=kind, memory=statistics.get("bytes_limit", 0))
    return Slice(f"{len(devices)} local x {kind}", devices, chip)
