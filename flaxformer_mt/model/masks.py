"""Who may look at whom. True = may attend; every mask broadcasts to [B N T S].

Segment ids say which sentence a position belongs to: 0 is padding, 1, 2, ... number the sentences
of one row. Without packing each row holds sentence 1 alone; with packing the same two functions
keep the sentences apart.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int


class View(NamedTuple):
    """What an attention layer knows of its queries and keys beside their contents."""

    mask: Bool[Array, "#B 1 #T #S"]
    """Which keys each query may see."""
    query_positions: Int[Array, "#B #T"] | None = None
    """Where in its sentence each query stands; None where order plays no part (source attention)"""
    key_positions: Int[Array, "#B #S"] | None = None
    """Where each key stands."""

    def split(self, count: int) -> tuple["View", "View"]:
        """What is known of the first so many keys, and of the others."""
        masks = jnp.split(self.mask, [count], axis=-1)
        keys = [None, None]
        if self.key_positions is not None:
            keys = jnp.split(self.key_positions, [count], axis=-1)
        first, others = map(View, masks, [self.query_positions] * 2, keys)
        return first, others


def segment_mask(
    query_segment_ids: Int[Array, "B T"], key_segment_ids: Int[Array, "B S"]
) -> Bool[Array, "B 1 T S"]:
    """A query sees the keys of its own sentence and never padding (section 3.2.3)."""
    same = query_segment_ids[:, :, None] == key_segment_ids[:, None, :]  # [B T S]
    real = key_segment_ids[:, None, :] != 0  # [B 1 S]
    return (same & real)[:, None, :, :]  # [B 1 T S]


def causal_mask(length: int) -> Bool[Array, "1 1 T T"]:
    """Position t sees positions 0..t: the decoder must not look ahead (section 3.2.3)."""
    return jnp.tril(jnp.ones((1, 1, length, length), dtype=bool))


def neighborhood_mask(
    query_positions: Int[Array, "#B #T"], key_positions: Int[Array, "#B #S"], size: int
) -> Bool[Array, "#B 1 #T #S"]:
    """A query sees the `size` positions centred on its own, r in section 4: distance <= size // 2.

    In a decoder, where the causal mask hides the right half, that leaves size // 2 tokens before
    it. Stacked layers still reach further: each adds its own neighbourhood.
    """
    distance = key_positions[:, None, :] - query_positions[:, :, None]  # [B T S]
    return (jnp.abs(distance) <= size // 2)[:, None, :, :]
