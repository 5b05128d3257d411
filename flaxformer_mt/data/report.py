"""The report on the data, which a training run prints first."""

import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np

from flaxformer_mt.data.batching.batch import BatchShape
from flaxformer_mt.data.sources.pair import PairSource
from flaxformer_mt.data.tokenization.tokenized import TokenizedPairs
from flaxformer_mt.data.tokenization.tokenizer import Vocabulary

# Unknown tokens are listed from this many pairs, so that a large corpus takes no longer.
MAX_PAIRS_NAMED = 20_000
_NUM_TOKENS_NAMED = 8


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitCounts:
    """Numbers of pairs of training, validation or test text: read, kept, and dropped by reason."""

    read: int
    kept: int
    dropped: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Numbers of dropped pairs by reason."""

    def __str__(self) -> str:
        if not self.read:
            return "none"
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(self.dropped.items()))
        return f"{self.read:,} pairs read, {self.kept:,} kept" + (
            f", {sum(self.dropped.values()):,} dropped ({reasons})" if reasons else ""
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Side:
    """One side of the training text, and its unknown tokens."""

    vocabulary_size: int
    num_tokens: int
    """Number of tokens of the text, without EOS."""
    num_unknown: int
    """Number of unknown tokens among them."""
    most_frequent_unknown: tuple[tuple[str, int], ...]
    """The most frequent unknown tokens and their counts, in the first 20,000 pairs with any."""

    @property
    def unknown_fraction(self) -> float:
        """Unknown tokens as a fraction of all tokens."""
        return self.num_unknown / max(self.num_tokens, 1)

    def __str__(self) -> str:
        names = "; ".join(
            f"{token!r} {count:,} times" for token, count in self.most_frequent_unknown
        )
        return (
            f"{self.num_tokens:,} tokens, {self.vocabulary_size:,} different in the vocabulary, "
            f"{self.unknown_fraction:.2%} unknown" + (f": {names}" if names else "")
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataReport:
    """Kept and dropped pairs, batch shapes, padding, unknown tokens. `str()` is for users."""

    corpora: tuple[str, ...]
    """Names of the training corpora."""
    weights: tuple[float, ...]
    """How often an epoch contains each corpus."""
    train: SplitCounts
    validation: SplitCounts
    test: SplitCounts
    source: Side
    target: Side
    shapes: tuple[BatchShape, ...]
    padding: float
    """Fraction of padding in the first epoch, both sides together."""
    pairs_per_row: float
    """Mean number of pairs in a row: 1 without packing."""
    steps_per_epoch: int
    """Batches in the first epoch. Later epochs differ slightly with weights or sampling."""
    first_bad: str = ""
    """The first bad record of the training text, with its file, line and reason."""
    quarantine: str = ""
    """The file that lists the bad records, if there is one."""

    def __str__(self) -> str:
        packed = f"{self.pairs_per_row:.1f} pairs a row, " if self.pairs_per_row > 1 else ""
        shapes = f"{len(self.shapes)} shape" + ("s" if len(self.shapes) != 1 else "")
        listed = f" All: {self.quarantine}" if self.quarantine else ""
        lines = [
            f"training    {self.train}",
            *(
                f"            from {corpus}"
                + ("" if times == 1 else f", {times:.3g} times an epoch")
                for corpus, times in zip(self.corpora, self.weights, strict=True)
            ),
            *([f"            bad records: {self.first_bad}{listed}"] if self.first_bad else []),
            f"validation  {self.validation}",
            f"test        {self.test}",
            f"source      {self.source}",
            f"target      {self.target}",
            f"batches     {self.steps_per_epoch:,} an epoch with {self.padding:.1%} padding, in "
            f"{shapes}, {packed}rows x (source -> target tokens):",
            f"            {', '.join(map(str, self.shapes))}",
        ]
        if self.steps_per_epoch == 1:
            lines.append(
                f"warning     one batch holds all {self.train.kept:,} training pairs, so the model "
                "learns them by heart: list more text in data.train, or lower data.tokens_per_batch"
            )
        return "\n".join(lines)


def describe_side(
    side: int, vocabulary: Vocabulary, text: PairSource, pairs: TokenizedPairs
) -> Side:
    """Counts tokens and unknown tokens. The arguments are as in `unknown_words`."""
    ids, _ = pairs.sides[side]
    unknown = unknown_words(side, vocabulary, text, pairs)
    words = itertools.chain.from_iterable(itertools.islice(unknown, MAX_PAIRS_NAMED))
    num_unknown = int(np.count_nonzero(ids == vocabulary.unk_id))
    return make_side(vocabulary, len(ids) - len(pairs), num_unknown, Counter(words))


def make_side(
    vocabulary: Vocabulary, num_tokens: int, num_unknown: int, unknown: Counter[str]
) -> Side:
    """Returns the description of a side. `unknown` has the numbers of its unknown words."""
    return Side(
        vocabulary_size=vocabulary.size,
        num_tokens=num_tokens,
        num_unknown=num_unknown,
        most_frequent_unknown=tuple(unknown.most_common(_NUM_TOKENS_NAMED)),
    )


def unknown_words(
    side: int, vocabulary: Vocabulary, text: PairSource, pairs: TokenizedPairs
) -> Iterator[list[str]]:
    """Yields the unknown words of each pair that has any.

    Args:
      side: 0 = source, 1 = target.
      vocabulary: of this side.
      text: the pairs as text.
      pairs: the same pairs as token ids.
    """
    ids, offsets = pairs.sides[side]
    unknown = np.flatnonzero(ids == vocabulary.unk_id)
    for index in np.unique(np.searchsorted(offsets, unknown, side="right") - 1).tolist():
        yield list(_unknown_parts(vocabulary, text[index][side]))


def _unknown_parts(vocabulary: Vocabulary, text: str) -> Iterator[str]:
    """Yields the words of `text` that are one unknown token, and unknown characters of others."""
    for word in text.split():
        ids = vocabulary.tokenize(word)[:-1]
        if ids == [vocabulary.unk_id]:
            yield word
        elif vocabulary.unk_id in ids:
            yield from (mark for mark in word if vocabulary.unk_id in vocabulary.tokenize(mark))
