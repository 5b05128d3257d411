"""The functions that a preparation applies to each block, in this process or in others.

They call the functions that training from text uses, so that the token ids are the same.
"""

from collections import Counter
from collections.abc import Mapping, Set
from typing import NamedTuple

import numpy as np

from flaxformer_mt.data.config import DataConfig
from flaxformer_mt.data.report import unknown_words
from flaxformer_mt.data.sources.blocks import Block
from flaxformer_mt.data.sources.corpora import screen_block
from flaxformer_mt.data.sources.pair import Pair, SelectedPairs
from flaxformer_mt.data.sources.quarantine import BadRecord
from flaxformer_mt.data.tokenization.tokenized import TokenizedPairs, tokenize_source
from flaxformer_mt.data.tokenization.tokenizer import Tokenizer

Exclude = Mapping[str, Set[str]]
"""Source lines of held-out text, by name of the set."""


class Scanned(NamedTuple):
    """The counts of a block."""

    num_records: int
    num_good: int
    bad: list[BadRecord]
    share: float
    """Fraction of the source up to the end of the block."""


def scan_block(block: Block, *, exclude: Exclude) -> Scanned:
    """Counts the records of a block."""
    screened = screen_block(block, exclude, in_memory=True)
    return Scanned(block.size, len(screened.pairs), screened.bad, block.share)


def select_pairs(task: tuple[Block, np.ndarray], *, exclude: Exclude) -> list[Pair]:
    """Returns the good pairs of a block with these numbers, counted from 0, as text."""
    block, numbers = task
    pairs = screen_block(block, exclude, in_memory=True).pairs
    return [pairs[index] for index in numbers.tolist()]


class Encoded(NamedTuple):
    """A block as token ids."""

    pairs: TokenizedPairs
    dropped: Counter[str]
    """Number of dropped pairs by reason, including bad and excluded ones."""
    num_records: int
    unknown: list[list[list[str]]]
    """The unknown words of each pair that has any, on each side."""
    texts: list[Pair] | None
    """The kept pairs as text, for subword sampling."""


def encode(
    task: tuple[Block, bool], *, config: DataConfig, exclude: Exclude, tokenizer: Tokenizer
) -> Encoded:
    """Returns the good pairs of a block as token ids.

    `task` is the block, and whether to list its unknown words.
    """
    block, name_unknown = task
    good, bad, excluded = screen_block(block, exclude, in_memory=True)
    found = tokenize_source(
        good,
        tokenizer,
        max_source_length=config.max_source_length,
        max_target_length=config.max_target_length,
    )
    text = SelectedPairs(good, found.kept)
    vocabularies = tokenizer.source, tokenizer.target
    unknown = [
        list(unknown_words(side, vocabulary, text, found.pairs)) if name_unknown else []
        for side, vocabulary in enumerate(vocabularies)
    ]
    with_text = config.tokenizer.sampling_alpha > 0
    return Encoded(
        pairs=found.pairs,
        dropped=found.dropped + excluded + Counter(record.kind for record in bad),
        num_records=block.size,
        unknown=unknown,
        texts=[text[index] for index in range(len(text))] if with_text else None,
    )
