"""Positional encodings (section 3.5): how a model without recurrence knows the order of words."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int


def sinusoids(length: int, d_model: int) -> Float[np.ndarray, "T D"]:
    """The table of section 3.5, computed in float64 and returned as float32.

    PE[pos, 2i] = sin(pos / 10000^(2i / d_model)), PE[pos, 2i+1] = cos(the same): sines and
    cosines interleaved as in the paper.
    """
    frequencies = 10000.0 ** (-np.arange(0, d_model, 2) / d_model)  # [D/2]
    angles = np.arange(length)[:, None] * frequencies  # [T D/2]
    table = np.stack([np.sin(angles), np.cos(angles)], axis=-1)  # [T D/2 2]
    return table.reshape(length, d_model).astype(np.float32)  # [T D]


def add_sinusoids(
    x: Float[Array, "B T D"], positions: Int[Array, "B T"], *, length: int
) -> Float[Array, "B T D"]:
    """X + PE[positions]. `length` is the static bound: every position is smaller than it."""
    return x + jnp.asarray(sinusoids(length, x.shape[-1]), x.dtype)[positions]
