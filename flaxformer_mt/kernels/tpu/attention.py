"""Equation 1 by the flash attention that JAX ships for TPUs (Pallas), for long rows.

At the lengths of sentences XLA's own program is as fast or faster by the compiler's estimates (see
the table in `docs/kernels.md`). So short rows raise NotImplementedError, and the reference computes
them.

Segment ids keep packed sentences apart, and a causal flag hides the keys to the right within the
same row. Both together are the mask of the reference.
"""

import functools

import jax
from jax.experimental.pallas.ops.tpu.flash_attention import SegmentIds, flash_attention
from jaxtyping import Array, Float

from flaxformer_mt.model.masks import AttentionContext

BLOCK = 128
MIN_LENGTH = 1024
"""Rows of fewer queries or keys are left to XLA."""


def attend(
    queries: Float[Array, "B T N H"],
    keys: Float[Array, "B S G H"],
    values: Float[Array, "B S G W"],
    context: AttentionContext,
    bias: Float[Array, "#B N T S"] | None = None,
    *,
    min_length: int = MIN_LENGTH,
) -> Float[Array, "B T N W"]:
    """Returns equation 1 (see `model.attention.attend`).

    Raises:
      NotImplementedError: rows that are short or no multiple of 128, grouped heads, values of
        another width than keys, a bias, and masks that segments and a causal flag do not express.
    """
    (_, length, heads, width), source_length = queries.shape, keys.shape[1]
    if min(length, source_length) < min_length or length % BLOCK or source_length % BLOCK:
        raise NotImplementedError(f"flash attention is for rows of multiples of {BLOCK}")
    if keys.shape[2] != heads or values.shape[-1] != width:
        raise NotImplementedError("flash attention needs equal heads and widths")
    if bias is not None or context.query_segment_ids is None or context.key_segment_ids is None:
        raise NotImplementedError("flash attention takes segment ids, and neither bias nor mask")
    heads_first = (x.swapaxes(1, 2) for x in (queries, keys, values))
    attention = functools.partial(flash_attention, causal=context.causal, sm_scale=width**-0.5)
    segments = SegmentIds(context.query_segment_ids, context.key_segment_ids)
    return jax.numpy.asarray(attention(*heads_first, segment_ids=segments)).swapaxes(1, 2)
