"""Translating on all devices of this process: each has the whole model and its share of the rows.

Nothing is exchanged between them, so each ends its own loop in its own time.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array

Result = TypeVar("Result")
ROWS = "data"
"""The axis of the mesh; the first dimension of arrays that have rows."""


def on_all_devices(params: Any) -> Any:
    """The parameters on each device of this process, where there are several."""
    devices = jax.local_devices()
    if len(devices) == 1:
        return params
    return jax.device_put(params, NamedSharding(Mesh(np.array(devices), ROWS), PartitionSpec()))


def mesh_of(params: Any) -> Mesh | None:
    """The devices that parameters are on, if they are on several."""
    sharding = getattr(jax.tree.leaves(params)[0], "sharding", None)
    if not isinstance(sharding, NamedSharding) or len(sharding.device_set) == 1:
        return None
    return Mesh(np.array(sharding.mesh.devices).ravel(), ROWS)


def shard_rows(
    work: Callable[[Any, Any], tuple[Result, Any]], mesh: Mesh | None, shared: Any, rows: Any
) -> tuple[Result, Any]:
    """`work(shared, rows)`, each device with its part of the rows; with no mesh, as it is.

    Its first result has those rows in order; the second stays on each device as it comes.

    Of `rows`, arrays with more than one row are dealt out one by one, like cards, so that a few
    sentences keep all devices busy; there must be a multiple of as many rows as devices. The others
    are for all, as `shared` is.
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
    dealt = [interleave_rows(x, -1, mesh.size) if is_per_row(x) else x for x in leaves]
    found, more = on_each(shared, dealt)
    return jax.tree.map(lambda x: interleave_rows(x, mesh.size, -1), found), more


def interleave_rows(x: Array, first: int, second: int) -> Array:
    """The rows, in a table of so many lines and columns, read column by column."""
    x = jnp.asarray(x)
    return x.reshape(first, second, *x.shape[1:]).swapaxes(0, 1).reshape(x.shape)


def is_per_row(x: Array) -> bool:
    """Whether an array has a row for each sentence, and not one or none for all."""
    return x.ndim > 0 and x.shape[0] > 1
