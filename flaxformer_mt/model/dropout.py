"""Dropout (section 5.4)."""

from typing import TypeAlias

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

DropoutRows: TypeAlias = Int[Array, " B"] | None
"""The number of each row in the whole batch; None switches dropout off, as in translation."""


def dropout(
    x: Float[Array, "B ..."], rate: float, key: Array, rows: Int[Array, " B"]
) -> Float[Array, "B ..."]:
    """Returns x with elements set to 0 with probability `rate`, the others times 1 / (1 - rate).

    `rows` are the numbers of the rows of x in the whole batch. The mask of a row depends on the key
    and on the row's number alone. So the result does not depend on how a batch is divided among
    devices and micro-batches.
    """

    def keep_row(row: Int[Array, ""]) -> Array:
        return jax.random.bernoulli(jax.random.fold_in(key, row), 1.0 - rate, x.shape[1:])

    return jnp.where(jax.vmap(keep_row)(rows), x / (1.0 - rate), 0).astype(x.dtype)
