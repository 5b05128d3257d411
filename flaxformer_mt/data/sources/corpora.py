"""Corpora: the sentence pairs of the training, validation and test text."""

import dataclasses
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from flaxformer_mt.data.sources.blocks import Block, PairStream, open_random_access, open_stream
from flaxformer_mt.data.sources.language_tags import check_language
from flaxformer_mt.data.sources.pair import Pair, PairSource, TaggedPairs, exclude_lines, join_pairs
from flaxformer_mt.data.sources.quarantine import BadRecord, screen
from flaxformer_mt.data.sources.registry import find_source_kind
from flaxformer_mt.data.sources.text_files import TextPairs


@dataclasses.dataclass(frozen=True, kw_only=True)
class CorpusConfig:
    """The sentence pairs of a set: any mix of text files and other sources."""

    source: tuple[str, ...] = ()
    """Text files in the source language: UTF-8, one sentence a line, also compressed (.gz, .xz,
    .zst). A pattern such as "part-*.en" joins all matching files into one corpus."""
    target: tuple[str, ...] = ()
    """Their translations, file by file and line by line."""
    pairs: tuple[str, ...] = ()
    """Sources with both sides: "file.tsv" (source<TAB>target), "file.jsonl" (one object a line,
    keyed by language code), "file.parquet" (these also as a pattern, "part-*.tsv"), "file.zip" (of
    OPUS), public corpora such as "wmt:europarl_v7", "opus:Europarl/v8" or "sacrebleu:wmt14/full"
    (docs/corpora.md), "tfds:NAME:SPLIT" (TensorFlow Datasets), "hf:NAME:SPLIT" (Hugging Face),
    "demo:SPLIT" or "demo:SPLIT:COUNT" (the demo's English-German text)."""
    weights: tuple[float, ...] = ()
    """How often an epoch contains each corpus (0.5 = a random half, 2 = twice): one number for each
    pair of text files, then one for each of `pairs`. Empty = once each."""
    temperature: float = 0.0
    """Alternative to weights: T = 1 or more samples a corpus of n pairs in proportion to n^(1/T).
    A larger T repeats small corpora more often (5 is usual for many languages). An epoch keeps its
    number of pairs. 0 = use weights."""
    source_languages: tuple[str, ...] = ()
    """The source language of each corpus, if they differ: one code for each pair of text files,
    then one for each of `pairs`. Empty = data.source_language for all."""
    target_languages: tuple[str, ...] = ()
    """The target language of each corpus, in the same order, for one model that translates into
    several: each source text then begins with a tag, as in ">>fr<< A dog runs."."""
    limit: int = 0
    """Use the first `limit` pairs of each corpus; 0 = all."""

    def __post_init__(self) -> None:
        if "" in (*self.source, *self.target, *self.pairs):
            raise ValueError(
                "a name in source, target or pairs is empty; a flag without a value, such as "
                "--data.validation.pairs, lists nothing."
            )
        if len(self.source) != len(self.target):
            raise ValueError(
                f"source files and target files come in pairs, but there are {len(self.source)} "
                f"source files ({_list(self.source)}) and {len(self.target)} target files "
                f"({_list(self.target)})."
            )
        for name, noun in (
            ("weights", "number"),
            ("source_languages", "language"),
            ("target_languages", "language"),
        ):
            values = getattr(self, name)
            if values and len(values) != len(self.source) + len(self.pairs):
                raise ValueError(
                    f"{name} needs one {noun} for each corpus: there are {len(self.source)} pairs "
                    f"of text files and {len(self.pairs)} other sources, but {len(values)} {name}."
                )
        for language in (*self.source_languages, *self.target_languages):
            check_language(language)
        if not all(0 < weight < float("inf") for weight in self.weights):
            raise ValueError(
                f"weights must be positive, got {self.weights}; remove the corpus that you do not "
                "want from the list."
            )
        if self.temperature and not 1 <= self.temperature < float("inf"):
            raise ValueError(
                f"temperature must be 0 (by weights), or 1 (in proportion to the sizes) or more, "
                f"got {self.temperature}."
            )
        if self.temperature and self.weights:
            raise ValueError(
                f"weights {self.weights} and temperature {self.temperature:g} both say how often "
                "an epoch contains a corpus; give one of them."
            )
        if self.limit < 0:
            raise ValueError(f"limit must be 0 (all pairs) or positive, got {self.limit}.")
        for spec in self.pairs:
            find_source_kind(spec)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the corpora, in the order of `weights` and languages."""
        file_pairs = zip(self.source, self.target, strict=True)
        return (*(f"{source} | {target}" for source, target in file_pairs), *self.pairs)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Corpus:
    """Several pair sources with their names and weights."""

    sources: tuple[PairSource, ...]
    weights: tuple[float, ...]
    """How often an epoch contains each corpus."""
    names: tuple[str, ...]
    languages: tuple[str, ...] = ()
    """The target languages that tags of source texts name, without repetition."""

    def __len__(self) -> int:
        """The number of pairs, without weights."""
        return sum(len(source) for source in self.sources)

    def choose(self, max_lines: int) -> Iterator[Pair]:
        """Yields the pairs of `choose_pairs`, or all pairs."""
        text, chosen = join_pairs(self.sources), choose_pairs(len(self), max_lines)
        for index in range(len(text)) if chosen is None else chosen.tolist():
            yield text[index]


def choose_pairs(total: int, max_lines: int) -> Int[np.ndarray, "n"] | None:
    """Returns up to `max_lines` random numbers of pairs, ascending; None = all `total` pairs.

    They are the same in every run.
    """
    if not 0 < max_lines < total:
        return None
    return np.sort(np.random.default_rng(0).choice(total, max_lines, replace=False))


def open_corpus(
    config: CorpusConfig, *, directory: str, source_language: str, target_language: str
) -> Corpus:
    """Opens all sources of a configuration. The corpus is empty if it lists none.

    Args:
      config: the sources.
      directory: relative file names start here. (TFDS uses TFDS_DATA_DIR.)
      source_language: key of the source side in JSONL and TFDS, such as "en", unless the
        configuration names the language of each corpus.
      target_language: key of the target side, likewise.

    Raises:
      FileNotFoundError: no such file; the message lists the files in its folder.
      ValueError: a file that is empty, damaged or UTF-16, sides of unequal length, an unknown TFDS
        name, split or language. Reading a bad record raises BadRecordError, a ValueError.
    """
    sources: list[PairSource] = []
    for stream in open_streams(config, directory, (source_language, target_language)):
        source = join_pairs([block.load() for block in stream.blocks(sys.maxsize)])
        sources.append(TaggedPairs(source, stream.tag) if stream.tag else source)
    return make_corpus(config, sources)


def make_corpus(config: CorpusConfig, sources: Sequence[PairSource]) -> Corpus:
    """Returns the opened sources of a configuration with their names, weights and languages."""
    return Corpus(
        sources=tuple(sources),
        weights=config.weights or (1.0,) * len(config.names),
        names=config.names,
        languages=tuple(dict.fromkeys(config.target_languages)),
    )


def open_streams(
    config: CorpusConfig, directory: str, languages: tuple[str, str]
) -> list[PairStream]:
    """Returns all sources of a configuration as streams.

    It downloads public corpora. It raises as `open_corpus`; some errors occur only during reading.
    """
    open_random_access.cache_clear()  # a folder may have changed
    sources = [*zip(config.source, config.target, strict=True), *config.pairs]
    number = len(sources)
    from_to = zip(
        config.source_languages or (languages[0],) * number,
        config.target_languages or (languages[1],) * number,
        strict=True,
    )
    tags = config.target_languages or ("",) * number
    corpora = zip(config.names, sources, from_to, tags, strict=True)
    return [open_stream(*corpus, config.limit, directory=directory) for corpus in corpora]


class Screened(NamedTuple):
    """The records of a block, without bad and excluded ones."""

    pairs: PairSource
    bad: list[BadRecord]
    excluded: Counter[str]
    """Number of pairs with a held-out line, by the set."""


def screen_block(
    block: Block, exclude: Mapping[str, Set[str]], *, in_memory: bool = False
) -> Screened:
    """Removes bad records and pairs with an excluded source line, and adds the language tag.

    Args:
      block: the records.
      exclude: the result of `source_lines` of each held-out set, by its name.
      in_memory: decode the text of all pairs now, which is faster than one by one.
    """
    records = block.load()
    decoded = records.read_all() if in_memory and isinstance(records, TextPairs) else None
    good, bad = screen(decoded or records, block.name)
    good, excluded = exclude_lines(TaggedPairs(good, block.tag) if block.tag else good, exclude)
    return Screened(good, [one._replace(line=one.line + block.first) for one in bad], excluded)


def _list(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"
