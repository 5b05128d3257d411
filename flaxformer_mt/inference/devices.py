"""Translation on all devices of this process: each has the whole model and a part of the rows.

The devices exchange nothing, so each one ends its loop independently.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array

from flaxformer_mt.search.loop import is_per_row

Result = TypeVar("Result")
ROWS = "data"
"""The axis of the mesh: the first dimension of arrays with a row for each sentence."""


def on_all_devices(params: Any) -> Any:
    """Returns the parameters, copied to each device of this process."""
    devices = jax.local_devices()
    if len(devices) == 1:
        return params
    return jax.device_put(params, NamedSharding(Mesh(np.array(devices), ROWS), PartitionSpec()))


def mesh_of(params: Any) -> Mesh | None:
    """Returns the mesh of the devices that hold the parameters, or None for a single device."""
    sharding = getattr(jax.tree.leaves(params)[0], "sharding", None)
    if not isinstance(sharding, NamedSharding) or len(sharding.device_set) == 1:
        return None
    return Mesh(np.array(sharding.mesh.devices).ravel(), ROWS)


def shard_rows(
    work: Callable[[Any, Any], Result], mesh: Mesh | None, shared: Any, rows: Any
) -> Result:
    """Returns `work(shared, rows)`, computed by each device for its part of the rows.

    Rows go to the devices in turn (row 0 to device 0, row 1 to device 1, ...), so that a few
    sentences keep all devices busy. The number of rows must be a multiple of the number of devices.
    Arrays in `rows` with one row, and all of `shared`, go to every device. A mesh of None means one
    device.
    """
    if mesh is None:
        return work(shared, rows)
    leaves, tree = jax.tree.flatten(rows)
    on_each = jax.shard_map(
        lambda shared, leaves: work(shared, tree.unflatten(leaves)),
        mesh=mesh,
        in_specs=(
            PartitionSpec(),
            [PartitionSpec(ROWS) if is_per_row(x) else PartitionSpec() for x in leaves],
        ),
        out_specs=PartitionSpec(ROWS),
        check_vma=False,
    )
    parts = [interleave_rows(x, -1, mesh.size) if is_per_row(x) else x for x in leaves]
    found = on_each(shared, parts)
    return jax.tree.map(lambda x: interleave_rows(x, mesh.size, -1), found)


def interleave_rows(x: Array, first: int, second: int) -> Array:
    """Returns the rows in the order of the columns of a [first, second] table of them."""
    x = jnp.asarray(x)
    return x.reshape(first, second, *x.shape[1:]).swapaxes(0, 1).reshape(x.shape)
