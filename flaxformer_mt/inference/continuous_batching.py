"""Continuous batching (Yu et al. 2022): a sentence that is done leaves its place to the next one.

Translations of one batch differ in length; waiting for the longest wastes half of the work or
more. Here a program has B places for many more sentences, Q. All places go on by one token at a
time, each from its own position; when some of them are done, they are given the next sentences, in
the same shapes. When nobody waits any more and most places are empty, those that are left move
together into fewer.

A translation does not depend on its neighbours, bit for bit: no row of a product depends on what
stands in the others, or on its place. Who asks for fewer places answers for their number.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import flax.struct
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from flaxformer_mt.inference.devices import is_per_row
from flaxformer_mt.search.rules import ForcedPrefix, Rule
from flaxformer_mt.search.selection import Selection
from flaxformer_mt.search.step import DecodeCache, Hypotheses

REFILL_DIVISOR = 8
"""So that not every token pays for a change of sentences, 1 of 8 places must be done for one."""


def at_once(places: int) -> int:
    """How many of so many places are given to other sentences at the same time."""
    return max(1, places // REFILL_DIVISOR)


@flax.struct.dataclass
class SentenceOptions:
    """What is wished of each sentence; arrays have a row for each, or one row (or none) for all."""

    length_limits: Int[Array, " Q"]
    rules: tuple[Rule, ...] = ()
    prefix: ForcedPrefix | None = None
    selection: Selection | None = None
    choose: Callable[[Float[Array, "B K V"], Int[Array, " B"]], Int[Array, "B K"]] | None = None
    """(scores, step) -> tokens, such as a `sampling.Sampler`: then no hypotheses are compared."""

    def take(self, sentences: Int[Array, " B"]) -> "SentenceOptions":
        """What is wished of some of them; of a number beyond the last, nothing: its limit is 0."""
        count = self.length_limits.shape[0]
        places = jnp.minimum(sentences, count - 1)
        taken = jax.tree.map(lambda x: x[places] if is_per_row(x) else x, self)
        limits = jnp.where(sentences < count, taken.length_limits, 0)
        return taken.replace(length_limits=limits)


class Search(NamedTuple):
    """A search, cut into its parts. A state is a named tuple with a `cache`."""

    start: Callable[[SentenceOptions], Any]
    """(wishes) -> the state before the first token, with () for its cache."""
    advance: Callable[[SentenceOptions, Any], Any]
    """(wishes, state) -> the state one token later."""
    live: Callable[[Any], Bool[Array, " B"]]
    """Which sentences are not done."""
    result: Callable[[Any], Hypotheses]
    """What was found for those that are."""


class Queue(NamedTuple):
    """Sentences that wait for a place."""

    places: int
    """B."""
    read: Callable[[DecodeCache, Int[Array, " n"], Int[Array, " n"]], DecodeCache]
    """(cache, places, whose they are now) -> the cache in which those have read their sources and
    written nothing; a place B is none."""
    fewer: int = 0
    """How many places the last sentences have, once so few are left; 0 = B to the end."""
    done: Callable[[DecodeCache], None] = lambda cache: None
    """Given the caches, as the loops leave them that write them, while the search is traced."""


class Progress(NamedTuple):
    """What the loops carry."""

    state: Any
    """Of the search, a row for each place."""
    sentences: Int[Array, " B"]
    """Who has each place; Q if nobody."""
    following: Int[Array, ""]
    """Who comes next."""
    results: Hypotheses
    """Of all Q; not yet right for who is not done."""


def run(
    search: Search, wishes: SentenceOptions, cache: DecodeCache, queue: Queue | None = None
) -> Hypotheses:
    """Search every sentence.

    Args:
      search: how.
      wishes: of Q sentences.
      cache: of all of them; of B empty places, if they wait in a queue.
      queue: if not given, each sentence has a place from the start.
    """
    count = wishes.length_limits.shape[0]
    sentences = jnp.arange(count) if queue is None else jnp.full(queue.places, count)
    start = search.start(wishes.take(sentences))._replace(cache=cache)
    results = jax.tree.map(
        lambda x: jnp.zeros((count, *x.shape[1:]), x.dtype), jax.eval_shape(search.result, start)
    )
    results = results._replace(scores=jnp.full_like(results.scores, -jnp.inf))
    now = Progress(start, sentences, jnp.zeros((), jnp.int32), results)
    if queue is None:
        return _go_on(search, wishes, now, until_left=0).results
    now = _all_in_turn(search, wishes, now, queue)
    queue.done(now.state.cache)
    if queue.fewer:
        now = _go_on(search, wishes, _together(search, now, queue.fewer), until_left=0)
        queue.done(now.state.cache)
    return now.results


def _go_on(
    search: Search, wishes: SentenceOptions, now: Progress, until_left: int | Int[Array, ""]
) -> Progress:
    """Token by token while more sentences are live than that; with the results of all places."""
    of_places = wishes.take(now.sentences)
    state = jax.lax.while_loop(
        lambda state: search.live(state).sum() > until_left,
        lambda state: search.advance(of_places, state),
        now.state,
    )
    results = jax.tree.map(
        lambda all_, x: all_.at[now.sentences].set(x, mode="drop"),
        now.results,
        search.result(state),
    )
    return now._replace(state=state, results=results)


def _all_in_turn(search: Search, wishes: SentenceOptions, now: Progress, queue: Queue) -> Progress:
    """Until each sentence has had a place, and no more than `queue.fewer` are not done."""
    count, places = wishes.length_limits.shape[0], queue.places
    last = jnp.max(jnp.where(wishes.length_limits > 0, jnp.arange(count), -1))
    size = at_once(places)

    def change(now: Progress) -> Progress:
        enough = places - size
        now = _go_on(search, wishes, now, jnp.where(now.following <= last, enough, queue.fewer))
        (free,) = jnp.nonzero(~search.live(now.state), size=size, fill_value=places)
        next_ones = now.following + jnp.arange(size)
        given = (free < places) & (next_ones <= last)
        free, next_ones = jnp.where(given, free, places), jnp.where(given, next_ones, count)

        def put(x: Array, new: Array) -> Array:
            return x.at[free].set(new, mode="drop")

        cache = queue.read(now.state.cache, free, jnp.minimum(next_ones, count - 1))
        fresh = search.start(wishes.take(next_ones))
        state = jax.tree.map(put, now.state._replace(cache=()), fresh)
        return now._replace(
            state=state._replace(cache=cache),
            sentences=put(now.sentences, next_ones),
            following=now.following + given.sum(),
        )

    def unfinished(now: Progress) -> Bool[Array, ""]:
        return (now.following <= last) | (search.live(now.state).sum() > queue.fewer)

    return jax.lax.while_loop(unfinished, change, now)


def _together(search: Search, now: Progress, places: int) -> Progress:
    """In so many places: those that are not done (no more than that), and some that are."""
    who = jnp.argsort(~search.live(now.state))[:places]
    return now._replace(
        state=jax.tree.map(lambda x: x[who], now.state), sentences=now.sentences[who]
    )
