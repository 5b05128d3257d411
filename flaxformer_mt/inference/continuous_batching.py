"""Continuous batching (Yu et al. 2022): a finished sentence leaves its slot to the next one.

The translations of a batch differ in length. Waiting for the longest one wastes half of the work
or more. Here a program has B slots for many more sentences, Q. All slots advance by one token at a
time, each from its own position. When enough of them are finished, the next sentences are admitted
to their slots.

The shapes never change, and no row of a product depends on the other rows. So a translation does
not depend on the sentences beside it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from flaxformer_mt.search.loop import Search, SentenceOptions, decode_until
from flaxformer_mt.search.step import DecodeCache, DecodeStep, Hypotheses

REFILL_DIVISOR = 8
"""One slot of 8 must be free before new sentences are admitted, because admission has a cost."""

Admit = Callable[[DecodeCache, Int[Array, " n"], Int[Array, " n"]], DecodeCache]
"""(cache, slots, sentences) -> the cache with the sources of these sentences in these slots, and no
tokens. A slot B means none."""


def refill_size(slots: int) -> int:
    """Returns how many sentences are admitted at once."""
    return max(1, slots // REFILL_DIVISOR)


class Progress(NamedTuple):
    """The state of the loop."""

    state: Any
    """The state of the search, a row for each slot."""
    sentences: Int[Array, " B"]
    """The sentence in each slot; Q for none."""
    next_sentence: Int[Array, ""]
    """The next sentence to admit."""
    results: Hypotheses
    """Of all Q sentences; not final for sentences that are not finished."""


def run_queue(
    search: Search,
    step: DecodeStep,
    cache: DecodeCache,
    options: SentenceOptions,
    admit: Admit,
    *,
    slots: int,
) -> Hypotheses:
    """Returns the hypotheses of Q sentences, searched in B = `slots` slots of an empty cache."""
    count = options.length_limits.shape[0]
    last = jnp.max(jnp.where(options.length_limits > 0, jnp.arange(count), -1))
    size = refill_size(slots)

    def refill(now: Progress) -> Progress:
        (free,) = jnp.nonzero(~search.live(now.state), size=size, fill_value=slots)
        new = now.next_sentence + jnp.arange(size)
        admitted = (free < slots) & (new <= last)
        free, new = jnp.where(admitted, free, slots), jnp.where(admitted, new, count)

        def replace(x: Array, rows: Array) -> Array:
            return x.at[free].set(rows, mode="drop")

        cache = admit(now.state.cache, free, jnp.minimum(new, count - 1))
        fresh = search.start(options.take(new))
        state = jax.tree.map(replace, now.state._replace(cache=()), fresh)
        return now._replace(
            state=state._replace(cache=cache),
            sentences=replace(now.sentences, new),
            next_sentence=now.next_sentence + admitted.sum(),
        )

    def decode(now: Progress) -> Progress:
        waiting = now.next_sentence <= last
        enough = jnp.where(waiting, slots - size, 0)
        state = decode_until(search, step, options.take(now.sentences), now.state, enough)
        results = jax.tree.map(
            lambda all_, x: all_.at[now.sentences].set(x, mode="drop"),
            now.results,
            search.result(state),
        )
        return now._replace(state=state, results=results)

    def unfinished(now: Progress) -> Bool[Array, ""]:
        return (now.next_sentence <= last) | search.live(now.state).any()

    empty = jnp.full(slots, count)
    state = search.start(options.take(empty))._replace(cache=cache)
    results = jax.tree.map(
        lambda x: jnp.zeros((count, *x.shape[1:]), x.dtype), jax.eval_shape(search.result, state)
    )
    results = results._replace(scores=jnp.full_like(results.scores, -jnp.inf))
    start = Progress(state, empty, jnp.zeros((), jnp.int32), results)
    return jax.lax.while_loop(unfinished, lambda now: decode(refill(now)), start).results
