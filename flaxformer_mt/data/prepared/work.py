"""The functions that a preparation applies to each block, in this process or in others.

They call the functions that training from text uses, so that the token ids are the same.
"""

import dataclasses
from collections import Counter
from collections.abc import Mapping, Set
from typing import NamedTuple

import numpy as np

from flaxformer_mt.data.report import unknown_words
from flaxformer_mt.data.sources.blocks import Block
from flaxformer_mt.data.sources.language_tags import TaggedPairs
from flaxformer_mt.data.sources.pair import Pair, PairSource
from flaxformer_mt.data.sources.quarantine import BadRecord, screen
from flaxformer_mt.data.sources.selection import SelectedPairs, exclude_lines
from flaxformer_mt.data.sources.text_files import TextPairs
from flaxformer_mt.data.tokenization.tokenized import TokenizedPairs, tokenize_source
from flaxformer_mt.data.tokenization.tokenizer import Tokenizer


@dataclasses.dataclass(frozen=True, eq=False)
class Screen:
    """Removes bad records and excluded lines from a block, and counts them."""

    exclude: Mapping[str, Set[str]]
    """Source lines of held-out text, by name of the set."""

    def pairs(self, block: Block) -> tuple[PairSource, list[BadRecord], Counter[str]]:
        """Returns the good pairs, the bad records, and how many pairs were excluded."""
        records = block.load()
        pairs = records.read_all() if isinstance(records, TextPairs) else None
        good, bad = screen(pairs or records, block.name)
        if block.tag:
            good = TaggedPairs(good, block.tag)
        good, excluded = exclude_lines(good, self.exclude)
        return good, [one._replace(line=one.line + block.first) for one in bad], excluded

    def __call__(self, block: Block) -> "Scanned":
        """Counts the records of a block."""
        good, bad, _ = self.pairs(block)
        return Scanned(block.size, len(good), bad, block.share)


class Scanned(NamedTuple):
    """The counts of a block."""

    num_records: int
    num_good: int
    bad: list[BadRecord]
    share: float
    """Fraction of the source up to the end of the block."""


def pick(screen: Screen, task: tuple[Block, np.ndarray]) -> list[Pair]:
    """Returns the good pairs of a block with these numbers, counted from 0, as text."""
    block, numbers = task
    good, _, _ = screen.pairs(block)
    return [good[index] for index in numbers.tolist()]


class EncodeTask(NamedTuple):
    """A block to encode."""

    shard: int
    """The number of its shard."""
    block: Block
    name_unknown: bool
    """Whether to list the unknown words."""


class Encoded(NamedTuple):
    """A block as token ids."""

    shard: int
    pairs: TokenizedPairs
    dropped: Counter[str]
    """Number of dropped pairs by reason, including bad and excluded ones."""
    num_records: int
    unknown: list[list[list[str]]]
    """The unknown words of each pair that has any, on each side."""
    texts: list[Pair] | None
    """The kept pairs as text, for subword sampling."""


def encode(
    task: EncodeTask,
    *,
    screen: Screen,
    tokenizer: Tokenizer,
    max_source_length: int,
    max_target_length: int,
    with_text: bool,
) -> Encoded:
    """Returns the good pairs of a block as token ids."""
    shard, block, name_unknown = task
    good, bad, excluded = screen.pairs(block)
    found = tokenize_source(
        good, tokenizer, max_source_length=max_source_length, max_target_length=max_target_length
    )
    text = SelectedPairs(good, found.kept)
    vocabularies = tokenizer.source, tokenizer.target
    unknown = [
        list(unknown_words(side, vocabulary, text, found.pairs)) if name_unknown else []
        for side, vocabulary in enumerate(vocabularies)
    ]
    return Encoded(
        shard=shard,
        pairs=found.pairs,
        dropped=found.dropped + excluded + Counter(record.kind for record in bad),
        num_records=block.size,
        unknown=unknown,
        texts=[text[index] for index in range(len(text))] if with_text else None,
    )
