"""Where arrays live: a mesh of devices, the batch split over it, the state on every device."""

import contextlib
import dataclasses
import os
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec


@dataclasses.dataclass(frozen=True, kw_only=True)
class MeshConfig:
    """Which devices to use, and as what."""

    cpu_devices: int = 0
    """Without an accelerator: how many devices to make of the CPU; 0 = one a core, at most 8. Two
    devices of one thread each train faster than one device of two threads."""

    def __post_init__(self) -> None:
        if self.cpu_devices < 0:
            raise ValueError(f"mesh.cpu_devices must not be negative, got {self.cpu_devices}")


def configure_cpu_devices(config: MeshConfig) -> None:
    """Divides the CPU into devices; must come before JAX is used for the first time.

    Changes nothing where JAX is in use already (a notebook, say), or where XLA_FLAGS or
    JAX_NUM_CPU_DEVICES has settled the number. Accelerators are not concerned.
    """
    settled = "host_platform_device_count" in os.environ.get("XLA_FLAGS", "")
    if settled or "JAX_NUM_CPU_DEVICES" in os.environ:
        return
    cores = min(8, _usable_cores())
    # A power of two up to 8 divides the rows of every batch (see data.pipeline).
    devices = config.cpu_devices or 2 ** (cores.bit_length() - 1)
    with contextlib.suppress(RuntimeError):  # JAX is in use already
        jax.config.update("jax_num_cpu_devices", devices)


def _usable_cores() -> int:
    """The cores that this process may run on: `taskset` and job schedulers give it fewer."""
    if hasattr(os, "sched_getaffinity"):  # Linux
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def make_mesh() -> Mesh:
    """All devices of all processes along one axis, `data`."""
    return Mesh(np.array(jax.devices()), ("data",))


def replicated(mesh: Mesh) -> NamedSharding:
    """A whole copy on every device: parameters and optimiser state."""
    return NamedSharding(mesh, PartitionSpec())


def split_rows(mesh: Mesh) -> NamedSharding:
    """Rows (the first dimension, B) divided among the devices of the `data` axis."""
    return NamedSharding(mesh, PartitionSpec("data"))


def shard_batch(batch: Any, mesh: Mesh) -> Any:
    """This process's rows (NumPy) as its part of one global batch of jax.Arrays.

    Every process calls it with the same number of rows, which must be divisible by its number of
    devices in the mesh; the global batch has rows * process_count rows.
    """
    sharding = split_rows(mesh)
    return jax.tree.map(lambda x: jax.make_array_from_process_local_data(sharding, x), batch)
