"""The report on the data, which a training run prints first."""

import dataclasses
from collections.abc import Mapping

from flaxformer_mt.data.batching.batch import BatchShape


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
    """The most frequent unknown words and their counts, in the first 100,000 records of
    each corpus."""

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
                "memorises them: list more text in data.train, or lower data.tokens_per_batch"
            )
        return "\n".join(lines)
