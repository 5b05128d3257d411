"""Beam search on toy models whose optimum is known by reasoning or exhaustive search."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toy_models import (
    BOS,
    EOS,
    PAD,
    UNK,
    A,
    B,
    TableCache,
    all_hypotheses,
    make_search,
    random_tables,
    search,
    sentences,
    table_step,
    teacher_forced_score,
)

from flaxformer_mt.search import beam_search as module
from flaxformer_mt.search.loop import SentenceOptions, run
from flaxformer_mt.search.scoring import penalty

NEVER = -1e9


def table(probabilities: dict[tuple[int, ...], dict[int, float]]) -> np.ndarray:
    """Returns the model of one sentence, from the next token's probabilities after each prefix."""
    logits = np.full((1, 101, 6), NEVER, np.float32)
    logits[..., EOS] = 0.0
    for tokens, following in probabilities.items():
        prefix = 0
        for token in tokens:
            prefix = (prefix * 7 + token) % 101
        logits[0, prefix] = NEVER
        for token, probability in following.items():
            logits[0, prefix, token] = np.log(probability)
    return logits


# The first token A is more probable (0.6), but the best sentence starts with B.
#
#            0.6 .-- A --.-- 0.34 -> A EOS      0.6 * 0.34 * 1 = 0.204
#           .---'         `- 0.33 -> B EOS      0.6 * 0.33 * 1 = 0.198
#    BOS --:                `0.33 -> EOS        0.6 * 0.33     = 0.198
#           `---.
#            0.4 `-- B ----- 1.00 -> EOS        0.4 * 1        = 0.4
GARDEN_PATH = table({(): {A: 0.6, B: 0.4}, (A,): {A: 0.34, B: 0.33, EOS: 0.33}, (B,): {EOS: 1.0}})


def test_greedy_and_beam_one_take_the_more_probable_start_and_beam_two_does_not():
    for beam_size, best in ((None, (A, A, EOS)), (1, (A, A, EOS)), (2, (B, EOS))):
        found = search(GARDEN_PATH, [5], beam_size=beam_size)
        assert sentences(found, 0) == [best]
    np.testing.assert_allclose(found.scores, [[np.log(0.4)]], rtol=1e-6)


# Short: A EOS, 0.5.   Long: A B B EOS, 0.5 * 0.9 * 1 = 0.45.
# Score with alpha 1: log(0.5) / (7/6) = -0.594 against log(0.45) / (9/6) = -0.532.
SHORT_OR_LONG = table({(): {A: 1.0}, (A,): {EOS: 0.5, B: 0.5}, (A, B): {B: 0.9, EOS: 0.1}})


@pytest.mark.parametrize(("alpha", "best"), [(0.0, (A, EOS)), (1.0, (A, B, B, EOS))])
def test_length_penalty_prefers_longer_sentences(alpha, best):
    found = search(SHORT_OR_LONG, [6], beam_size=2, alpha=alpha)
    assert sentences(found, 0) == [best]


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
def test_a_beam_as_wide_as_the_space_is_exhaustive_search(alpha):
    """n-best lists, order and scores equal those of all 15 (or fewer) sentences."""
    limits = [4, 4, 2, 1, 0]
    tables = random_tables(0, len(limits))
    found = search(tables, limits, beam_size=16, num_hypotheses=16, alpha=alpha)
    for row, limit in enumerate(limits):
        every = list(all_hypotheses(6, limit))
        scores = {tokens: teacher_forced_score(tables[row], tokens, alpha) for tokens in every}
        expected = sorted(every, key=lambda tokens: -scores[tokens])
        assert sentences(found, row) == expected
        np.testing.assert_allclose(
            found.scores[row, : len(every)], [scores[tokens] for tokens in expected], atol=1e-5
        )
        assert (found.scores[row, len(every) :] == -np.inf).all()


@pytest.fixture(scope="module")
def batch():
    """Ten sentences over 40 words, searched with a beam of 4."""
    tables = random_tables(1, 10, vocab_size=40, num_prefixes=997)
    tables[..., EOS] += 2.0
    limits = [12, 12, 3, 9, 12, 1, 12, 5, 12, 12]
    return tables, limits


def search_batch(tables, limits, **given):
    given = {"beam_size": 4, "num_hypotheses": 3, "alpha": 0.8, "length": 12} | given
    return search(tables, limits, **given)


def test_results_are_sorted_distinct_and_end_once(batch):
    tables, limits = batch
    found = search_batch(tables, limits)
    assert (found.scores[:, :-1] >= found.scores[:, 1:]).all()
    for row, limit in enumerate(limits):
        hypotheses = sentences(found, row)
        assert len(set(hypotheses)) == len(hypotheses) == (3 if limit > 1 else 1)
        for tokens in hypotheses:
            assert len(tokens) <= limit
            assert tokens[-1] == EOS and tokens.count(EOS) == 1
            assert not {PAD, UNK, BOS} & set(tokens)
    after_end = np.arange(12) >= found.lengths[..., None]
    assert (found.tokens[after_end] == PAD).all()


def test_scores_are_those_of_teacher_forcing(batch):
    tables, limits = batch
    found = search_batch(tables, limits)
    for row in range(len(limits)):
        for tokens, score in zip(sentences(found, row), found.scores[row], strict=False):
            np.testing.assert_allclose(
                score, teacher_forced_score(tables[row], tokens, 0.8), atol=1e-5
            )


def test_a_permuted_batch_gives_bit_equal_rows(batch):
    tables, limits = batch
    order = np.random.default_rng(0).permutation(len(limits))
    found = search_batch(tables, limits)
    permuted = search_batch(tables[order], np.asarray(limits)[order])
    jax.tree.map(lambda x, y: np.testing.assert_array_equal(x[order], y), found, permuted)


def test_each_sentence_alone_gives_what_the_batch_gives(batch):
    tables, limits = batch
    found = search_batch(tables, limits)
    for row in (0, 2, 5):
        alone = search_batch(tables[row : row + 1], limits[row : row + 1])
        np.testing.assert_array_equal(alone.tokens[0], found.tokens[row])
        np.testing.assert_allclose(alone.scores[0], found.scores[row], atol=1e-5)


@pytest.mark.parametrize("num_hypotheses", [1, 4])
def test_stopping_early_changes_nothing(batch, num_hypotheses, monkeypatch):
    tables, limits = batch
    alphas = (0.0, 0.8, 3.0)
    early = [
        search_batch(tables, limits, num_hypotheses=num_hypotheses, alpha=alpha) for alpha in alphas
    ]
    monkeypatch.setattr(module, "should_stop", lambda *_, **__: jnp.zeros(len(limits), bool))
    jax.clear_caches()  # else the program compiled before would run
    full = [
        search_batch(tables, limits, num_hypotheses=num_hypotheses, alpha=alpha) for alpha in alphas
    ]
    jax.clear_caches()
    jax.tree.map(np.testing.assert_array_equal, early, full)


def test_the_loop_ends_when_nothing_can_win():
    """After "B EOS" (0.4) in step 2, no live hypothesis (at most 0.204) can win: 2 of 50 steps."""
    steps = []

    def counting_step(tokens, cache):
        jax.debug.callback(lambda: steps.append(1))
        return table_step(tokens, cache)

    cache = TableCache(jnp.asarray(GARDEN_PATH), jnp.zeros((1, 2), jnp.int32))
    how = make_search(2, 1, 6, 0.0, 50)
    run(how, counting_step, cache, SentenceOptions(jnp.array([50])))
    jax.effects_barrier()
    assert len(steps) == 2


def test_should_stop_compares_with_the_best_that_can_still_be_reached():
    tokens = jnp.zeros((3, 2, 1), jnp.int32)
    totals = jnp.array([[-2.0, -3.0]] * 3)
    live = module.Live(tokens, totals, totals)
    # With alpha 1 and a limit of 7 the penalty is at most 2: the best reachable score is -1.
    ranks = jnp.array([[-0.9, -1.1], [-1.1, -1.2], [-0.8, -0.9]])
    finished = module.Finished(tokens, ranks, ranks)
    given = {
        "rank_now": lambda totals: totals / penalty(jnp.array(1), 1.0),
        "rank_at_limit": lambda totals: totals / penalty(jnp.array([7, 7, 7]), 1.0),
        "early_stopping": "exact",
    }
    for num_hypotheses, expected in ((1, [True, False, True]), (2, [False, False, True])):
        stop = module.should_stop(live, finished, num_hypotheses=num_hypotheses, **given)
        assert stop.tolist() == expected


def test_a_bonus_changes_the_ranks_and_not_the_scores():
    """Like a coverage penalty; here a function of the prefix, compared with all sentences."""
    tables = random_tables(12, 3)
    bonus = {"coverage_bonus": lambda cache: -(cache.prefix % 5).astype(jnp.float32)}
    found = search(tables, [4] * 3, beam_size=16, num_hypotheses=16, alpha=0.7, **bonus)

    def rank(table, tokens):
        prefix = 0
        for token in tokens[:-1]:
            prefix = (prefix * 7 + token) % len(table)
        return teacher_forced_score(table, tokens, 0.7) - prefix % 5

    for row, table in enumerate(tables):
        every = sorted(all_hypotheses(6, 4), key=lambda tokens: -rank(table, tokens))
        assert sentences(found, row) == every
        scores = [teacher_forced_score(table, tokens, 0.7) for tokens in every]
        np.testing.assert_allclose(found.scores[row, : len(every)], scores, rtol=1e-4)
        assert scores != sorted(scores, reverse=True)


def test_beam_one_without_penalty_is_greedy_search(batch):
    tables, limits = batch
    beam = search_batch(tables, limits, beam_size=1, num_hypotheses=1, alpha=0.0)
    found = search_batch(tables, limits, beam_size=None, num_hypotheses=1, alpha=0.0)
    jax.tree.map(np.testing.assert_array_equal, beam, found)


@pytest.mark.parametrize(
    ("beam_size", "num_hypotheses", "message"),
    [(0, 1, "beam_size must be at least 1"), (2, 3, "widen the beam"), (2, 0, "between 1 and")],
)
def test_impossible_beams_are_refused(beam_size, num_hypotheses, message):
    with pytest.raises(ValueError, match=message):
        search(GARDEN_PATH, [5], beam_size=beam_size, num_hypotheses=num_hypotheses)
