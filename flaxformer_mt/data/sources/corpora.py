"""Corpora: the sentence pairs of the training, validation and test text."""

import dataclasses
import sys
from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Int

from flaxformer_mt.data.sources.blocks import PairStream, open_random_access, open_stream
from flaxformer_mt.data.sources.language_tags import TaggedPairs, check_language
from flaxformer_mt.data.sources.pair import Pair, PairSource
from flaxformer_mt.data.sources.quarantine import (
    BadRecord,
    check_bad_share,
    count_kinds,
    screen,
    write_quarantine,
)
from flaxformer_mt.data.sources.registry import find_source_kind
from flaxformer_mt.data.sources.selection import join_pairs
from flaxformer_mt.storage.paths import AnyPath


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

    def languages(self, source_language: str, target_language: str) -> list[tuple[str, str]]:
        """Returns the source and target language of each corpus, by default the given ones."""
        number = len(self.names)
        sources = self.source_languages or (source_language,) * number
        targets = self.target_languages or (target_language,) * number
        return list(zip(sources, targets, strict=True))


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Corpus:
    """Several pair sources with their names and weights."""

    sources: tuple[PairSource, ...]
    weights: tuple[float, ...]
    """How often an epoch contains each corpus."""
    names: tuple[str, ...]
    languages: tuple[str, ...] = ()
    """The target languages that tags of source texts name, without repetition."""
    bad: tuple[Sequence[BadRecord], ...] = ()
    """The bad records of each source, if it is screened."""

    def __len__(self) -> int:
        """The number of pairs, without weights."""
        return sum(len(source) for source in self.sources)

    def choose(self, max_lines: int) -> Iterator[Pair]:
        """Yields the pairs of `choose_pairs`, or all pairs."""
        chosen = choose_pairs(len(self), max_lines)
        start = 0
        for source in self.sources:
            end = start + len(source)
            inside = None if chosen is None else numbers_between(chosen, start, end).tolist()
            for index in range(len(source)) if inside is None else inside:
                yield source[index]
            start = end


def choose_pairs(total: int, max_lines: int) -> Int[np.ndarray, "n"] | None:
    """Returns up to `max_lines` random numbers of pairs, ascending; None = all `total` pairs.

    They are the same in every run.
    """
    if not 0 < max_lines < total:
        return None
    return np.sort(np.random.default_rng(0).choice(total, max_lines, replace=False))


def numbers_between(ascending: Int[np.ndarray, "n"], start: int, end: int) -> Int[np.ndarray, "m"]:
    """Returns the numbers from `start` to below `end`, minus `start`."""
    first, last = np.searchsorted(ascending, [start, end])
    return ascending[first:last] - start


def open_corpus(
    config: CorpusConfig,
    *,
    directory: str,
    source_language: str,
    target_language: str,
    screened: bool = False,
) -> Corpus:
    """Opens all sources of a configuration. The corpus is empty if it lists none.

    Args:
      config: the sources.
      directory: relative file names start here. (TFDS uses TFDS_DATA_DIR.)
      source_language: key of the source side in JSONL and TFDS, such as "en", unless the
        configuration names the language of each corpus.
      target_language: key of the target side, likewise.
      screened: move bad records to `Corpus.bad`. Otherwise, reading one raises BadRecordError, a
        ValueError.

    Raises:
      FileNotFoundError: no such file; the message lists the files in its folder.
      ValueError: a file that is empty, damaged or UTF-16, sides of unequal length, an unknown TFDS
        name, split or language.
    """
    bad: list[Sequence[BadRecord]] = []
    sources: list[PairSource] = []
    for stream in open_streams(config, directory, (source_language, target_language)):
        parts = [(block.load(), block.name) for block in stream.blocks(sys.maxsize)]  # of each file
        if screened:
            found = [screen(*part) for part in parts]
            bad.append([record for _, records in found for record in records])
            parts = [(good, "") for good, _ in found]
        source = join_pairs([part for part, _ in parts])
        sources.append(TaggedPairs(source, stream.tag) if stream.tag else source)
    return Corpus(
        sources=tuple(sources),
        weights=config.weights or (1.0,) * len(config.names),
        names=config.names,
        languages=tuple(dict.fromkeys(config.target_languages)),
        bad=tuple(bad),
    )


def open_streams(
    config: CorpusConfig, directory: str, languages: tuple[str, str]
) -> list[PairStream]:
    """Returns all sources of a configuration as streams.

    It downloads public corpora. It raises as `open_corpus`; some errors occur only during reading.
    """
    open_random_access.cache_clear()  # a folder may have changed
    sources = [*zip(config.source, config.target, strict=True), *config.pairs]
    tags = config.target_languages or ("",) * len(sources)
    of = config.languages(*languages)
    return [
        open_stream(*one, config.limit, directory=directory)
        for one in zip(config.names, sources, of, tags, strict=True)
    ]


def set_aside(corpus: Corpus, max_bad_share: str, file: AnyPath | None) -> list[BadRecord]:
    """Returns the bad records of all sources, and writes them to `file`.

    Raises ValueError if a source has too many.
    """
    bad = [record for records in corpus.bad for record in records]
    if file:
        write_quarantine(bad, file)
    for source, records, name in zip(corpus.sources, corpus.bad, corpus.names, strict=True):
        kinds, first = count_kinds(records), str(records[0]) if records else ""
        check_bad_share(kinds, first, len(source) + len(records), name, max_bad_share, file)
    return bad


def _list(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"
