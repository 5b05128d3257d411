"""Rules, on toy models: a beam as wide as the space finds the best of what the rule allows."""

import jax.numpy as jnp
import numpy as np
import pytest
from toy_models import (
    EOS,
    A,
    B,
    all_hypotheses,
    log_prob,
    log_softmax,
    random_tables,
    search,
    sentences,
)

from flaxformer_mt.search.rules import (
    ForcedPrefix,
    History,
    MinLength,
    NoRepeatedNgram,
    RepetitionPenalty,
    mark,
)

LIMIT = 5
WIDE = 32  # all 31 sentences of at most 5 tokens fit


@pytest.fixture(scope="module")
def tables() -> np.ndarray:
    return random_tables(11, 6)


def check_is_the_best_allowed(tables, wishes, allowed) -> None:
    """All that are `allowed(row, tokens)`, in the order of the model, with its scores."""
    limits = [LIMIT] * len(tables)
    found = search(tables, limits, beam_size=WIDE, num_hypotheses=WIDE, wishes=wishes)
    for row, table in enumerate(tables):
        every = [tokens for tokens in all_hypotheses(6, LIMIT) if allowed(row, tokens)]
        expected = sorted(every, key=lambda tokens: -log_prob(table, tokens))
        assert sentences(found, row) == expected
        scores = [log_prob(table, tokens) for tokens in expected]
        np.testing.assert_allclose(found.scores[row, : len(expected)], scores, rtol=1e-4)


def test_min_length(tables):
    lengths = [0, 1, 2, 3, 4, 5]
    wishes = {"rules": (MinLength(jnp.array(lengths), EOS),)}
    check_is_the_best_allowed(tables, wishes, lambda row, tokens: len(tokens) >= lengths[row])


def test_the_limit_is_stronger_than_the_min_length(tables):
    wishes = {"rules": (MinLength(jnp.full(6, 9), EOS),)}
    check_is_the_best_allowed(tables, wishes, lambda row, tokens: len(tokens) == LIMIT)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_no_ngram_comes_twice(tables, size):
    def no_repeats(_, tokens):
        ngrams = [tokens[i : i + size] for i in range(len(tokens) - size + 1)]
        return len(set(ngrams)) == len(ngrams)

    check_is_the_best_allowed(tables, {"rules": (NoRepeatedNgram(size),)}, no_repeats)


def test_a_prefix_is_kept_whatever_the_rules_say(tables):
    prefixes = [(), (A,), (B,), (A, A), (B, A, B), (B, B, B, B)]
    tokens = np.zeros((6, 4), np.int32)
    for row, prefix in enumerate(prefixes):
        tokens[row, : len(prefix)] = prefix
    lengths = jnp.array([len(prefix) for prefix in prefixes])
    wishes = {"prefix": ForcedPrefix(jnp.asarray(tokens), lengths)}

    def begins(row, tokens):
        return tokens[: len(prefixes[row])] == prefixes[row]

    check_is_the_best_allowed(tables, wishes, begins)
    found = search(
        tables, [LIMIT] * 6, beam_size=4, wishes={**wishes, "rules": (NoRepeatedNgram(1),)}
    )
    assert all(begins(row, sentences(found, row)[0]) for row in range(6))
    greedy = search(tables, [LIMIT] * 6, wishes=wishes)
    assert all(begins(row, sentences(greedy, row)[0]) for row in range(6))


def test_a_penalty_for_repetition_changes_the_order_and_not_the_score(tables):
    factor = 1.7
    wishes = {"rules": (RepetitionPenalty(jnp.float32(factor)),)}
    found = search(tables, [LIMIT] * 6, beam_size=WIDE, num_hypotheses=WIDE, wishes=wishes)
    changed = 0
    for row, table in enumerate(tables):
        log_probs = log_softmax(table)

        def compared(tokens, log_probs=log_probs):
            total, prefix = 0.0, 0
            for place, token in enumerate(tokens):
                again = token in tokens[:place]
                total += log_probs[prefix, token] * (factor if again else 1)
                prefix = (prefix * 7 + token) % len(log_probs)
            return total

        order = sorted(all_hypotheses(6, LIMIT), key=lambda tokens: -compared(tokens))
        assert sentences(found, row) == order
        scores = [log_prob(table, tokens) for tokens in order]
        np.testing.assert_allclose(found.scores[row, : len(order)], scores, rtol=1e-4)
        changed += scores != sorted(scores, reverse=True)
    assert changed


def test_greedy_search_keeps_rules(tables):
    wishes = {"rules": (MinLength(jnp.full(6, 4), EOS), NoRepeatedNgram(2))}
    found = search(tables, [12] * 6, wishes=wishes)
    for row in range(6):
        (tokens,) = sentences(found, row)
        pairs = list(zip(tokens, tokens[1:], strict=False))
        assert len(tokens) >= 4 and len(set(pairs)) == len(pairs)


def test_what_is_beyond_the_step_does_not_count():
    tokens = jnp.array([[[A, B, A, B, A]]])
    scores = jnp.zeros((1, 1, 6))
    banned = NoRepeatedNgram(2)(scores, History(tokens, jnp.array([3]))) == -jnp.inf
    assert np.flatnonzero(banned[0, 0]).tolist() == [B]  # after A B A
    assert not (NoRepeatedNgram(2)(scores, History(tokens, jnp.array([2]))) == -jnp.inf).any()
    where = jnp.array([[[True, False, False, False, False]]])
    assert np.flatnonzero(mark(tokens, where, 6)[0, 0]).tolist() == [A]
