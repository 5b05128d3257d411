"""From blocks of records to token ids, in three passes over the text.

    scan_block       counts good and bad records
    learning_text    samples the text from which a vocabulary is learnt
    encode           makes token ids

Training from text and preparing a corpus call the same functions, so their token ids are the same.
Any process can call them.
"""

import dataclasses
import functools
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from flaxformer_mt.data.config import DataConfig
from flaxformer_mt.data.report import Side, SplitCounts
from flaxformer_mt.data.sources.blocks import Block
from flaxformer_mt.data.sources.pair import Pair, source_line
from flaxformer_mt.data.sources.quarantine import BadRecord, CorpusScan, blank_side
from flaxformer_mt.data.tokenization.tokenized import TokenizedPairs, tokenize_pairs
from flaxformer_mt.data.tokenization.tokenizer import LearningText, Tokenizer
from flaxformer_mt.data.tokenization.vocabulary import Vocabulary
from flaxformer_mt.data.worker_processes import Workers

Exclude = Mapping[str, Set[str]]
"""Source lines that training must not contain, by the name of the held-out set."""
ReadBlocks = Callable[[], Iterable[Block]]
"""Returns all blocks of a corpus."""
# Only the first records of each corpus are searched for unknown words, to bound the time.
_RECORDS_NAMED = 100_000
_NUM_WORDS_NAMED = 8


class Screened(NamedTuple):
    """The records of a block: good pairs, bad records, and the number of excluded pairs."""

    pairs: list[Pair]
    bad: list[BadRecord]
    excluded: Counter[str]
    """Number of pairs with a held-out source line, by reason."""


def screen_block(block: Block, exclude: Exclude) -> Screened:
    """Returns the good pairs and the bad records of a block, and counts its excluded pairs."""
    good, bad, excluded = list[Pair](), list[BadRecord](), Counter[str]()
    for line, record in enumerate(block.load(), block.first + 1):
        if isinstance(record, BadRecord):
            bad.append(record)
        elif not (record.source.strip() and record.target.strip()):
            bad.append(blank_side(record, block.name, line))
        else:
            pair = block.tagged(record)
            if found := [split for split in exclude if source_line(pair) in exclude[split]]:
                excluded[f"with a {found[0]} line as source"] += 1
            else:
                good.append(pair)
    return Screened(good, bad, excluded)


class Scanned(NamedTuple):
    """The counts of a block."""

    num_records: int
    num_good: int
    bad: list[BadRecord]
    share: float
    """Fraction of the corpus up to the end of the block."""


def scan_block(block: Block, *, exclude: Exclude) -> Scanned:
    """Counts the records of a block."""
    screened = screen_block(block, exclude)
    return Scanned(block.size, len(screened.pairs), screened.bad, block.share)


def learning_text(
    config: DataConfig,
    readers: Sequence[ReadBlocks],
    scans: Sequence[CorpusScan],
    exclude: Exclude,
    workers: Workers,
) -> LearningText:
    """Returns the good pairs to learn a vocabulary from: some, or all.

    `readers` and `scans` have one item for each corpus.
    """
    max_lines = config.tokenizer.max_lines if config.tokenizer.kind == "sentencepiece" else 0
    num_pairs = sum(scan.good for scan in scans)
    chosen = choose_pairs(num_pairs, max_lines)
    tasks, start = [], 0
    for read, scan in zip(readers, scans, strict=True):
        tasks.append(functools.partial(_chosen_blocks, read, scan, chosen, start))
        start += scan.good
    texts = workers.map_each(functools.partial(_select_pairs, exclude=exclude), tasks)
    return LearningText(
        pairs=lambda: itertools.chain.from_iterable(block for text in texts for block in text()),
        is_whole=chosen is None,
        languages=tuple(dict.fromkeys(config.train.target_languages)),
    )


def choose_pairs(total: int, max_lines: int) -> Int[np.ndarray, "n"] | None:
    """Returns the indices of `max_lines` random pairs, ascending; they are the same in every run.

    Returns None, which means all pairs, if `max_lines` is 0 or at least `total`.
    """
    if not 0 < max_lines < total:
        return None
    return np.sort(np.random.default_rng(0).choice(total, max_lines, replace=False))


def _chosen_blocks(
    read: ReadBlocks, scan: CorpusScan, chosen: np.ndarray | None, start: int
) -> Iterator[tuple[Block, np.ndarray]]:
    """Yields each block that has chosen pairs, and their indices among its good pairs.

    `chosen` is the result of `choose_pairs`. `start` is the index of the corpus's first good pair.
    """
    for size, block in zip(scan.block_sizes, read(), strict=False):
        end = start + size
        if chosen is None:
            inside = np.arange(size)
        else:
            first, last = np.searchsorted(chosen, [start, end])
            inside = chosen[first:last] - start
        if len(inside):
            yield block, inside
        start = end


def _select_pairs(task: tuple[Block, np.ndarray], *, exclude: Exclude) -> list[Pair]:
    """Returns the good pairs of a block with these numbers, counted from 0."""
    block, numbers = task
    pairs = screen_block(block, exclude).pairs
    return [pairs[index] for index in numbers.tolist()]


@dataclasses.dataclass(kw_only=True)
class Counts:
    """Numbers of records, pairs, tokens and unknown words."""

    records: int = 0
    """Number of records read."""
    pairs: int = 0
    """Number of pairs kept."""
    dropped: Counter[str] = dataclasses.field(default_factory=Counter)
    """Number of dropped records by reason, including bad and excluded ones."""
    tokens: list[int] = dataclasses.field(default_factory=lambda: [0, 0])
    """Number of source and of target tokens, without EOS."""
    unknown: list[int] = dataclasses.field(default_factory=lambda: [0, 0])
    """Number of unknown source and of unknown target tokens."""
    unknown_words: list[Counter[str]] = dataclasses.field(
        default_factory=lambda: [Counter(), Counter()]
    )
    """The unknown words on each side, of the first 100,000 records of each corpus."""

    def add(self, other: "Counts") -> None:
        """Adds other counts."""
        self.records += other.records
        self.pairs += other.pairs
        self.dropped += other.dropped
        for side in range(2):
            self.tokens[side] += other.tokens[side]
            self.unknown[side] += other.unknown[side]
            self.unknown_words[side] += other.unknown_words[side]

    @property
    def split(self) -> SplitCounts:
        """The numbers of pairs read, kept and dropped."""
        return SplitCounts(read=self.records, kept=self.pairs, dropped=self.dropped)

    def sides(self, tokenizer: Tokenizer) -> tuple[Side, Side]:
        """Returns a description of each side."""
        source, target = (
            Side(
                vocabulary_size=vocabulary.size,
                num_tokens=self.tokens[side],
                num_unknown=self.unknown[side],
                most_frequent_unknown=tuple(self.unknown_words[side].most_common(_NUM_WORDS_NAMED)),
            )
            for side, vocabulary in enumerate((tokenizer.source, tokenizer.target))
        )
        return source, target

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Counts":
        """Returns counts from the JSON of their `vars`."""
        values.pop("pairs_with_unknown", None)  # of earlier versions
        words = [Counter(words) for words in values["unknown_words"]]
        return cls(**(values | {"dropped": Counter(values["dropped"]), "unknown_words": words}))


class Encoded(NamedTuple):
    """A block as token ids."""

    pairs: TokenizedPairs
    texts: list[Pair]
    """The same pairs as text, for subword sampling; empty without sampling."""
    counts: Counts


def encode(block: Block, *, config: DataConfig, exclude: Exclude, tokenizer: Tokenizer) -> Encoded:
    """Returns the good pairs of a block as token ids."""
    good, bad, excluded = screen_block(block, exclude)
    pairs, kept, too_long = tokenize_pairs(
        good,
        tokenizer,
        max_source_length=config.max_source_length,
        max_target_length=config.max_target_length,
    )
    texts = [good[index] for index in kept.tolist()]
    counts = Counts(
        records=block.size,
        pairs=len(pairs),
        dropped=too_long + excluded + Counter(record.kind for record in bad),
    )
    for side, vocabulary in enumerate((tokenizer.source, tokenizer.target)):
        ids, offsets = pairs.sides[side]
        unknown = np.flatnonzero(ids == vocabulary.unk_id)
        counts.tokens[side] = len(ids) - len(pairs)
        counts.unknown[side] = len(unknown)
        if block.start < _RECORDS_NAMED:
            for index in np.unique(np.searchsorted(offsets, unknown, side="right") - 1).tolist():
                counts.unknown_words[side].update(unknown_words(vocabulary, texts[index][side]))
    return Encoded(pairs, texts if config.tokenizer.sampling_alpha > 0 else [], counts)


def unknown_words(vocabulary: Vocabulary, text: str) -> Iterator[str]:
    """Yields each word that is one unknown token, and each unknown character of other words."""
    for word in text.split():
        ids = vocabulary.tokenize(word)[:-1]
        if ids == [vocabulary.unk_id]:
            yield word
        elif vocabulary.unk_id in ids:
            yield from (mark for mark in word if vocabulary.unk_id in vocabulary.tokenize(mark))
