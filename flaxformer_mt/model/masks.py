"""Attention masks. True = may attend; every mask broadcasts to [B N T S].

Segment ids number the sentences of a row: 0 is padding, 1, 2, ... are the sentences. Without
packing each row holds sentence 1 alone.
"""

import flax.struct
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int


@flax.struct.dataclass
class AttentionContext:
    """Which keys each query may attend to, and the positions of both in their sentences.

    `mask` alone decides. A fused kernel may read the other fields instead of it. Without segment
    ids only the mask describes the context.

    Attributes:
      mask: True where a query may attend to a key.
      query_positions: position of each query in its sentence; None if order has no effect (source
        attention).
      key_positions: position of each key in its sentence.
      query_segment_ids: sentence of each query; None if segments do not describe the whole mask.
      key_segment_ids: sentence of each key.
      causal: whether the mask also hides the keys to the right of each query.
    """

    mask: Bool[Array, "#B 1 #T #S"]
    query_positions: Int[Array, "#B #T"] | None = None
    key_positions: Int[Array, "#B #S"] | None = None
    query_segment_ids: Int[Array, "B T"] | None = None
    key_segment_ids: Int[Array, "B S"] | None = None
    causal: bool = flax.struct.field(pytree_node=False, default=False)


def attention_context(
    query_segment_ids: Int[Array, "B T"],
    key_segment_ids: Int[Array, "B S"],
    query_positions: Int[Array, "B T"] | None = None,
    key_positions: Int[Array, "B S"] | None = None,
    *,
    causal: bool = False,
    local_window: int = 0,
) -> AttentionContext:
    """Returns the context of one attention layer over whole sentences.

    The positions are None for source attention. `causal` hides the keys to the right of each query
    (the decoder). With `local_window` r, a query attends to positions at most r // 2 away; 0 = all.
    """
    mask = segment_mask(query_segment_ids, key_segment_ids)
    if causal:
        mask = mask & causal_mask(query_segment_ids.shape[1])
    if not local_window or query_positions is None or key_positions is None:
        return AttentionContext(
            mask, query_positions, key_positions, query_segment_ids, key_segment_ids, causal
        )
    mask = mask & local_window_mask(query_positions, key_positions, local_window)
    return AttentionContext(mask, query_positions, key_positions)


def segment_mask(
    query_segment_ids: Int[Array, "B T"], key_segment_ids: Int[Array, "B S"]
) -> Bool[Array, "B 1 T S"]:
    """Returns the mask of queries that see their own sentence and no padding (section 3.2.3)."""
    same = query_segment_ids[:, :, None] == key_segment_ids[:, None, :]  # [B T S]
    real = key_segment_ids[:, None, :] != 0  # [B 1 S]
    return (same & real)[:, None, :, :]  # [B 1 T S]


def causal_mask(length: int) -> Bool[Array, "1 1 T T"]:
    """Returns the mask in which position t sees positions 0..t (section 3.2.3)."""
    return jnp.tril(jnp.ones((1, 1, length, length), dtype=bool))


def local_window_mask(
    query_positions: Int[Array, "#B #T"], key_positions: Int[Array, "#B #S"], size: int
) -> Bool[Array, "#B 1 #T #S"]:
    """Returns the mask of the keys at most size // 2 positions away (section 4).

    In a decoder the causal mask hides the right half, which leaves size // 2 tokens before the
    query. Stacked layers reach further: each adds its own window.
    """
    distance = key_positions[:, None, :] - query_positions[:, :, None]  # [B T S]
    return (jnp.abs(distance) <= size // 2)[:, None, :, :]
