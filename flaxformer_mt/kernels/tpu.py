"""Kernels for TPUs: flash attention for long rows, embeddings, dropout bits."""

import math

import jax
from jax.experimental.pallas.ops.tpu.flash_attention import SegmentIds, flash_attention
from jax.sharding import AxisType, PartitionSpec
from jaxtyping import Array, Float, Int

from flaxformer_mt.kernels.hashed_dropout import dropout
from flaxformer_mt.kernels.product import product
from flaxformer_mt.model.kernels import Kernels
from flaxformer_mt.model.masks import AttentionContext
from flaxformer_mt.runtime.sharding import BATCH_AXES, HEAD_AXIS

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
    """Returns equation 1 by the flash attention that JAX ships (Pallas), for long rows.

    See `model.attention.attend`. It keeps no [T S] weights in memory. By the table in
    `docs/kernels.md` it takes as much memory as XLA's own program at 512 tokens, and half as much
    at 1,024. Segment ids keep packed sentences apart, and a causal flag hides the keys to the right
    within the same row. Both together are the mask of the reference.

    Raises:
      NotImplementedError: rows that are short or no multiple of 128, grouped heads, values of
        another width than keys, a bias, masks that segments and a causal flag do not express, and
        rows or heads that do not divide by the devices of their mesh.
    """
    (_, length, heads, width), source_length = queries.shape, keys.shape[1]
    if min(length, source_length) < min_length or length % BLOCK or source_length % BLOCK:
        raise NotImplementedError(
            f"flash attention needs lengths of at least {min_length} that divide by {BLOCK}"
        )
    if keys.shape[2] != heads:
        raise NotImplementedError("flash attention has no grouped heads")
    if values.shape[-1] != width:
        raise NotImplementedError("flash attention needs key_width equal to value_width")
    if bias is not None:
        raise NotImplementedError("flash attention has no position bias")
    if context.query_segment_ids is None or context.key_segment_ids is None:
        raise NotImplementedError("flash attention has no local window")

    def attend_on_device(queries: Array, keys: Array, values: Array, *segments: Array) -> Array:
        heads_first = (x.swapaxes(1, 2) for x in (queries, keys, values))
        options = {"causal": context.causal, "sm_scale": width**-0.5}
        result = flash_attention(*heads_first, segment_ids=SegmentIds(*segments), **options)
        return jax.numpy.asarray(result).swapaxes(1, 2)

    attention = _on_each_device(queries, attend_on_device)
    return attention(queries, keys, values, context.query_segment_ids, context.key_segment_ids)


def _on_each_device(queries: Float[Array, "B T N H"], attention):
    """Returns `attention`, which each device of the mesh computes for its rows and heads.

    XLA cannot divide a Pallas kernel among devices.
    """
    mesh = jax.typeof(queries).sharding.mesh
    if math.prod(mesh.axis_sizes) == 1 or AxisType.Manual in mesh.axis_types:
        return attention  # one device, or inside a shard_map
    batch_axes = tuple(axis for axis in BATCH_AXES if axis in mesh.axis_names)
    head_axis = HEAD_AXIS if HEAD_AXIS in mesh.axis_names else None
    batch_shards = math.prod(mesh.shape[axis] for axis in batch_axes)
    head_shards = mesh.shape[head_axis] if head_axis else 1
    if queries.shape[0] % batch_shards or queries.shape[2] % head_shards:
        raise NotImplementedError(
            f"flash attention needs rows that divide by {batch_shards} devices "
            f"and heads that divide by {head_shards}"
        )
    rows, heads = PartitionSpec(batch_axes), PartitionSpec(batch_axes, None, head_axis)
    return jax.shard_map(
        attention,
        mesh=mesh,
        in_specs=(heads, heads, heads, rows, rows),
        out_specs=heads,
        check_vma=False,
    )


def embed(table: Float[Array, "V D"], tokens: Int[Array, "B T"]) -> Float[Array, "B T D"]:
    """Returns the vectors of the tokens (see `model.kernels.embed`).

    The gradient has the dtype of the table before devices add up their gradients. So in bfloat16
    they send half as many bytes as with the reference, which sums in float32.
    """
    return table[tokens]


KERNELS = Kernels("tpu", attend=attend, embed=embed, product=product, dropout=dropout)
