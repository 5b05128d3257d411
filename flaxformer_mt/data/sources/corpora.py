"""Where sentence pairs come from: text, TSV, JSONL, TensorFlow Datasets, the built-in grammar.

Every source gives random access to (source, target) pairs; several make a `Corpus`, each with a
weight. Nothing here needs TensorFlow: TFDS is read through `tfds.data_source`.
"""

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flaxformer_mt.data.sources.language_tags import TaggedPairs, check_language
from flaxformer_mt.data.sources.pair import Pair, PairSource
from flaxformer_mt.data.sources.text_files import (
    PackedText,
    one_line,
    read_jsonl,
    read_lines,
    read_tsv,
)

_PACKED = ("", ".gz", ".xz")
_SPECS = (
    '"file.tsv" or "file.jsonl" (also .gz, .xz), "tfds:wmt14_translate/de-en:train", '
    '"grammar:train" or "grammar:train:200000"'
)
# The name of a TFDS data set may end in a version, its split may hold a slice: both have colons.
_TFDS = re.compile(r"tfds:(?P<name>[^:\[]+(:\d[\d.*]*)?):(?P<split>.+)")
_GRAMMAR = re.compile(r"grammar:(?P<split>train|validation|test)(:(?P<size>[1-9]\d*))?")


@dataclasses.dataclass(frozen=True, kw_only=True)
class CorpusConfig:
    """Which sentence pairs make up a set: any mix of text files and other sources."""

    source: tuple[str, ...] = ()
    """Text files in the source language: a sentence a line, UTF-8; .gz and .xz by their suffix."""
    target: tuple[str, ...] = ()
    """Their translations, file by file and line by line."""
    pairs: tuple[str, ...] = ()
    """Sources that hold both sides: "file.tsv" (source<TAB>target), "file.jsonl" (one object a
    line, keyed by language code), "tfds:NAME:SPLIT" (a data set of TensorFlow Datasets),
    "grammar:SPLIT" or "grammar:SPLIT:SIZE" (the built-in English-German)."""
    weights: tuple[float, ...] = ()
    """How often each corpus is seen in an epoch (0.5 = a random half, 2 = twice): one number for
    each pair of text files, then one for each of `pairs`. Empty = all once."""
    temperature: float = 0.0
    """In place of weights: T = 1 or more shows a corpus of n pairs in proportion to n^(1/T), so
    that small ones are seen more often (5 is usual for many languages); an epoch keeps its number
    of pairs. 0 = by weights."""
    source_languages: tuple[str, ...] = ()
    """The source language of each corpus, if they differ: one code for each pair of text files,
    then one for each of `pairs`. Empty = as the whole data set."""
    target_languages: tuple[str, ...] = ()
    """The target language of each corpus, in the same order, for one model that translates into
    several: each source text then begins with a tag, as in ">>fr<< A dog runs."."""
    limit: int = 0
    """Take only the first so many pairs of each corpus; 0 = all."""

    def __post_init__(self) -> None:
        if len(self.source) != len(self.target):
            raise ValueError(
                f"source files and target files come in pairs, but there are {len(self.source)} of "
                f"the one ({_list(self.source)}) and {len(self.target)} of the other "
                f"({_list(self.target)})."
            )
        count = len(self.source) + len(self.pairs)
        for name, what in (
            ("weights", "number"),
            ("source_languages", "language"),
            ("target_languages", "language"),
        ):
            values = getattr(self, name)
            if values and len(values) != count:
                raise ValueError(
                    f"{name} needs one {what} for each corpus: there are {len(self.source)} pairs "
                    f"of text files and {len(self.pairs)} other sources, but {len(values)} {name}."
                )
        for language in (*self.source_languages, *self.target_languages):
            check_language(language)
        if not all(0 < weight < float("inf") for weight in self.weights):
            raise ValueError(
                f"weights must be positive, got {self.weights}; a corpus to leave out is just "
                "not listed."
            )
        if self.temperature and not 1 <= self.temperature < float("inf"):
            raise ValueError(
                f"temperature must be 0 (by weights), or 1 (in proportion to the sizes) or more, "
                f"got {self.temperature}."
            )
        if self.temperature and self.weights:
            raise ValueError(
                f"weights {self.weights} and temperature {self.temperature:g} both say how often a "
                "corpus is seen; give one of them."
            )
        if self.limit < 0:
            raise ValueError(f"limit must be 0 (all pairs) or positive, got {self.limit}.")
        for spec in self.pairs:
            _check_spec(spec)

    @property
    def names(self) -> tuple[str, ...]:
        """Of the corpora, in the order that `weights` and languages are in."""
        file_pairs = zip(self.source, self.target, strict=True)
        return (*(f"{source} | {target}" for source, target in file_pairs), *self.pairs)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Corpus:
    """Several pair sources, each with its name and how often it is seen in an epoch."""

    sources: tuple[PairSource, ...]
    weights: tuple[float, ...]
    names: tuple[str, ...]
    languages: tuple[str, ...] = ()
    """The target languages that source texts have tags of, each once."""

    def __len__(self) -> int:
        """All pairs, each counted once whatever its weight."""
        return sum(len(source) for source in self.sources)


def open_corpus(
    config: CorpusConfig, *, directory: str, source_language: str, target_language: str
) -> Corpus:
    """Opens all sources of a configuration; a corpus of none if it lists none.

    Args:
      config: what to read.
      directory: where relative file names start. (TFDS keeps its data where TFDS_DATA_DIR says.)
      source_language: the key of the source side in JSONL and TFDS, as "en", unless the
        configuration has one for each corpus.
      target_language: the key of the target side, likewise.

    Raises:
      FileNotFoundError: no such file; the message lists what lies there.
      ValueError: a file that is empty, damaged or not UTF-8, sides of unequal length, a bad line,
        an unknown TFDS name, split or language.
    """
    base = Path(directory).expanduser()
    sources: list[PairSource] = [
        open_text(base / Path(source).expanduser(), base / Path(target).expanduser())
        for source, target in zip(config.source, config.target, strict=True)
    ]
    count = len(sources) + len(config.pairs)
    keys = zip(
        config.source_languages or (source_language,) * count,
        config.target_languages or (target_language,) * count,
        strict=True,
    )
    of_specs = zip(config.pairs, list(keys)[len(sources) :], strict=True)
    sources += [_open_spec(spec, base, *languages) for spec, languages in of_specs]
    if config.target_languages:
        tagged = zip(sources, config.target_languages, strict=True)
        sources = [TaggedPairs(source, language) for source, language in tagged]
    if config.limit:
        sources = [
            _FirstPairs(source, config.limit) if len(source) > config.limit else source
            for source in sources
        ]
    return Corpus(
        sources=tuple(sources),
        weights=config.weights or (1.0,) * len(sources),
        names=config.names,
        languages=tuple(dict.fromkeys(config.target_languages)),
    )


@dataclasses.dataclass(frozen=True, eq=False)
class TextPairs:
    """Sentence pairs held in memory, as compactly as the files they come from."""

    source: PackedText
    target: PackedText

    def __len__(self) -> int:
        return self.source.num_sentences

    def __getitem__(self, index: int) -> Pair:
        return Pair(self.source.sentence(index), self.target.sentence(index))


def open_text(source: Path, target: Path) -> TextPairs:
    """Two files of which line i of the one is the translation of line i of the other.

    Raises ValueError with both counts if they differ; else as `open_corpus`.
    """
    sides = read_lines(source), read_lines(target)
    counts = [side.num_sentences for side in sides]
    if counts[0] != counts[1]:
        raise ValueError(
            f"{source} has {counts[0]:,} lines but {target} has {counts[1]:,}: line i of the one "
            "must be the translation of line i of the other."
        )
    return TextPairs(*sides)


class TfdsPairs:
    """One split of a translation data set of TensorFlow Datasets, read from disk as needed."""

    def __init__(
        self,
        name: str,
        split: str,
        *,
        source_language: str,
        target_language: str,
        data_dir: str | None = None,
    ) -> None:
        """Opens the data set, and downloads and prepares it the first time.

        Args:
          name: as TFDS has it, "wmt14_translate/de-en". Either direction can be read from it.
          split: as TFDS has it, "train" or "train[:1%]".
          source_language: the feature to translate from.
          target_language: the feature to translate into.
          data_dir: where TFDS keeps its data; None = where TFDS_DATA_DIR says, or its own default.

        Raises ValueError if TFDS has no such name, split or languages.
        """
        self._keys = (source_language, target_language)
        self._records = _open_tfds(name, split, data_dir)
        features = sorted(self._records[0]) if len(self._records) else []
        if missing := [key for key in self._keys if key not in features]:
            raise ValueError(
                f"tfds:{name}:{split} has no feature {' or '.join(missing)} to be the source "
                f"({source_language}) or target ({target_language}) language; it has: "
                f"{_list(features)}."
            )

    def __len__(self) -> int:
        return len(self._records)

    def __getitem__(self, index: int) -> Pair:
        record = self._records[index]
        return Pair(*(one_line(record[key].decode("utf-8")) for key in self._keys))


@dataclasses.dataclass(frozen=True, eq=False)
class _FirstPairs:
    source: PairSource
    count: int

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Pair:
        if not 0 <= index < self.count:
            raise IndexError(f"pair {index} of {self.count}")
        return self.source[index]


def _open_tfds(name: str, split: str, data_dir: str | None) -> Sequence[dict[str, Any]]:
    # The import registers TFDS's data sets; not above, since few runs need them.
    import tensorflow_datasets.translate as tfds_translate
    from tensorflow_datasets import data_source

    del tfds_translate
    try:
        records: Any = data_source(name, split=split, data_dir=data_dir)
        return records
    except NotImplementedError as error:
        raise ValueError(
            f"tfds:{name}:{split} was prepared in a format without random access. Point "
            "TFDS_DATA_DIR at another directory, and it is prepared there as array_record."
        ) from error
    except ValueError as error:
        reason = str(error).partition("Available datasets")[0].strip()  # hundreds of names follow
        raise ValueError(f"tfds:{name}:{split} cannot be read: {reason}") from error


def _open_spec(spec: str, base: Path, source_language: str, target_language: str) -> PairSource:
    if match := _TFDS.fullmatch(spec):
        return TfdsPairs(
            match["name"],
            match["split"],
            source_language=source_language,
            target_language=target_language,
        )
    if match := _GRAMMAR.fullmatch(spec):
        return _open_grammar(match["split"], match["size"], source_language, target_language)
    path = base / Path(spec).expanduser()
    if _file_format(spec) == ".tsv":
        return TextPairs(*read_tsv(path))
    return TextPairs(*read_jsonl(path, source_language, target_language))


def _open_grammar(
    split: str, size: str | None, source_language: str, target_language: str
) -> PairSource:
    from flaxformer_mt.data.sources.synthetic import Grammar  # not above: it imports Pair from here

    if (source_language, target_language) != ("en", "de"):
        raise ValueError(
            "the built-in grammar translates from en to de, but the languages are "
            f"{source_language} to {target_language}."
        )
    return Grammar(split, size=int(size)) if size else Grammar(split)


def _check_spec(spec: str) -> None:
    if _TFDS.fullmatch(spec) or _GRAMMAR.fullmatch(spec) or _file_format(spec):
        return
    hint = ""
    if spec.startswith("grammar"):
        hint = " The grammar's splits are train, validation and test."
    elif spec.startswith("tfds"):
        hint = " A TFDS data set needs a split: tfds:NAME:SPLIT."
    raise ValueError(f"cannot tell what source {spec!r} is; expected one of {_SPECS}.{hint}")


def _file_format(spec: str) -> str:
    for packed in _PACKED:
        for suffix in (".tsv", ".jsonl"):
            if spec.endswith(suffix + packed):
                return suffix
    return ""


def _list(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"
