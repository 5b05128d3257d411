"""Attention to a local window that saves work (section 4, "restricted self-attention").

    python examples/local_attention.py

`model.local_window` of the package hides the keys outside the window, but computes all T x T
products. Here the queries are cut into blocks of half a window, and each block is compared with
itself and its two neighbours only: 1.5 r products for each query, where r is the window. The
result is the same.
"""

import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from flaxformer_mt.inspection.flops import jaxpr_flops
from flaxformer_mt.model import attention
from flaxformer_mt.model.masks import AttentionContext, attention_context
from small_runs import show


def local_attend(
    queries: Any,
    keys: Any,
    values: Any,
    context: AttentionContext,
    bias: Any = None,
    *,
    window: int,
) -> Any:
    """Returns `attention.attend` for a mask that hides all keys more than window // 2 away.

    Raises NotImplementedError, as a kernel does, for source attention, for a bias, and for a window
    of less than 2: the package then uses the reference.
    """
    batch, length = queries.shape[:2]
    # Source attention has no positions, and no window.
    if bias is not None or context.query_positions is None or window < 2:
        raise NotImplementedError("blocks need self-attention, no bias, and a window of 2 or more")
    width = window // 2
    blocks = -(-length // width)
    missing = blocks * width - length

    def cut(x: Any) -> Any:  # [B T ...] -> [B blocks width ...]
        x = jnp.pad(x, [(0, 0), (0, missing), *[(0, 0)] * (x.ndim - 2)])
        return x.reshape(batch, blocks, width, *x.shape[2:])

    def with_neighbours(x: Any) -> Any:  # -> [B blocks 3 width ...]
        x = jnp.pad(x, [(0, 0), (1, 1), *[(0, 0)] * (x.ndim - 2)])
        return jnp.concatenate([x[:, :-2], x[:, 1:-1], x[:, 2:]], axis=2)

    def fold(x: Any) -> Any:  # [B blocks ...] -> [B blocks together ...]
        return x.reshape(batch * blocks, *x.shape[2:])

    mask = jnp.broadcast_to(context.mask[:, 0], (batch, length, length))
    columns = (jnp.arange(blocks)[:, None] - 1) * width + jnp.arange(3 * width)  # [blocks 3 width]
    inside = (columns >= 0) & (columns < length)
    places = jnp.clip(columns, 0, length - 1)[None, :, None]
    near = jnp.take_along_axis(cut(mask), places, axis=-1) & inside[None, :, None]
    heads = attention.attend(
        fold(cut(queries)),
        fold(with_neighbours(cut(keys))),
        fold(with_neighbours(cut(values))),
        AttentionContext(fold(near)[:, None]),
    )
    return heads.reshape(batch, blocks * width, *heads.shape[2:])[:, :length]


def make_inputs(length: int, window: int, *, causal: bool = True) -> tuple[Any, ...]:
    """Returns random queries, keys and values [1 T 4 16], and the context of a window."""
    rng = np.random.default_rng(0)
    arrays = (jnp.asarray(rng.normal(size=(1, length, 4, 16)), jnp.float32) for _ in range(3))
    ones, positions = jnp.ones((1, length), jnp.int32), jnp.arange(length)[None]
    options = {"causal": causal, "local_window": window}
    return *arrays, attention_context(ones, ones, positions, positions, **options)


def seconds(function: Any, *arguments: Any) -> float:
    """Returns the least time of five calls of a compiled function."""
    function(*arguments).block_until_ready()
    times = []
    for _ in range(5):
        start = time.perf_counter()
        function(*arguments).block_until_ready()
        times.append(time.perf_counter() - start)
    return min(times)


def main(window: int = 64) -> None:
    """Prints operations and times with a mask and with blocks."""
    rows = []
    for length in (256, 1024, 4096):
        inputs = make_inputs(length, window)

        def blocked(*inputs: Any) -> Any:
            return local_attend(*inputs, window=window)

        flops = [
            jaxpr_flops(jax.make_jaxpr(way)(*inputs)) / 1e6 for way in (attention.attend, blocked)
        ]
        ways = [jax.jit(attention.attend), jax.jit(blocked)]
        times = [1000 * seconds(way, *inputs) for way in ways]
        difference = jnp.abs(ways[0](*inputs) - ways[1](*inputs)).max()
        rows.append((str(length), *flops, *times, float(difference)))
    header = ("MFLOPs masked", "blocked", "ms masked", "blocked", "largest difference")
    show((f"window {window}, length", *header), rows)


if __name__ == "__main__":
    main()
