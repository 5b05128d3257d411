"""The options of the search against their definition, in plain Python and float64.

`plain_search` follows the beam search of Hugging Face's `generate`; tests/parity compares with that
itself.
"""

import numpy as np
import pytest
from toy_models import BOS, EOS, PAD, UNK, log_softmax, random_tables, search, sentences

from flaxformer_mt.data.tokenization.tokenizer import Tokenizer
from flaxformer_mt.data.tokenization.word_vocabulary import WordVocabulary
from flaxformer_mt.translation.config import DecodingConfig
from flaxformer_mt.translation.setup import suppressed_tokens

BEAM, ALPHA, LIMIT = 3, 0.7, 9
FORBIDDEN = [PAD, UNK, BOS]


def plain_search(table, *, normalization, early_stopping, forced_end, renormalize):
    """Returns [(score, tokens)], best first."""

    def score(log_prob, length):
        base = length if normalization == "average" else (5 + length) / 6
        return log_prob / base**ALPHA

    if renormalize:
        table = table.copy()
        table[:, FORBIDDEN] = -1e30
    table = log_softmax(table)
    table[:, FORBIDDEN] = -np.inf
    live, finished = [(0.0, (), 0)], []
    for length in range(1, LIMIT + 1):
        extended = []
        for total, tokens, prefix in live:
            log_probs = table[prefix]
            if length == LIMIT:
                last = 0.0 if forced_end == "free" else log_probs[EOS]
                log_probs = np.where(np.arange(len(log_probs)) == EOS, last, -np.inf)
            for token in np.flatnonzero(log_probs > -np.inf):
                next_prefix = (prefix * 7 + int(token)) % len(table)
                extended.append((total + log_probs[token], (*tokens, int(token)), next_prefix))
        extended = sorted(extended, reverse=True)[: 2 * BEAM]
        ended = [
            (score(t, length), tokens) for t, tokens, _ in extended[:BEAM] if tokens[-1] == EOS
        ]
        finished = sorted([*finished, *ended], reverse=True)[:BEAM]
        live = [one for one in extended if one[1][-1] != EOS][:BEAM]
        if len(finished) == BEAM and live:
            worst, best_live = finished[-1][0], live[0][0]
            reachable = {
                "first": -np.inf,
                "heuristic": score(best_live, length),
                "exact": score(best_live, LIMIT),
            }
            if reachable[early_stopping] <= worst:
                break
    return finished


OPTIONS = [
    {"length_normalization": "average", "early_stopping": "heuristic", "forced_end": "free"},
    {"length_normalization": "average", "early_stopping": "first", "forced_end": "free"},
    {"length_normalization": "average", "early_stopping": "exact", "forced_end": "scored"},
    {"length_normalization": "gnmt", "early_stopping": "heuristic", "renormalize": True},
    {"length_normalization": "average", "renormalize": True, "forced_end": "free"},
]
DEFAULTS = {
    "length_normalization": "gnmt",
    "early_stopping": "exact",
    "forced_end": "scored",
    "renormalize": False,
}


@pytest.fixture(scope="module")
def tables():
    """Sixty sentences: short ones, long ones, and many that reach the limit."""
    tables = random_tables(7, 60, vocab_size=9)
    tables[:20, :, EOS] += 1.5
    tables[40:, :, EOS] -= 2.0
    return tables


@pytest.fixture(scope="module")
def found(tables):
    return [
        search(tables, [LIMIT] * 60, beam_size=BEAM, num_hypotheses=BEAM, alpha=ALPHA, **options)
        for options in OPTIONS
    ]


@pytest.mark.parametrize("place", range(len(OPTIONS)))
def test_beam_search_keeps_the_rules(tables, found, place):
    given = DEFAULTS | OPTIONS[place]
    given["normalization"] = given.pop("length_normalization")
    for row, table in enumerate(tables):
        expected = plain_search(table, **given)
        assert sentences(found[place], row) == [tokens for _, tokens in expected]
        np.testing.assert_allclose(
            found[place].scores[row], [score for score, _ in expected], atol=2e-5
        )


def test_the_options_matter(found):
    """Any two combinations find other translations, or other scores."""
    for place, one in enumerate(found):
        for other in found[place + 1 :]:
            assert (one.tokens != other.tokens).any() or (one.scores != other.scores).any()
    first, heuristic = found[1], found[0]
    assert (first.tokens != heuristic.tokens).any()
    assert (heuristic.tokens != found[2].tokens).any()


def test_greedy_search_keeps_the_rules_too(tables):
    plain = search(tables, [LIMIT] * 60)
    scaled = search(tables, [LIMIT] * 60, alpha=1.0, length_normalization="average")
    np.testing.assert_array_equal(plain.tokens, scaled.tokens)
    np.testing.assert_allclose(scaled.scores, plain.scores / plain.lengths, rtol=1e-6)
    free = search(tables, [LIMIT] * 60, forced_end="free")
    assert ((free.scores > plain.scores) == (plain.lengths == LIMIT)).all()
    renormalized = search(tables, [LIMIT] * 60, renormalize=True)
    np.testing.assert_array_equal(plain.tokens, renormalized.tokens)
    assert (renormalized.scores > plain.scores).all()


def test_suppressed_tokens_are_not_chosen():
    words = WordVocabulary([(f"w{i}", 1) for i in range(12)])

    def suppressed(**given) -> list[int]:
        mask = suppressed_tokens(Tokenizer(words, words), DecodingConfig(**given))
        return np.flatnonzero(mask).tolist()

    assert suppressed() == [0, 1, 2]
    assert suppressed(allow_unknown=True, forbidden=(7, 5)) == [0, 2, 5, 7]
    assert suppressed(forbidden=tuple(np.array([5, 7]))) == [0, 1, 2, 5, 7]
    assert suppressed(allow_special=True, allow_unknown=True) == []
    for token in (3, 12, -1):
        with pytest.raises(ValueError, match=rf"other than EOS \(3\), but it holds {token}"):
            suppressed(forbidden=(token,))
