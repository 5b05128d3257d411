"""Tokenising a corpus: nothing is lost, nothing too long is kept, and sampling can be repeated."""

from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np
import pytest

from flaxformer_mt.data.sources.pair import Pair, StoredPairs
from flaxformer_mt.data.tokenization import tokenized
from flaxformer_mt.data.tokenization.tokenized import (
    SubwordSampler,
    TokenizedPairs,
    tokenize_pairs,
)
from flaxformer_mt.data.tokenization.tokenizer import Tokenizer


class Letters:
    """A vocabulary of the letters; sampling inserts unknown tokens at random."""

    suffix: ClassVar[str] = ".letters"
    size, pad_id, unk_id, bos_id, eos_id = 30, 0, 1, 2, 3
    pieces = ("<pad>", "<unk>", "<s>", "</s>", *"abcdefghijklmnopqrstuvwxyz")

    def tokenize(self, text: str) -> list[int]:
        return [ord(letter) - ord("a") + 4 for letter in text.replace(" ", "")] + [self.eos_id]

    def tokenize_texts(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.tokenize(text) for text in texts]

    def detokenize(self, ids) -> str:
        return "".join(chr(token + ord("a") - 4) for token in ids if token > 3)

    def to_bytes(self) -> bytes:
        return b""

    def sample(self, text: str, random: Callable[[], float]) -> list[int]:
        return [self.unk_id] * int(4 * random()) + self.tokenize(text)


@pytest.fixture
def tokenizer() -> Tokenizer:
    return Tokenizer(source=Letters(), target=Letters())


PAIRS = [
    Pair("ab", "xyz"),
    Pair("  ", "a"),
    Pair("a", ""),
    Pair("abcde", "a"),
    Pair("a", "abcdef"),
    Pair("abcd", "abcde"),
    Pair("c", "d"),
]


def as_text(pairs: TokenizedPairs) -> list[tuple[str, str]]:
    detokenize = Letters().detokenize
    examples = [pairs.example(index) for index in range(len(pairs))]
    return [(detokenize(example.inputs), detokenize(example.targets)) for example in examples]


def test_unusable_pairs_are_dropped_and_counted_by_reason(tokenizer):
    result = tokenize_pairs(PAIRS, tokenizer, max_source_length=5, max_target_length=6)
    assert as_text(result.pairs) == [("ab", "xyz"), ("abcd", "abcde"), ("c", "d")]
    assert result.kept.tolist() == [0, 5, 6]
    assert result.dropped == {
        "empty source": 1,
        "empty target": 1,
        "source longer than 5 tokens": 1,
        "target longer than 6 tokens": 1,
    }
    assert result.pairs.source_lengths.tolist() == [3, 5, 2]
    assert result.pairs.target_lengths.tolist() == [4, 6, 2]
    assert result.pairs.inputs.dtype == result.pairs.targets.dtype == np.int32


def test_concatenation_keeps_every_pair_in_order(tokenizer):
    parts = [
        tokenize_pairs(part, tokenizer, max_source_length=9, max_target_length=9).pairs
        for part in (PAIRS[:1], [], PAIRS[3:])
    ]
    joined = TokenizedPairs.concatenate(parts)
    assert as_text(joined) == [tuple(pair) for pair in PAIRS[:1] + PAIRS[3:]]


def test_sampling_is_repeatable_differs_by_epoch_and_respects_the_limits(tokenizer):
    plain = tokenize_pairs(PAIRS[3:], tokenizer, max_source_length=9, max_target_length=9).pairs
    text = StoredPairs()
    for part in (PAIRS[3:5], [], PAIRS[5:]):
        text.add(part)
    sampler = SubwordSampler(
        text=text,
        plain=plain,
        tokenizer=tokenizer,
        seed=0,
        max_source_length=7,
        max_target_length=8,
    )
    epochs = [sampler.pairs_of(epoch) for epoch in range(20)]
    assert all(as_text(pairs) == as_text(plain) for pairs in epochs)
    assert max(pairs.source_lengths.max() for pairs in epochs) == 7
    assert max(pairs.target_lengths.max() for pairs in epochs) == 8
    np.testing.assert_array_equal(sampler.pairs_of(3).inputs, epochs[3].inputs)
    for index in reversed(range(len(plain))):  # a pair does not depend on those before it
        alone = sampler.sample(3, range(index, index + 1)).example(0)
        for ids, expected in zip(alone, epochs[3].example(index), strict=True):
            np.testing.assert_array_equal(ids, expected)
    assert len({pairs.inputs.tobytes() for pairs in epochs}) > 10


def test_numbers_in_blocks_are_those_of_the_generator():
    number, rng = tokenized._numbers(np.random.default_rng(7)), np.random.default_rng(7)
    assert [number() for _ in range(200)] == [rng.random() for _ in range(200)]
