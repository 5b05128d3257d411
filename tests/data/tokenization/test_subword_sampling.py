import itertools
import math
from collections import Counter

import numpy as np
import pytest

from flaxformer_mt.data.tokenization import subword_sampling
from flaxformer_mt.data.tokenization.subword_sampling import BpeDropout, PieceTable, UnigramSampler

PROBABILITIES = {"a": 0.2, "b": 0.2, "c": 0.1, "ab": 0.3, "bc": 0.15, "abc": 0.05}
TABLE = PieceTable(
    ids={piece: token for token, piece in enumerate(PROBABILITIES)},
    scores={piece: math.log(probability) for piece, probability in PROBABILITIES.items()},
    byte_ids=(),
    unk_id=99,
)
NAMES = list(PROBABILITIES)


def segmentations(text: str):
    """Returns all segmentations of `text` into pieces of the table."""
    for cuts in itertools.product([False, True], repeat=len(text) - 1):
        borders = [0, *(place + 1 for place, cut in enumerate(cuts) if cut), len(text)]
        pieces = tuple(text[i:j] for i, j in itertools.pairwise(borders))
        if all(piece in TABLE.ids for piece in pieces):
            yield pieces


@pytest.mark.parametrize("alpha", [0.3, 1.0])
def test_segmentations_are_sampled_in_proportion_to_their_probability_to_the_alpha(alpha, rng):
    weights = {
        pieces: math.prod(PROBABILITIES[piece] for piece in pieces) ** alpha
        for pieces in segmentations("abcab")
    }
    assert len(weights) == 8
    sampler, draws = UnigramSampler(TABLE, alpha), 20_000
    counts = Counter(
        tuple(NAMES[token] for token in sampler.sample("abcab", rng.random)) for _ in range(draws)
    )
    assert set(counts) == set(weights)
    for pieces, weight in weights.items():
        share = weight / sum(weights.values())
        assert counts[pieces] / draws == pytest.approx(share, abs=4 * math.sqrt(share / draws))


def test_a_large_alpha_finds_the_best_segmentation(rng):
    sampler = UnigramSampler(TABLE, 1000.0)
    assert [NAMES[token] for token in sampler.sample("abcab", rng.random)] == ["abc", "ab"]


def test_a_long_text_cannot_overflow(rng):
    ids = UnigramSampler(TABLE, 0.5).sample("abc" * 3000, rng.random)
    assert "".join(NAMES[token] for token in ids) == "abc" * 3000


def test_unknown_characters_in_a_row_are_one_unknown_piece(rng):
    for sampler in (UnigramSampler(TABLE, 0.5), BpeDropout(TABLE, 0.0)):
        assert sampler.sample("c??c?", rng.random) == [2, 99, 2, 99]


def test_a_known_piece_is_preferred_to_unknown_characters(rng):
    table = TABLE._replace(ids={"ab": 4}, scores={"ab": math.log(0.001)})
    assert UnigramSampler(table, 10.0).sample("abab", rng.random) == [4, 4]


def test_unknown_characters_are_spelled_in_bytes_if_the_model_has_them(rng):
    table = TABLE._replace(byte_ids=tuple(range(1000, 1256)))
    for sampler in (UnigramSampler(table, 0.5), BpeDropout(table, 0.0)):
        assert sampler.sample("cü", rng.random) == [2, 1000 + 0xC3, 1000 + 0xBC]


MERGES = ("ab", "cd", "abc", "bc")
BPE_TABLE = PieceTable(
    ids={piece: token for token, piece in enumerate(("a", "b", "c", "d", *MERGES))},
    scores={piece: -float(rank) for rank, piece in enumerate(MERGES)},
    byte_ids=(),
    unk_id=99,
)


def bpe(text: str, dropout: float, rng: np.random.Generator) -> list[str]:
    names = list(BPE_TABLE.ids)
    return [names[token] for token in BpeDropout(BPE_TABLE, dropout).sample(text, rng.random)]


def test_merges_are_taken_in_their_order(rng):
    # "ab" comes before "bc", and then "cd" before "abc".
    assert bpe("abcd", 0.0, rng) == ["ab", "cd"]
    assert bpe("abcabcab", 0.0, rng) == ["abc", "abc", "ab"]
    assert bpe("", 0.0, rng) == []


@pytest.mark.parametrize("sampler", [UnigramSampler, BpeDropout])
def test_the_cache_of_words_changes_nothing(sampler, monkeypatch):
    words = ["abcd", "abcabcab", "a", "dcba", "ab?d", ""] * 50
    remembering, rng = sampler(BPE_TABLE, 0.4), np.random.default_rng(0)
    cuts = [remembering.sample(word, rng.random) for word in words]
    monkeypatch.setattr(subword_sampling, "_LONGEST_CACHED", -1)
    rng = np.random.default_rng(0)
    assert [sampler(BPE_TABLE, 0.4).sample(word, rng.random) for word in words] == cuts


def test_dropout_skips_merges_with_its_probability(rng):
    draws = [tuple(bpe("ab", 0.3, rng)) for _ in range(5000)]
    assert draws.count(("a", "b")) / 5000 == pytest.approx(0.3, abs=0.03)
    every = {tuple(bpe("abcd", 0.5, rng)) for _ in range(500)}
    assert every == {
        ("a", "b", "c", "d"),
        ("ab", "c", "d"),
        ("a", "bc", "d"),
        ("a", "b", "cd"),
        ("ab", "cd"),
        ("abc", "d"),
    }
