"""Sentences that take turns are searched as if each had a place of its own from the start."""

import functools
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toy_models import BOS, EOS, PAD, random_tables, suppressed, table_step

from flaxformer_mt.inference.continuous_batching import Queue
from flaxformer_mt.search.beam_search import beam_search
from flaxformer_mt.search.greedy import greedy
from flaxformer_mt.search.rules import ForcedPrefix, MinLength, NoRepeatedNgram
from flaxformer_mt.search.sampling import Sampler, WithoutReplacement

VOCAB, BEAMS, LENGTH = 40, 3, 12
LIMITS = np.array([12, 3, 12, 0, 9, 12, 1, 12, 5, 12, 12, 2, 0, 12, 0, 0])
"""Of 16 sentences, empty ones among them and behind them."""


@flax.struct.dataclass
class Places:
    """As `toy_models.TableCache`; the tables are those of the sentences in the places."""

    tables: jax.Array  # [B P V]
    prefix: jax.Array  # [B K]

    def select(self, parents):
        return self.replace(prefix=jnp.take_along_axis(self.prefix, parents, axis=1))


def step(tokens, cache):
    logits, after = table_step(tokens, cache)
    return logits, Places(after.tables, after.prefix)


@pytest.fixture(scope="module")
def tables():
    tables = random_tables(5, len(LIMITS), vocab_size=VOCAB, num_prefixes=997)
    tables[..., EOS] += 2.0
    return jnp.asarray(tables)


@functools.partial(jax.jit, static_argnames=("search", "places", "fewer"))
def found_in_turn(tables, wishes, search, places: int, fewer: int = 0) -> Any:
    beams, limits = BEAMS, jnp.asarray(LIMITS)

    def read(cache, free, sentences):
        prefix = cache.prefix.at[free].set(12345, mode="drop")  # must not be read before BOS
        return Places(cache.tables.at[free].set(tables[sentences], mode="drop"), prefix)

    queue = Queue(places, read, fewer) if places < len(limits) else None
    cache = Places(tables[:places], jnp.zeros((places, beams), jnp.int32))
    sizes = {"num_hypotheses": beams} | ({"beam_size": beams} if search is beam_search else {})
    return search(
        step,
        cache,
        max_target_length=LENGTH,
        length_limits=limits,
        length_penalty=jnp.float32(0.8),
        suppressed=suppressed(VOCAB),
        bos_id=BOS,
        eos_id=EOS,
        pad_id=PAD,
        queue=queue,
        **sizes,
        **wishes,
    )


SAMPLER = Sampler(jnp.arange(16, dtype=jnp.uint32), jnp.float32(1.0))
PREFIX = ForcedPrefix(
    jnp.asarray(np.random.default_rng(0).integers(6, VOCAB, (16, 2)), jnp.int32),
    jnp.arange(16) % 3,
)
WISHES = {
    "plain": {},
    "rules": {"rules": (MinLength(jnp.arange(16), EOS), NoRepeatedNgram(2)), "prefix": PREFIX},
}


@pytest.mark.parametrize(
    "places, fewer", [(1, 0), (4, 0), (4, 1), (8, 0), (8, 3), (15, 0), (15, 14)]
)
@pytest.mark.parametrize("wish", WISHES)
@pytest.mark.parametrize("search", [beam_search, greedy])
def test_taking_turns_changes_nothing(tables, search, wish, places, fewer):
    wanted = found_in_turn(tables, WISHES[wish], search, len(LIMITS))
    found = found_in_turn(tables, WISHES[wish], search, places, fewer)
    for ours, theirs in zip(found, wanted, strict=True):
        if ours.ndim == 3:  # tokens: of places without a hypothesis anything
            real = np.asarray(wanted.scores > -jnp.inf)[..., None]
            ours, theirs = np.where(real, ours, 0), np.where(real, theirs, 0)
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("places", [4, 8])
@pytest.mark.parametrize("kind", ["choose", "selection"])
def test_draws_are_those_of_the_sentence(tables, kind, places):
    distinct = WithoutReplacement(SAMPLER)
    search, wish = {"choose": (greedy, SAMPLER), "selection": (beam_search, distinct)}[kind]
    wanted = found_in_turn(tables, {kind: wish}, search, len(LIMITS))
    found = found_in_turn(tables, {kind: wish}, search, places, places // 4)
    np.testing.assert_array_equal(found.scores, wanted.scores)
    np.testing.assert_array_equal(found.lengths, wanted.lengths)


def places_of_steps(cache, limits, queue) -> list[int]:
    """In how many places each token of a greedy search is, that ends nothing before its limit."""
    steps = []

    def counting_step(tokens, cache):
        jax.debug.callback(lambda: steps.append(len(tokens)))
        return step(tokens, cache)

    greedy(
        counting_step,
        cache,
        max_target_length=LENGTH,
        length_limits=limits,
        length_penalty=0.0,
        suppressed=suppressed(VOCAB),
        bos_id=BOS,
        eos_id=EOS,
        pad_id=PAD,
        queue=queue,
        rules=(MinLength(limits, EOS),),
    )
    jax.effects_barrier()
    return steps


def test_the_work_is_that_of_the_tokens_and_not_of_the_longest(tables):
    """64 sentences, 8 of which are long: 8 places take turns in far fewer than 64 / 8 * 12."""
    many = jnp.tile(tables[:1], (8, 1, 1))
    limits = jnp.where(jnp.arange(64) % 8 == 0, 12, 2)
    cache = Places(many, jnp.zeros((8, 1), jnp.int32))
    queue = Queue(8, lambda cache, free, sentences: Places(many, cache.prefix))
    steps = len(places_of_steps(cache, limits, queue))
    in_full_batches, tokens = 8 * 12, int(limits.sum())
    assert tokens / 8 <= steps < 0.5 * in_full_batches


@pytest.mark.parametrize("fewer, in_all", [(0, 12), (1, 10), (2, 4), (6, 2)])
def test_the_last_sentences_move_together(tables, fewer, in_all):
    """Of 8 sentences six are left after 2 tokens, two after 4, one after 10."""
    limits = jnp.array([12, 2, 4, 2, 4, 4, 10, 4])
    cache = Places(tables[:8], jnp.zeros((8, 1), jnp.int32))
    queue = Queue(8, lambda cache, free, sentences: cache, fewer)
    steps = places_of_steps(cache, limits, queue)
    assert steps == [8] * in_all + [fewer] * (LENGTH - in_all)
