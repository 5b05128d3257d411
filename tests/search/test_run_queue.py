"""A queue of sentences for few slots gives the results of one slot for each sentence."""

import functools
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiers import slow_after
from toy_models import EOS, make_search, random_tables, table_step

from flaxformer_mt.search.loop import SentenceOptions, run, run_queue
from flaxformer_mt.search.rules import ForcedPrefix, MinLength, NoRepeatedNgram
from flaxformer_mt.search.sampling import Sampler, WithoutReplacement

VOCAB, BEAMS, LENGTH = 40, 3, 12
LIMITS = np.array([12, 3, 12, 0, 9, 12, 1, 12, 5, 12, 12, 2, 0, 12, 0, 0])
"""Of 16 sentences; some are empty, also at the end."""


@flax.struct.dataclass
class TablesOfSlots:
    """Like `toy_models.TableCache`, with the tables of the sentences in the slots."""

    tables: jax.Array  # [B P V]
    prefix: jax.Array  # [B K]

    def select(self, parents):
        return self.replace(prefix=jnp.take_along_axis(self.prefix, parents, axis=1))


def step(tokens, cache):
    logits, after = table_step(tokens, cache)
    return logits, TablesOfSlots(after.tables, after.prefix)


@pytest.fixture(scope="module")
def tables():
    tables = random_tables(5, len(LIMITS), vocab_size=VOCAB, num_prefixes=997)
    tables[..., EOS] += 2.0
    return jnp.asarray(tables)


@functools.partial(jax.jit, static_argnames=("beam_size", "slots"))
def found_in_slots(tables, options, beam_size, slots: int) -> Any:
    """Returns the hypotheses of all sentences, searched in `slots` slots; 0 = without a queue."""
    search = make_search(beam_size, BEAMS, VOCAB, jnp.float32(0.8), LENGTH)
    options = SentenceOptions(jnp.asarray(LIMITS), **options)
    rows = slots or len(LIMITS)
    cache = TablesOfSlots(tables[:rows], jnp.zeros((rows, BEAMS), jnp.int32))
    if not slots:
        return run(search, step, cache, options)

    def admit(cache, free, sentences):
        prefix = cache.prefix.at[free].set(12345, mode="drop")  # must not be read before BOS
        return TablesOfSlots(cache.tables.at[free].set(tables[sentences], mode="drop"), prefix)

    return run_queue(search, step, cache, options, admit, slots=slots)


SAMPLER = Sampler(jnp.arange(16, dtype=jnp.uint32), jnp.float32(1.0))
PREFIX = ForcedPrefix(
    jnp.asarray(np.random.default_rng(0).integers(6, VOCAB, (16, 2)), jnp.int32),
    jnp.arange(16) % 3,
)
OPTIONS = {
    "plain": {},
    "rules": {"rules": (MinLength(jnp.arange(16), EOS), NoRepeatedNgram(2)), "prefix": PREFIX},
}


@pytest.mark.parametrize("slots", slow_after(1, [4, 15, 1, 8, 16]))
@pytest.mark.parametrize(
    "beam_size, options",
    slow_after(2, [(BEAMS, "rules"), (None, "rules"), (BEAMS, "plain"), (None, "plain")]),
)
def test_a_queue_changes_nothing(tables, beam_size, options, slots):
    wanted = found_in_slots(tables, OPTIONS[options], beam_size, 0)
    found = found_in_slots(tables, OPTIONS[options], beam_size, slots)
    real = np.asarray(wanted.scores > -jnp.inf)
    np.testing.assert_array_equal(found.scores, wanted.scores)
    np.testing.assert_array_equal(found.lengths, wanted.lengths)
    np.testing.assert_array_equal(found.tokens[real], wanted.tokens[real])


@pytest.mark.parametrize("slots", slow_after(1, [4, 8]))
@pytest.mark.parametrize("kind", ["choose", "selection"])
def test_the_samples_of_a_sentence_depend_on_its_seed_alone(tables, kind, slots):
    distinct = WithoutReplacement(SAMPLER)
    beam_size, option = {"choose": (None, SAMPLER), "selection": (BEAMS, distinct)}[kind]
    wanted = found_in_slots(tables, {kind: option}, beam_size, 0)
    found = found_in_slots(tables, {kind: option}, beam_size, slots)
    np.testing.assert_array_equal(found.scores, wanted.scores)
    np.testing.assert_array_equal(found.lengths, wanted.lengths)


def test_the_work_follows_the_tokens_and_not_the_longest_sentence(tables):
    """64 sentences, 8 of which are long: 8 slots need far fewer than 64 / 8 * 12 steps."""
    many = jnp.tile(tables[:1], (8, 1, 1))
    limits = jnp.where(jnp.arange(64) % 8 == 0, 12, 2)
    steps = []

    def counting_step(tokens, cache):
        jax.debug.callback(lambda: steps.append(len(tokens)))
        return step(tokens, cache)

    run_queue(
        make_search(None, 1, VOCAB, 0.0, LENGTH),
        counting_step,
        TablesOfSlots(many, jnp.zeros((8, 1), jnp.int32)),
        SentenceOptions(limits, (MinLength(limits, EOS),)),
        lambda cache, free, sentences: cache,
        slots=8,
    )
    jax.effects_barrier()
    in_full_batches, tokens = 8 * 12, int(limits.sum())
    assert set(steps) == {8}
    assert tokens / 8 <= len(steps) < 0.5 * in_full_batches
