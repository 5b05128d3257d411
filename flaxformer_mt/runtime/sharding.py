"""Where arrays live: a mesh of devices with named axes, and one table that says what lies where.

    data    devices that hold copies of the parameters and take different sentences
    fsdp    devices that take different sentences and share the parameters among them: each
            holds a part, and asks the others for the rest when it is needed (ZeRO; FSDP)
    tensor  devices that take the same sentences and split heads, feed-forward and vocabulary

`jit` reads the shardings of its arguments and adds the communication that they need.
"""

import contextlib
import dataclasses
import functools
import math
import os
from typing import Any, Literal, TypeAlias

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from flaxformer_mt.data.batching.batch import Batch, BatchShape
from flaxformer_mt.runtime.batch_partition import Share
from flaxformer_mt.runtime.cpus import num_cpus

AXES = ("data", "fsdp", "tensor")
BATCH_AXES = ("data", "fsdp")
MeshAxis: TypeAlias = Literal["data", "fsdp", "tensor", "none"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShardingRules:
    """Along which axis of the mesh each logical axis of a parameter is split.

    Rows of a batch are split along data and fsdp. The optimiser's moments lie where their
    parameters do.
    """

    embed: MeshAxis = "fsdp"
    """Model width D."""
    heads: MeshAxis = "tensor"
    """Attention heads N."""
    kv_heads: MeshAxis = "tensor"
    """Heads of keys and values G."""
    head_width: MeshAxis = "none"
    """Width of a head H."""
    mlp: MeshAxis = "tensor"
    """Inner width of the feed-forward network F."""
    vocab: MeshAxis = "tensor"
    """Vocabulary V."""
    positions: MeshAxis = "none"
    """Learned positions."""
    distances: MeshAxis = "none"
    """Distances between positions, of relative and bucketed positions."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class MeshConfig:
    """The hardware at hand, and how it is used. It changes how fast a run is, not what it does."""

    data: int = 0
    """Devices along the axis `data`; 0 = all that the other two axes leave."""
    fsdp: int = 1
    """Devices that share the parameters and the optimiser's state among them; 1 = each has all."""
    tensor: int = 1
    """Devices that split heads, feed-forward and vocabulary among them."""
    tokens_per_device: int = 0
    """Source cells, and target cells, that a device takes at once: what a batch has beyond that is
    accumulated over several micro-batches. 0 = the whole batch at once."""
    memory_limit: str = ""
    """Memory that a device may use, such as 12GB: chooses the largest tokens_per_device that the
    compiler's own account allows. Empty = no limit."""
    cpu_devices: int = 0
    """Without an accelerator: how many devices to make of the CPU; 0 = one a core, at most 8. Two
    devices of one thread each train faster than one device of two threads."""
    rules: ShardingRules = ShardingRules()
    """Along which of these axes each axis of a parameter is split."""

    def __post_init__(self) -> None:
        for name in ("data", "tokens_per_device", "cpu_devices"):
            if getattr(self, name) < 0:
                raise ValueError(f"mesh.{name} must not be negative, got {getattr(self, name)}")
        for name in ("fsdp", "tensor"):
            if getattr(self, name) < 1:
                raise ValueError(f"mesh.{name} must be at least 1, got {getattr(self, name)}")
        parse_memory(self.memory_limit)
        if self.memory_limit and self.tokens_per_device:
            raise ValueError(
                "mesh.memory_limit chooses mesh.tokens_per_device: give one of the two"
            )


def parse_memory(text: str) -> int:
    """ "12GB" or "900 MiB" in bytes; "" is 0.

    Raises ValueError for anything else.
    """
    units = {"B": 0, "KB": 1, "MB": 2, "GB": 3, "TB": 4}
    number = text.strip().upper().replace("IB", "B")
    unit = number.lstrip("0123456789. ")
    try:
        factor = (1024 if "I" in text.upper() else 1000) ** units[unit or "B"]
        return round(float(number[: len(number) - len(unit)]) * factor) if number else 0
    except (KeyError, ValueError):
        raise ValueError(
            f"mesh.memory_limit must be a number with a unit, such as 12GB or 900MiB, got {text!r}"
        ) from None


def configure_cpu_devices(config: MeshConfig) -> None:
    """Divides the CPU into devices; must come before JAX is used for the first time.

    Changes nothing where JAX is in use already (a notebook, say), or where XLA_FLAGS or
    JAX_NUM_CPU_DEVICES has settled the number. Accelerators are not concerned.
    """
    settled = "host_platform_device_count" in os.environ.get("XLA_FLAGS", "")
    if settled or "JAX_NUM_CPU_DEVICES" in os.environ:
        return
    cores = min(8, num_cpus())
    # A power of two up to 8 divides the rows of every batch (see data.buckets).
    devices = config.cpu_devices or 2 ** (cores.bit_length() - 1)
    with contextlib.suppress(RuntimeError):  # JAX is in use already
        jax.config.update("jax_num_cpu_devices", devices)


def make_mesh(config: MeshConfig = MeshConfig(), devices: Any = None) -> Mesh:
    """All devices of all processes (or `devices`), in the three axes of the config.

    Raises:
      ValueError: their number does not come out even.
    """
    found = np.array(jax.devices() if devices is None else devices)
    fixed = config.fsdp * config.tensor
    data = config.data or max(1, found.size // fixed)
    if data * fixed != found.size:
        wanted = f"{data} x {config.fsdp} x {config.tensor} = {data * fixed}"
        raise ValueError(
            f"mesh.data x mesh.fsdp x mesh.tensor is {wanted} devices, but there are {found.size}: "
            f"their product must be {found.size} (mesh.data=0 takes what the others leave)"
        )
    return Mesh(found.reshape(data, config.fsdp, config.tensor), AXES)


def replicated(mesh: Mesh) -> NamedSharding:
    """A whole copy on every device."""
    return NamedSharding(mesh, PartitionSpec())


def state_shardings(state: Any, params: Any, mesh: Mesh, rules: ShardingRules) -> Any:
    """Where each array of a training state lies.

    Args:
      state: shapes (`jax.eval_shape`) of parameters and of what an optimiser keeps about them.
      params: shapes of the parameters, boxed with their logical axes as `model.init` gives them.
      mesh: of the three axes.
      rules: the table.

    Returns:
      A tree of NamedSharding like `state`. An array whose path ends with that of a parameter of
      its shape lies as that parameter does: the parameter itself, its moments, its average.
      All else (counters, keys, factored moments) lies whole on every device.

    Raises:
      ValueError: an axis without a rule, a mesh axis twice in one array, or a dimension that does
        not divide: names the array.
    """
    boxed = jax.tree_util.tree_leaves_with_path(
        params, is_leaf=lambda x: isinstance(x, nn.LogicallyPartitioned)
    )
    table = {}
    for path, leaf in boxed:
        name = _name(path)
        spec = _spec(name, leaf.value.shape, leaf.names, mesh, rules)
        table[name] = (leaf.value.shape, NamedSharding(mesh, spec))

    def place(path: Any, leaf: Any) -> NamedSharding:
        parts = _name(path).split("/")
        for start in range(len(parts)):
            known = table.get("/".join(parts[start:]))
            if known and known[0] == leaf.shape:
                return known[1]
        return replicated(mesh)

    return jax.tree_util.tree_map_with_path(place, state)


def _name(path: Any) -> str:
    return jax.tree_util.keystr(path, simple=True, separator="/")


def _spec(
    name: str, shape: tuple[int, ...], axes: Any, mesh: Mesh, rules: ShardingRules
) -> PartitionSpec:
    """The rules applied to one parameter; mesh axes of size 1 split nothing."""
    table = {**dataclasses.asdict(rules), None: "none"}  # a dimension without a name
    split: dict[str, str] = {}
    spec: list[str | None] = []
    for size, axis in zip(shape, axes, strict=True):
        if axis not in table:
            raise ValueError(f"mesh.rules has no rule for the axis {axis!r} of {name}")
        over = table[axis]
        if over == "none" or mesh.shape[over] == 1:
            spec.append(None)
            continue
        if over in split:
            raise ValueError(
                f"{name} has the axes {split[over]} and {axis}, and mesh.rules splits both along "
                f"{over!r}: an array can be split along a mesh axis once; set one of the two to "
                "none"
            )
        if size % mesh.shape[over]:
            raise ValueError(
                f"{name}: its axis {axis} has size {size}, which does not divide by "
                f"mesh.{over}={mesh.shape[over]}: choose another mesh.{over}, or "
                f"--mesh.rules.{axis.replace('_', '-')} none"
            )
        split[over] = axis
        spec.append(over)
    return PartitionSpec(*spec)


def batch_sharding(mesh: Mesh) -> NamedSharding:
    """Of a batch [A B T]: rows (B) split over the devices of `data` and `fsdp`."""
    return NamedSharding(mesh, PartitionSpec(None, BATCH_AXES))


def num_shards(mesh: Mesh) -> int:
    """Devices that a batch is split over."""
    return math.prod(mesh.shape[axis] for axis in BATCH_AXES)


def make_share(mesh: Mesh, tokens_per_device: int = 0) -> Share:
    """Which rows of each batch this process reads: those of its own devices."""
    shards = num_shards(mesh)
    one_row_each = NamedSharding(mesh, PartitionSpec(BATCH_AXES))
    held: Any = one_row_each.addressable_devices_indices_map((shards,)).values()
    mine = {row for (rows,) in held for row in range(*rows.indices(shards))}
    return Share(shards, tuple(sorted(mine)), tokens_per_device)


@dataclasses.dataclass(frozen=True)
class BatchPlacement:
    """Puts this process's rows of each batch where they belong: its part of one global batch.

    Attributes:
      mesh: of all processes.
      share: which rows the process reads.
      shapes: of the whole batches; no two with the same lengths.

    Raises:
      ValueError: a batch that cannot be divided so; see `division.divide`.
    """

    mesh: Mesh
    share: Share
    shapes: tuple[BatchShape, ...]

    def __post_init__(self) -> None:
        for shape in self.shapes:
            self.share.division(shape)

    @functools.cached_property
    def _micro_batches(self) -> dict[tuple[int, int], int]:
        return {shape[1:]: self.share.division(shape).micro_batches for shape in self.shapes}

    def __call__(self, batch: Batch) -> Batch:
        """[r T] in NumPy, as read, to jax.Arrays [A B T] over all processes."""
        lengths = batch.inputs.shape[1], batch.targets.shape[1]
        count = self._micro_batches[lengths]
        sharding = batch_sharding(self.mesh)

        def put(x: np.ndarray) -> jax.Array:
            local = x.reshape(count, -1, x.shape[1])
            return jax.make_array_from_process_local_data(sharding, local)

        return jax.tree.map(put, batch)

    def like(self, shape: BatchShape) -> Batch:
        """The shapes and places of a global batch, to compile for."""
        micro_batches, rows = self.share.division(shape)

        def of_length(length: int) -> Any:
            sharding = batch_sharding(self.mesh)
            return jax.ShapeDtypeStruct((micro_batches, rows, length), jnp.int32, sharding=sharding)

        lengths: Any = of_length(shape.source_length), of_length(shape.target_length)
        return Batch(*lengths, *lengths, *lengths)
