"""What was read and what became of it: the first thing a training run prints."""

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import numpy as np

from flaxformer_mt.data.batching.batch import BatchShape
from flaxformer_mt.data.sources.pair import PairSource
from flaxformer_mt.data.tokenization.tokenized import TokenizedPairs
from flaxformer_mt.data.tokenization.tokenizer import Vocabulary

# Pairs looked at for the names of unknown tokens: enough for a ranking, quick on any corpus.
_MAX_PAIRS_NAMED = 20_000
_NUM_TOKENS_NAMED = 8


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitCounts:
    """How many pairs of training, validation or test text were read, and why some are not used."""

    read: int
    kept: int
    left_out: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Pairs left out, by reason."""

    def __str__(self) -> str:
        if not self.read:
            return "none"
        reasons = ", ".join(
            f"{count:,} {reason}" for reason, count in sorted(self.left_out.items())
        )
        return f"{self.read:,} pairs read, {self.kept:,} kept" + (
            f", {sum(self.left_out.values()):,} left out ({reasons})" if reasons else ""
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Side:
    """One side of the training text, and how much of it the vocabulary cannot express."""

    vocabulary_size: int
    num_tokens: int
    """Running tokens, end tokens not counted."""
    num_unknown: int
    """Those of them that are unknown to the vocabulary."""
    most_frequent_unknown: tuple[tuple[str, int], ...]
    """The commonest unknown tokens with their counts, in the first 20,000 pairs that hold any."""

    @property
    def unknown_share(self) -> float:
        """Unknown tokens as a share of all running tokens."""
        return self.num_unknown / max(self.num_tokens, 1)

    def __str__(self) -> str:
        names = "; ".join(
            f"{token!r} {count:,} times" for token, count in self.most_frequent_unknown
        )
        return (
            f"{self.num_tokens:,} tokens, {self.vocabulary_size:,} different in the vocabulary, "
            f"{self.unknown_share:.2%} unknown" + (f": {names}" if names else "")
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataReport:
    """Pairs kept and left out, batch shapes, padding, unknown tokens. `str()` is for people."""

    corpora: tuple[str, ...]
    """Names of the training corpora."""
    weights: tuple[float, ...]
    """How often each is seen in an epoch."""
    train: SplitCounts
    validation: SplitCounts
    test: SplitCounts
    source: Side
    target: Side
    shapes: tuple[BatchShape, ...]
    padding: float
    """Share of the cells of the first epoch's batches, both sides together, that hold no token."""
    pairs_per_row: float
    """Pairs in a row, on average: 1 unless they are packed."""
    steps_per_epoch: int
    """Batches in the first epoch; fractional weights and sampling change it a little."""

    def __str__(self) -> str:
        packed = f"{self.pairs_per_row:.1f} pairs a row, " if self.pairs_per_row > 1 else ""
        lines = [
            f"training    {self.train}",
            *(
                f"            from {corpus}"
                + ("" if times == 1 else f", {times:.3g} times an epoch")
                for corpus, times in zip(self.corpora, self.weights, strict=True)
            ),
            f"validation  {self.validation}",
            f"test        {self.test}",
            f"source      {self.source}",
            f"target      {self.target}",
            f"batches     {self.steps_per_epoch:,} an epoch with {self.padding:.1%} padding, in "
            f"{_count(self.shapes, 'shape')}, {packed}rows x (source -> target tokens):",
            f"            {', '.join(map(str, self.shapes))}",
        ]
        return "\n".join(lines)


def _count(things: Sequence[object], name: str) -> str:
    return f"{len(things)} {name}" + ("s" if len(things) != 1 else "")


def describe_side(
    side: Literal["source", "target"],
    vocabulary: Vocabulary,
    texts: Sequence[PairSource],
    pairs: TokenizedPairs,
) -> Side:
    """Counts the tokens and the unknown ones among them, and names the most frequent of these.

    Args:
      texts: the pairs as text, source after source.
      pairs: the same pairs as token ids.
    """
    ids, offsets = (
        (pairs.inputs, pairs.inputs_offsets)
        if side == "source"
        else (pairs.targets, pairs.targets_offsets)
    )
    unknown = np.flatnonzero(ids == vocabulary.unk_id)
    holders = np.unique(np.searchsorted(offsets, unknown, side="right") - 1)
    starts = np.cumsum([0, *map(len, texts)])
    names: Counter[str] = Counter()
    for index in holders[:_MAX_PAIRS_NAMED].tolist():
        text = int(np.searchsorted(starts, index, side="right")) - 1
        pair = texts[text][index - int(starts[text])]
        names.update(_unknown_parts(vocabulary, getattr(pair, side)))
    return Side(
        vocabulary_size=vocabulary.size,
        num_tokens=len(ids) - len(pairs),
        num_unknown=len(unknown),
        most_frequent_unknown=tuple(names.most_common(_NUM_TOKENS_NAMED)),
    )


def _unknown_parts(vocabulary: Vocabulary, text: str) -> Iterator[str]:
    """What in `text` becomes unknown: a word that is one token, or characters of a longer one."""
    for word in text.split():
        ids = vocabulary.tokenize(word)[:-1]
        if ids == [vocabulary.unk_id]:
            yield word
        elif vocabulary.unk_id in ids:
            yield from (mark for mark in word if vocabulary.unk_id in vocabulary.tokenize(mark))
