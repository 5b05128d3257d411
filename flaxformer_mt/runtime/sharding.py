"""The device mesh and the sharding rules: which mesh axis splits which axis of an array.

    data    devices that hold copies of the parameters and process different sentences
    fsdp    devices that process different sentences and split the parameters: each holds a part
            and gathers the rest when it needs it (ZeRO; FSDP)
    tensor  devices that process the same sentences and split heads, feed-forward and vocabulary

`jit` reads the shardings of its arguments and adds the necessary communication.
"""

import contextlib
import dataclasses
import functools
import math
import os
import re
from collections.abc import Callable, Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from flaxformer_mt.data.batching.batch import Batch, BatchShape
from flaxformer_mt.runtime.batch_partition import ProcessRows
from flaxformer_mt.runtime.host import num_cpus
from flaxformer_mt.storage.dataclass_json import NOT_NEGATIVE, POSITIVE_INT, check_fields

AXES = ("data", "fsdp", "tensor")
BATCH_AXES = ("data", "fsdp")
HEAD_AXIS = "tensor"
SHARDING_RULES: dict[str, str | None] = {
    "embed": "fsdp",  # model width D
    "heads": HEAD_AXIS,  # attention heads N
    "kv_heads": HEAD_AXIS,  # heads of keys and values G
    "head_width": None,  # H
    "mlp": "tensor",  # inner width of the feed-forward network F
    "vocab": "tensor",  # V
    "positions": None,
    "distances": None,
}
"""The mesh axis that splits each logical axis of a parameter; None = it is not split."""

_BOUNDS = {
    **dict.fromkeys(("data", "tokens_per_device", "cpu_devices"), NOT_NEGATIVE),
    **dict.fromkeys(("fsdp", "tensor"), POSITIVE_INT),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class MeshConfig:
    """How a run uses its devices. This affects the speed of a run, not its result."""

    data: int = 0
    """Number of devices along the axis `data`; 0 = all devices / (fsdp * tensor)."""
    fsdp: int = 1
    """Number of devices that split the parameters and the optimiser's state; 1 = whole copies."""
    tensor: int = 1
    """Number of devices that split heads, feed-forward and vocabulary."""
    tokens_per_device: int = 0
    """Largest number of source tokens, and of target tokens, of one micro-batch on one device,
    padding included. A larger batch is accumulated over several micro-batches. 0 = no limit."""
    memory_limit: str = ""
    """Memory limit of a device, such as 12GB. It sets tokens_per_device to the largest value that
    fits, according to the compiler's memory analysis. Empty = no limit."""
    cpu_devices: int = 0
    """Without an accelerator: number of CPU devices. 0 = one per core, rounded down to a power of
    two, at most 8. Two devices of one thread each train faster than one device of two threads."""

    def __post_init__(self) -> None:
        check_fields(self, "mesh", _BOUNDS)
        parse_memory(self.memory_limit)
        if self.memory_limit and self.tokens_per_device:
            raise ValueError(
                "mesh.memory_limit sets mesh.tokens_per_device: give only one of the two"
            )


def parse_memory(text: str) -> int:
    """Returns the bytes of a size such as "12GB" or "900 MiB"; "" is 0.

    Raises ValueError for any other text.
    """
    if not text.strip():
        return 0
    match = re.fullmatch(r"(\d+(?:\.\d*)?) *([KMGT])(I?)B", text.strip().upper())
    if not match:
        raise ValueError(
            "mesh.memory_limit must be a number with a unit (KB, MB, GB, TB, KiB, MiB, GiB, TiB), "
            f"such as 12GB or 900MiB, got {text!r}"
        )
    number, prefix, binary = match.groups()
    return round(float(number) * (1024 if binary else 1000) ** " KMGT".index(prefix))


def configure_cpu_devices(config: MeshConfig) -> None:
    """Sets the number of CPU devices; call it before the first use of JAX.

    It has no effect if JAX is already in use (in a notebook, for example), or if XLA_FLAGS or
    JAX_NUM_CPU_DEVICES sets the number. It does not affect accelerators.
    """
    settled = "host_platform_device_count" in os.environ.get("XLA_FLAGS", "")
    if settled or "JAX_NUM_CPU_DEVICES" in os.environ:
        return
    cores = min(8, num_cpus())
    # A power of two up to 8 divides the rows of every batch (see data.pipeline).
    devices = config.cpu_devices or 2 ** (cores.bit_length() - 1)
    with contextlib.suppress(RuntimeError):  # JAX is already in use
        jax.config.update("jax_num_cpu_devices", devices)


def make_mesh(config: MeshConfig = MeshConfig(), devices: Any = None) -> Mesh:
    """Returns the mesh of all devices of all processes (or of `devices`).

    Raises ValueError if the product of the three axes is not the number of devices.
    """
    found = np.array(jax.devices() if devices is None else devices)
    fixed = config.fsdp * config.tensor
    data = config.data or max(1, found.size // fixed)
    if data * fixed != found.size:
        wanted = f"{data} x {config.fsdp} x {config.tensor} = {data * fixed}"
        raise ValueError(
            f"mesh.data x mesh.fsdp x mesh.tensor is {wanted} devices, but there are {found.size}: "
            f"their product must be {found.size} (mesh.data=0 uses all remaining devices)"
        )
    return Mesh(found.reshape(data, config.fsdp, config.tensor), AXES)


def replicated(mesh: Mesh) -> NamedSharding:
    """Returns the sharding of an array that every device holds whole."""
    return NamedSharding(mesh, PartitionSpec())


def state_shardings(state: Any, params: Any, mesh: Mesh) -> Any:
    """Returns the sharding of each array of a training state, as a tree like `state`.

    `params` are the shapes of the parameters, boxed with their logical axes as `model.init` returns
    them. An array of the state gets the sharding of a parameter if its path ends with the path of
    the parameter and the shapes are equal: the parameter itself, its moments, its average. Other
    arrays (counters, keys, factored moments) are replicated.
    """
    boxed = jax.tree_util.tree_leaves_with_path(
        params, is_leaf=lambda x: isinstance(x, nn.LogicallyPartitioned)
    )
    table = {}
    for path, leaf in boxed:
        name = _name(path)
        spec = _spec(leaf.value.shape, leaf.names, mesh)
        table[name] = (leaf.value.shape, NamedSharding(mesh, spec))

    def sharding_of(path: Any, leaf: Any) -> NamedSharding:
        parts = _name(path).split("/")
        for start in range(len(parts)):
            known = table.get("/".join(parts[start:]))
            if known and known[0] == leaf.shape:
                return known[1]
        return replicated(mesh)

    return jax.tree_util.tree_map_with_path(sharding_of, state)


def _name(path: Any) -> str:
    return jax.tree_util.keystr(path, simple=True, separator="/")


def _spec(shape: tuple[int, ...], axes: Sequence[str | None], mesh: Mesh) -> PartitionSpec:
    """Returns how the rules split one parameter.

    An axis is not split if it has no rule, or if its length is not a multiple of the mesh axis.
    """
    split = [SHARDING_RULES.get(axis or "") for axis in axes]
    sizes = [mesh.shape[over] if over else 1 for over in split]
    return PartitionSpec(
        *(
            over if size > 1 and length % size == 0 else None
            for length, over, size in zip(shape, split, sizes, strict=True)
        )
    )


def batch_sharding(mesh: Mesh) -> NamedSharding:
    """Returns the sharding of a batch [A B T]: `data` and `fsdp` split the rows B."""
    return NamedSharding(mesh, PartitionSpec(None, BATCH_AXES))


def num_shards(mesh: Mesh) -> int:
    """Returns the number of devices that split a batch."""
    return math.prod(mesh.shape[axis] for axis in BATCH_AXES)


def process_rows(mesh: Mesh, tokens_per_device: int = 0, *, pads: bool = False) -> ProcessRows:
    """Returns the rows of each batch that this process reads: the rows of its own devices."""
    shards = num_shards(mesh)
    one_row_each = NamedSharding(mesh, PartitionSpec(BATCH_AXES))
    slices: Any = one_row_each.addressable_devices_indices_map((shards,)).values()
    own = {shard for (part,) in slices for shard in range(*part.indices(shards))}
    return ProcessRows(shards, tuple(sorted(own)), tokens_per_device, pads)


@functools.cache
def copier(mesh: Mesh) -> Callable[[Any], Any]:
    """Returns a jitted copy to all devices. One function per mesh, so that jit compiles it once."""
    return jax.jit(lambda x: x, out_shardings=replicated(mesh))


@dataclasses.dataclass(frozen=True)
class BatchPlacement:
    """Makes global batches from the rows of each process.

    Attributes:
      mesh: the mesh over all processes.
      rows: the rows of this process.
      shapes: shapes of the global batches. No two may have the same lengths.

    Raises ValueError if a batch cannot be partitioned; see `batch_partition.partition_batch`.
    """

    mesh: Mesh
    rows: ProcessRows
    shapes: tuple[BatchShape, ...]

    def __post_init__(self) -> None:
        for shape in self.shapes:
            self.rows.partition(shape)

    @functools.cached_property
    def _micro_batches(self) -> dict[tuple[int, int], int]:
        return {shape[1:]: self.rows.partition(shape).micro_batches for shape in self.shapes}

    def __call__(self, batch: Batch) -> Batch:
        """Returns the global batch of jax.Arrays [A B T] for the local rows [r T] in NumPy."""
        lengths = batch.inputs.shape[1], batch.targets.shape[1]
        count = self._micro_batches[lengths]
        sharding = batch_sharding(self.mesh)

        def place(x: np.ndarray) -> jax.Array:
            local = x.reshape(count, -1, x.shape[1])
            return jax.make_array_from_process_local_data(sharding, local)

        return jax.tree.map(place, batch)

    def like(self, shape: BatchShape) -> Batch:
        """Returns the shapes and shardings of a global batch, for compilation without data."""
        micro_batches, rows = self.rows.partition(shape)

        def of_length(length: int) -> Any:
            sharding = batch_sharding(self.mesh)
            return jax.ShapeDtypeStruct((micro_batches, rows, length), jnp.int32, sharding=sharding)

        lengths: Any = of_length(shape.source_length), of_length(shape.target_length)
        return Batch(*lengths, *lengths, *lengths)
