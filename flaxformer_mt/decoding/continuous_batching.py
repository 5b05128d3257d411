"""Continuous batching (Yu et al. 2022): a sentence that is done leaves its place to the next one.

Translations of one batch differ in length; waiting for the longest wastes half of the work or
more. Here a program has B places for many more sentences, Q. All places go on by one token at a
time, each from its own position; when some of them are done, they are given the next sentences. The
shapes stay the same all the time, so that a translation does not depend on its neighbours, bit for
bit.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import flax.struct
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from flaxformer_mt.decoding.devices import is_per_row
from flaxformer_mt.decoding.rules import ForcedPrefix, Rule
from flaxformer_mt.decoding.selection import Selection
from flaxformer_mt.decoding.step import DecodeCache, Hypotheses

SHARE_DONE = 8
"""So that not every token pays for a change of sentences, 1 of 8 places must be done for one."""


@flax.struct.dataclass
class PerSentence:
    """What is wished of each sentence; arrays have a row for each, or one row (or none) for all."""

    length_limits: Int[Array, " Q"]
    rules: tuple[Rule, ...] = ()
    prefix: ForcedPrefix | None = None
    selection: Selection | None = None
    choose: Callable[[Float[Array, "B K V"], Int[Array, " B"]], Int[Array, "B K"]] | None = None

    def take(self, sentences: Int[Array, " B"]) -> "PerSentence":
        """What is wished of some of them; of a number beyond the last, nothing: its limit is 0."""
        count = self.length_limits.shape[0]
        places = jnp.minimum(sentences, count - 1)
        taken = jax.tree.map(lambda x: x[places] if is_per_row(x) else x, self)
        limits = jnp.where(sentences < count, taken.length_limits, 0)
        return taken.replace(length_limits=limits)


class Search(NamedTuple):
    """A search, cut into its parts. A state is a named tuple with a `cache`."""

    start: Callable[[PerSentence, Any], Any]
    """(wishes, cache) -> the state before the first token."""
    advance: Callable[[PerSentence, Any], Any]
    """(wishes, state) -> the state one token later."""
    live: Callable[[Any], Bool[Array, " B"]]
    """Which sentences are not done."""
    result: Callable[[Any], Hypotheses]
    """What was found for those that are."""


class Queue(NamedTuple):
    """Sentences that wait for a place."""

    places: int
    """B."""
    read: Callable[[DecodeCache, Bool[Array, " B"], Int[Array, " B"]], DecodeCache]
    """(cache, which places are new, whose they are) -> the cache in which the new ones have read
    their sources and written nothing."""


def run(
    search: Search, wishes: PerSentence, cache: DecodeCache, queue: Queue | None = None
) -> Hypotheses:
    """Search every sentence.

    Args:
      search: how.
      wishes: of B sentences, or with a queue of Q.
      cache: of the B sentences, or with a queue of the first B.
      queue: if there are more sentences than places.
    """
    if queue is None:
        start = search.start(wishes, cache)
        found = jax.lax.while_loop(
            lambda state: search.live(state).any(),
            lambda state: search.advance(wishes, state),
            start,
        )
        return search.result(found)
    return _run_in_turn(search, wishes, cache, queue)


def _run_in_turn(
    search: Search, wishes: PerSentence, cache: DecodeCache, queue: Queue
) -> Hypotheses:
    count = wishes.length_limits.shape[0]
    most = jnp.max(jnp.where(wishes.length_limits > 0, jnp.arange(1, count + 1), 0))
    enough = max(1, queue.places // SHARE_DONE)

    def until_enough_are_done(
        state: Any, sentences: Int[Array, " B"], waiting: Bool[Array, ""]
    ) -> Any:
        of_places = wishes.take(sentences)

        def go_on(state: Any) -> Bool[Array, ""]:
            live = search.live(state)
            return jnp.where(waiting, live.sum() > queue.places - enough, live.any())

        return jax.lax.while_loop(go_on, lambda state: search.advance(of_places, state), state)

    def change(carry: tuple[Any, ...]) -> tuple[Any, ...]:
        state, sentences, following, results = carry
        state = until_enough_are_done(state, sentences, following < most)
        done = ~search.live(state)  # [B]
        found = search.result(state)
        to = jnp.where(done, sentences, count)  # beyond the last one: to nowhere
        results = jax.tree.map(lambda all_, x: all_.at[to].set(x, mode="drop"), results, found)
        next_ones = following + jnp.cumsum(done) - 1
        sentences = jnp.where(done, jnp.where(next_ones < most, next_ones, count), sentences)
        following = jnp.minimum(following + done.sum(), most)
        read = queue.read(state.cache, done, jnp.minimum(sentences, count - 1))
        fresh = search.start(wishes.take(sentences), read)
        begun = jax.tree.map(
            lambda new, old: jnp.where(done.reshape(-1, *[1] * (old.ndim - 1)), new, old),
            fresh._replace(cache=()),
            state._replace(cache=()),
        )
        return begun._replace(cache=read), sentences, following, results

    sentences = jnp.arange(queue.places)
    start = search.start(wishes.take(sentences), cache)
    nothing = jax.tree.map(
        lambda x: jnp.zeros((count, *x.shape[1:]), x.dtype),
        jax.eval_shape(search.result, start),
    )
    nothing = nothing._replace(scores=jnp.full_like(nothing.scores, -jnp.inf))
    carry = (start, sentences, jnp.minimum(queue.places, most), nothing)

    def work_left(carry: tuple[Any, ...]) -> Bool[Array, ""]:
        state, _, following, _ = carry
        return search.live(state).any() | (following < most)

    return jax.lax.while_loop(work_left, change, carry)[3]
