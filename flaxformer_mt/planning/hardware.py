"""Devices to compile for: TPU slices and GPUs that need not be here, or the local devices.

open_topology("v5e:2x4")    8 TPU chips; needs Linux and the extra [tpu]
open_topology("h100:8")     8 GPUs of one host; needs Linux and the extra [gpu-compiler]
local_devices()             the devices that JAX finds here
"""

import contextlib
import dataclasses
import importlib.util
import math
import os
import re
from importlib import resources
from typing import Any

import jax

EXAMPLES = "v5e:1x1, v5e:2x4, v5e:16x16, v6e:2x4, v4:2x2x2, v5p:2x2x1, h100:1, h100:8"
# From Google's page on each TPU version (cloud.google.com/tpu/docs): GiB of memory, bfloat16
# operations/s, bits/s to other chips, dimensions of a slice, most chips of a slice.
_TPUS = {
    "v4": (32, 275e12, 2400e9, 3, 4096),
    "v5e": (16, 197e12, 1600e9, 2, 256),
    "v5p": (95, 459e12, 4800e9, 3, 8960),
    "v6e": (32, 918e12, 3584e9, 2, 256),
}
_H100_MEMORY = 84_929_347_584
# Without these, libtpu logs a lot, queries a cloud service, and refuses to share this machine.
_FOR_LIBTPU = {
    "TPU_SKIP_MDS_QUERY": "1",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "TPU_ACCELERATOR_TYPE": "v5litepod-1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_STDERR_LOG_LEVEL": "3",
    "TPU_MIN_LOG_LEVEL": "3",
}
# There is no driver to check, and autotuning would need a GPU to run kernels.
_FOR_CUDA = {
    "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1",
    "XLA_FLAGS": "--xla_gpu_autotune_level=0 --xla_gpu_enable_triton_gemm=false",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Hardware:
    """Devices to compile for, and the specification of each device; 0 = unknown."""

    name: str
    devices: tuple[Any, ...]
    """JAX devices. Programs can be compiled for the devices of a topology, but cannot run there."""
    memory: int = 0
    """Bytes of memory."""
    flops: float = 0.0
    """Peak bfloat16 operations per second."""
    interconnect: float = 0.0
    """Bytes per second from a device to others, over all links."""
    compiler_options: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Options for `Lowered.compile`."""


def open_topology(name: str) -> Hardware:
    """Returns devices to compile for, by name: TPU chips ("v5e:2x4") or GPUs ("h100:8").

    Raises ValueError if the hardware is unknown, or its compiler is not installed.
    """
    if gpus := re.fullmatch(r"h100:([1-8])", name):
        return _open_h100(name, int(gpus[1]))
    return _open_tpu(name, *_parse_tpu(name))


def hosts_of(name: str) -> tuple[int, int]:
    """Returns the number of hosts of a topology, and the number of chips of each host.

    Raises ValueError for a name that `open_topology` does not know, and if the number of chips is
    not a multiple of the chips of a host.
    """
    if gpus := re.fullmatch(r"h100:([1-8])", name):
        return 1, int(gpus[1])
    _, bounds = _parse_tpu(name)
    count = math.prod(bounds)
    # A slice of v5e or v6e with 8 chips has one host. All larger slices have 4 chips a host.
    per_host = count if count <= 4 or (len(bounds) == 2 and count == 8) else 4
    if count % per_host:
        raise ValueError(
            f"--topology {name}: hosts have 4 chips, but {count} chips are not a multiple of 4"
        )
    return count // per_host, per_host


def local_devices() -> Hardware:
    """Returns the devices of this machine, with their memory where JAX knows it."""
    devices = tuple(jax.devices())
    statistics: Any = devices[0].memory_stats() or {}
    name = f"{len(devices)} x {devices[0].device_kind}"
    return Hardware(name=name, devices=devices, memory=statistics.get("bytes_limit", 0))


def _parse_tpu(name: str) -> tuple[str, list[int]]:
    """Returns the TPU version and the arrangement of chips of a topology."""
    tpus = re.fullmatch(r"(v\d+[a-z]?):(\d+(?:x\d+){1,2})", name)
    if not tpus or tpus[1] not in _TPUS:
        raise ValueError(
            f"--topology must be a TPU version ({', '.join(_TPUS)}) and an arrangement of chips, "
            f"or h100 and a number of GPUs from 1 to 8, such as {EXAMPLES}; got {name!r}"
        )
    version, bounds = tpus[1], [int(n) for n in tpus[2].split("x")]
    *_, axes, max_chips = _TPUS[version]
    if len(bounds) != axes or not 1 <= math.prod(bounds) <= max_chips:
        raise ValueError(
            f"--topology {name}: slices of {version} have {axes} dimensions and at most "
            f"{max_chips} chips; examples: {EXAMPLES}"
        )
    return version, bounds


def _open_tpu(name: str, version: str, bounds: list[int]) -> Hardware:
    gib, flops, interconnect_bits, *_ = _TPUS[version]
    count = math.prod(bounds)
    # A host has 2 x 2 chips. In slices that do not divide by that, it has one chip.
    even = bounds[0] % 2 == 0 and bounds[1] % 2 == 0
    options = {} if even else {"chips_per_host_bounds": (1, 1, 1)}
    devices = _describe(name, "tpu", "libtpu", _FOR_LIBTPU, topology_name=name, **options)
    per_chip = max(1, len(devices) // count)  # a v4 chip has two devices, which share it equally
    return Hardware(
        name=name,
        devices=devices,
        memory=(gib << 30) // per_chip,
        flops=flops / per_chip,
        interconnect=interconnect_bits / 8 / per_chip,
        # At default effort, compilation takes seven times as long, and states no time.
        compiler_options={"exec_time_optimization_effort": -1.0},
    )


def _open_h100(name: str, count: int) -> Hardware:
    """Returns H100 GPUs. Their `flops` is 0, because their compiler states no time."""
    target = resources.files("flaxformer_mt.planning").joinpath("h100.txtpb").read_text()
    options = {"topology_name": "h100", "target_config": target, "topology": f"1x1x{count}"}
    devices = _describe(name, "cuda", "jax_cuda13_plugin", _FOR_CUDA, **options)
    return Hardware(name=name, devices=devices, memory=_H100_MEMORY)


def _describe(
    name: str, platform: str, plugin: str, environment: dict[str, str], **options: Any
) -> tuple[Any, ...]:
    """Returns the devices that a compiler plug-in makes from the options."""
    from jax.experimental import topologies

    if importlib.util.find_spec(plugin) is None:
        extra = {"tpu": "tpu", "cuda": "gpu-compiler"}[platform]
        raise ValueError(
            f"compiling for {name} needs {plugin}, but not the device: "
            f"pip install 'flaxformer-mt[{extra}]'"
        )
    for variable, value in environment.items():
        given = os.environ.get(variable, "")
        both = f"{value} {given}".strip()  # of two equal flags, XLA takes the last
        os.environ[variable] = both if variable == "XLA_FLAGS" else given or value
    with contextlib.suppress(RuntimeError):  # JAX is already in use
        jax.config.update("jax_platforms", "cpu")
    try:
        return tuple(topologies.get_topology_desc(platform=platform, **options).devices)
    except Exception as error:  # the plug-in may raise anything
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise ValueError(
            f"cannot compile for --topology {name}: {reason} (examples: {EXAMPLES})"
        ) from error
