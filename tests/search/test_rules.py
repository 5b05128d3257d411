"""Rules, on toy models: a beam as wide as the space finds the best of what the rule allows."""

import flax.struct
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
    Completion,
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


def check_is_the_best_allowed(tables, sentence_options, allowed) -> None:
    """All that are `allowed(row, tokens)`, in the order of the model, with its scores."""
    limits = [LIMIT] * len(tables)
    found = search(
        tables, limits, beam_size=WIDE, num_hypotheses=WIDE, sentence_options=sentence_options
    )
    for row, table in enumerate(tables):
        every = [tokens for tokens in all_hypotheses(6, LIMIT) if allowed(row, tokens)]
        expected = sorted(every, key=lambda tokens: -log_prob(table, tokens))
        assert sentences(found, row) == expected
        scores = [log_prob(table, tokens) for tokens in expected]
        np.testing.assert_allclose(found.scores[row, : len(expected)], scores, rtol=1e-4)


def test_min_length(tables):
    lengths = [0, 1, 2, 3, 4, 5]
    sentence_options = {"rules": (MinLength(jnp.array(lengths), EOS),)}
    check_is_the_best_allowed(
        tables, sentence_options, lambda row, tokens: len(tokens) >= lengths[row]
    )


def test_the_limit_is_stronger_than_the_min_length(tables):
    sentence_options = {"rules": (MinLength(jnp.full(6, 9), EOS),)}
    check_is_the_best_allowed(tables, sentence_options, lambda row, tokens: len(tokens) == LIMIT)


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
    sentence_options = {"prefix": ForcedPrefix(jnp.asarray(tokens), lengths)}

    def begins(row, tokens):
        return tokens[: len(prefixes[row])] == prefixes[row]

    check_is_the_best_allowed(tables, sentence_options, begins)
    found = search(
        tables,
        [LIMIT] * 6,
        beam_size=4,
        sentence_options={**sentence_options, "rules": (NoRepeatedNgram(1),)},
    )
    assert all(begins(row, sentences(found, row)[0]) for row in range(6))
    greedy = search(tables, [LIMIT] * 6, sentence_options=sentence_options)
    assert all(begins(row, sentences(greedy, row)[0]) for row in range(6))


@flax.struct.dataclass
class OnlyB:
    """A rule that allows one token only."""

    def __call__(self, scores, chosen):
        return jnp.where(jnp.arange(scores.shape[-1]) == B, scores, -jnp.inf)


def test_a_prefix_can_end_its_last_word(tables):
    """B continues a word. In rows 0 to 2 it must not follow the prefix, if another token can."""
    prefixes = [(), (A,), (A, B), (A,), (), (A,)]
    tokens = np.zeros((6, 2), np.int32)
    for row, prefix in enumerate(prefixes):
        tokens[row, : len(prefix)] = prefix
    lengths = jnp.array([len(prefix) for prefix in prefixes])
    boundary = jnp.arange(6)[None] != B
    options = {
        "prefix": ForcedPrefix(jnp.asarray(tokens), lengths, None, jnp.arange(6) < 3, boundary)
    }

    def is_allowed(row, tokens):
        given = len(prefixes[row])
        return tokens[:given] == prefixes[row] and (row >= 3 or tokens[given] != B)

    check_is_the_best_allowed(tables, options, is_allowed)
    greedy = search(tables, [LIMIT] * 6, sentence_options=options)
    assert all(is_allowed(row, sentences(greedy, row)[0]) for row in range(6))
    for beam_size in (None, 2):
        options["rules"] = (OnlyB(),)
        found = search(tables, [LIMIT] * 6, beam_size=beam_size, sentence_options=options)
        assert all(sentences(found, row)[0][len(prefixes[row])] == B for row in range(6))


PIECES = {A: "a", B: "ab", 6: "b", 7: "abc", 8: "c"}


def completion_of(words: list[str]) -> Completion:
    """The arrays of the texts, by definition."""
    ranked = sorted(PIECES.values())
    ranges, parts = np.zeros((len(words), 3, 2), int), np.full((len(words), 3, 3), -1)
    for row, word in enumerate(words):
        for start in range(len(word)):
            rest = word[start:]
            longer = [rank for rank, piece in enumerate(ranked) if piece.startswith(rest)]
            ranges[row, start] = (longer[0], longer[-1] + 1) if longer else (0, 0)
            found = [t for t, piece in PIECES.items() if rest.startswith(piece) and piece != rest]
            parts[row, start, : len(found)] = found
    ranks, widths = np.full((1, 9), -1), np.zeros((1, 9), int)
    for token, piece in PIECES.items():
        ranks[0, token], widths[0, token] = ranked.index(piece), len(piece)
    arrays = ([len(word) for word in words], ranges, parts, ranks, widths)
    return Completion(*(jnp.asarray(x, jnp.int32) for x in arrays))


def test_a_completion_allows_exactly_the_texts_that_begin_with_it():
    """After a prefix of 0 to 2 tokens, and for a text of 0 to 3 characters."""
    words = ["", "a", "ab", "abc", "c", "ba"]
    prefixes = [(), (8,), (8, A), (), (A,), (B,)]
    tokens = np.zeros((6, 2), np.int32)
    for row, prefix in enumerate(prefixes):
        tokens[row, : len(prefix)] = prefix
    lengths = jnp.array([len(prefix) for prefix in prefixes])
    prefix = ForcedPrefix(jnp.asarray(tokens), lengths, completion_of(words))
    tables = random_tables(5, 6, vocab_size=9)
    repeated = {"prefix": prefix, "rules": (NoRepeatedNgram(1), MinLength(jnp.full(6, 4), EOS))}

    def begins(row, tokens):
        rest = "".join(PIECES[token] for token in tokens[len(prefixes[row]) : -1])
        return tokens[: len(prefixes[row])] == prefixes[row] and rest.startswith(words[row])

    wide = 160  # all 156 sentences of at most 4 tokens fit
    found = search(
        tables, [4] * 6, beam_size=wide, num_hypotheses=wide, sentence_options={"prefix": prefix}
    )
    for row, table in enumerate(tables):
        every = [tokens for tokens in all_hypotheses(9, 4) if begins(row, tokens)]
        complete = [tokens for tokens in sentences(found, row) if begins(row, tokens)]
        assert complete == sorted(every, key=lambda t: -log_prob(table, t))
        # The limit can end a sentence before its text is complete. Requests have a higher limit.
        assert all(len(t) == 4 for t in sentences(found, row) if not begins(row, t))
    for beam_size in (None, 2):
        found = search(tables, [6] * 6, beam_size=beam_size, sentence_options=repeated)
        assert all(begins(row, sentences(found, row)[0]) for row in range(6))


def test_a_penalty_for_repetition_changes_the_order_and_not_the_score(tables):
    factor = 1.7
    sentence_options = {"rules": (RepetitionPenalty(jnp.float32(factor)),)}
    found = search(
        tables, [LIMIT] * 6, beam_size=WIDE, num_hypotheses=WIDE, sentence_options=sentence_options
    )
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
    sentence_options = {"rules": (MinLength(jnp.full(6, 4), EOS), NoRepeatedNgram(2))}
    found = search(tables, [12] * 6, sentence_options=sentence_options)
    for row in range(6):
        (tokens,) = sentences(found, row)
        pairs = list(zip(tokens, tokens[1:], strict=False))
        assert len(tokens) >= 4 and len(set(pairs)) == len(pairs)


def test_tokens_beyond_the_step_are_ignored():
    tokens = jnp.array([[[A, B, A, B, A]]])
    scores = jnp.zeros((1, 1, 6))
    banned = NoRepeatedNgram(2)(scores, History(tokens, jnp.array([3]))) == -jnp.inf
    assert np.flatnonzero(banned[0, 0]).tolist() == [B]  # after A B A
    assert not (NoRepeatedNgram(2)(scores, History(tokens, jnp.array([2]))) == -jnp.inf).any()
    where = jnp.array([[[True, False, False, False, False]]])
    assert np.flatnonzero(mark(tokens, where, 6)[0, 0]).tolist() == [A]
