"""Corpora: the sentence pairs of the training, validation and test text."""

import dataclasses
from collections.abc import Sequence

from flaxformer_mt.data.sources.blocks import (
    BLOCK_SIZE,
    PairStream,
    open_parts,
    open_random_access,
)
from flaxformer_mt.data.sources.language_tags import check_language
from flaxformer_mt.data.sources.pair import Pair
from flaxformer_mt.data.sources.quarantine import BadRecord
from flaxformer_mt.data.sources.registry import find_source_kind


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
    """Alternative to weights: with T >= 1, a corpus of n pairs is sampled in proportion to n^(1/T).
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
                f"weights must be positive, got {self.weights}. To leave out a corpus, remove its "
                "files or its entry in pairs."
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


def open_streams(
    config: CorpusConfig, directory: str, languages: tuple[str, str]
) -> list[PairStream]:
    """Returns all sources of a configuration as streams. It downloads public corpora.

    Args:
      config: the sources.
      directory: relative file names start here. (TFDS uses TFDS_DATA_DIR.)
      languages: keys of the source and the target side in JSONL and TFDS, such as "en", unless the
        configuration names the language of each corpus.

    Raises (some errors occur only during reading):
      FileNotFoundError: no such file; the message lists the files in its folder.
      ValueError: a file that is empty, damaged or UTF-16, sides of unequal length, an unknown TFDS
        name, split or language.
    """
    open_random_access.cache_clear()  # a folder may have changed
    sources = [*zip(config.source, config.target, strict=True), *config.pairs]
    sources_from = config.source_languages or (languages[0],) * len(sources)
    targets_in = config.target_languages or (languages[1],) * len(sources)
    tags = config.target_languages or ("",) * len(sources)
    corpora = zip(config.names, sources, sources_from, targets_in, tags, strict=True)
    return [
        PairStream(
            name=name,
            tag=tag,
            limit=config.limit,
            parts=open_parts(source, (source_language, target_language), directory),
        )
        for name, source, source_language, target_language, tag in corpora
    ]


def read_corpora(
    config: CorpusConfig, directory: str, languages: tuple[str, str]
) -> list[list[Pair]]:
    """Returns all pairs of each corpus of a small set.

    The arguments and errors are those of `open_streams`. A bad record also raises ValueError.
    """
    corpora = []
    for stream in open_streams(config, directory, languages):
        pairs = []
        for block in stream.blocks(BLOCK_SIZE):
            for record in block.load():
                if isinstance(record, BadRecord):
                    raise ValueError(str(record))
                pairs.append(block.tagged(record))
        corpora.append(pairs)
    return corpora


def _list(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"
