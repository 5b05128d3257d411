"""Positional encodings (section 3.5): how a model without recurrence knows the order of words.

Here are those that are *added* to the embeddings, at the bottom of each stack. Those that work by
distance, inside of self-attention, are in `relations`.
"""

from typing import Literal, get_args

import flax.linen as nn
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from flaxformer_mt.model.layers import parameter

Added = Literal["sinusoidal", "sinusoidal_half_split", "learned"]


def sinusoids(
    length: int, d_model: int, *, half_split: bool = False
) -> Float[np.ndarray, "{length} {d_model}"]:
    """The table of section 3.5, computed in float64 and returned as float32.

    PE[pos, 2i] = sin(pos / 10000^(2i / d_model)), PE[pos, 2i+1] = cos(the same): sines and
    cosines interleaved as in the paper. `half_split` puts all the sines first, as Marian and
    Tensor2Tensor do: the same numbers in another order.
    """
    frequencies = 10000.0 ** (-np.arange(0, d_model, 2) / d_model)  # [D/2]
    angles = np.arange(length)[:, None] * frequencies  # [T D/2]
    table = np.stack([np.sin(angles), np.cos(angles)], axis=1 if half_split else 2)
    return table.reshape(length, d_model).astype(np.float32)  # [T D]


class AddedPositions(nn.Module):
    """x + PE[positions]; this one adds nothing, for models that learn order elsewhere or not."""

    def __call__(
        self, x: Float[Array, "B T D"], positions: Int[Array, "B T"], *, length: int
    ) -> Float[Array, "B T D"]:
        """`length` is the static bound: every position is smaller than it."""
        return x


class Sinusoids(AddedPositions):
    """The paper's: a fixed table for any length."""

    half_split: bool = False

    def __call__(
        self, x: Float[Array, "B T D"], positions: Int[Array, "B T"], *, length: int
    ) -> Float[Array, "B T D"]:
        table = sinusoids(length, x.shape[-1], half_split=self.half_split)
        return x + jnp.asarray(table, x.dtype)[positions]


class LearnedPositions(AddedPositions):
    """One learned vector for each of the first `max_positions` positions (table 3, row E).

    Raises ValueError where a sequence may be longer than that.
    """

    max_positions: int

    @nn.compact
    def __call__(
        self, x: Float[Array, "B T D"], positions: Int[Array, "B T"], *, length: int
    ) -> Float[Array, "B T D"]:
        if length > self.max_positions:
            raise ValueError(
                f"positions up to {length} were asked for, but the model has learned vectors for "
                f"{self.max_positions} (model.max_positions): shorten the input, or train with more"
            )
        d_model = x.shape[-1]
        init = nn.initializers.normal(d_model**-0.5)
        shape = (self.max_positions, d_model)
        table = parameter(self, "table", init, shape, ("positions", "embed"))
        return x + table.astype(x.dtype)[positions]


def make_added_positions(kind: str, max_positions: int) -> AddedPositions:
    """What `kind` adds to the embeddings: nothing, unless it is one of `Added`."""
    if kind == "learned":
        return LearnedPositions(max_positions)
    if kind in get_args(Added):
        return Sinusoids(half_split=kind == "sinusoidal_half_split")
    return AddedPositions()
