"""The vocabularies of both languages, learnt from the training text or read from files.

The files in a workdir:

    tokenizer.json                                              kind, shared or not, settings
    shared.model      or  source.model, target.model            SentencePiece
    shared.vocab.tsv  or  source.vocab.tsv, target.vocab.tsv    words
    source.spm, target.spm, vocab.json, ...                     Marian, see marian_vocabulary.py
    source.words.txt                                            words of a small training text
"""

import dataclasses
import functools
import hashlib
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from flaxformer_mt.data.sources.files import missing_file
from flaxformer_mt.data.sources.language_tags import languages_in, split_tag, tag_of
from flaxformer_mt.data.sources.pair import Pair
from flaxformer_mt.data.tokenization.config import TokenizerConfig
from flaxformer_mt.data.tokenization.known_words import few_words, form_of, marks_in
from flaxformer_mt.data.tokenization.marian_vocabulary import (
    MarianVocabulary,
    read_marian_vocabularies,
)
from flaxformer_mt.data.tokenization.sentencepiece_vocabulary import SentencePieceVocabulary
from flaxformer_mt.data.tokenization.vocabulary import Vocabulary
from flaxformer_mt.data.tokenization.word_vocabulary import WordVocabulary
from flaxformer_mt.storage.paths import (
    AnyPath,
    PathLike,
    as_path,
    join,
    local_file,
    make_folder,
    write_file,
)

_INDEX = "tokenizer.json"
_WORDS = "source.words.txt"
_BYTE = re.compile(r"<0x[0-9A-F]{2}>")
_KINDS = {
    "sentencepiece": SentencePieceVocabulary,
    "word": WordVocabulary,
    "marian": MarianVocabulary,
}


@dataclasses.dataclass(frozen=True, eq=False)
class Tokenizer:
    """The vocabulary of each language; if shared, `source` and `target` are the same object."""

    source: Vocabulary
    target: Vocabulary
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Its configuration. A run with another one cannot resume."""
    languages: tuple[str, ...] = ()
    """Target languages whose tags the source vocabulary has; see `language_tags`."""
    known_words: frozenset[str] | None = None
    """Source words and punctuation of the training text, if there are few; see `few_words`."""

    @property
    def shared(self) -> bool:
        """Whether both languages have one vocabulary."""
        return self.source is self.target

    @property
    def needs_tag(self) -> bool:
        """Whether every source text must begin with a tag. False for Marian: some need none."""
        return bool(self.languages) and not isinstance(self.source, MarianVocabulary)

    @functools.cached_property
    def target_tags(self) -> tuple[int, ...]:
        """Ids of the language tags as target tokens. No translation may contain them."""
        tags = set(map(tag_of, self.languages))
        return tuple(token for token, piece in enumerate(self.target.pieces) if piece in tags)

    @property
    def has_all_characters(self) -> bool:
        """Whether every character of the training text has a piece."""
        given = self.settings
        learnt = given.get("kind") == "sentencepiece" and not (
            given.get("source_model") or given.get("target_model")
        )
        return learnt and given["character_coverage"] == 1

    @functools.cached_property
    def unseen_tokens(self) -> frozenset[int]:
        """Source tokens that the training text does not contain.

        These are the unknown token and, if every character of the training text has a piece, bytes.
        """
        tokens = {self.source.unk_id}
        if self.has_all_characters:
            pieces = enumerate(self.source.pieces)
            tokens |= {token for token, piece in pieces if _BYTE.fullmatch(piece)}
        return frozenset(tokens)

    @functools.cached_property
    def known_marks(self) -> frozenset[str]:
        """The punctuation marks in `known_words`. Earlier versions saved none."""
        return frozenset(word for word in self.known_words or () if [word] == [*marks_in(word)])

    @property
    def fingerprint(self) -> str:
        """A hash of both vocabularies, in 16 hexadecimal digits."""
        digest = hashlib.sha256()
        for vocabulary in (self.source, self.target):
            content = vocabulary.to_bytes()
            digest.update(f"{vocabulary.suffix} {len(content)} ".encode() + content)
        return digest.hexdigest()[:16]

    def save(self, directory: PathLike) -> None:
        """Writes the vocabularies, and last the index file, which `load` reads first."""
        directory = as_path(directory)
        make_folder(directory)
        for name, content in self._contents().items():
            write_file(directory / name, content)
        if self.known_words is not None:
            write_file(directory / _WORDS, "\n".join(sorted(self.known_words)).encode())
        kind = next(kind for kind, cls in _KINDS.items() if cls.suffix == self.source.suffix)
        index: dict[str, Any] = {"kind": kind, "shared": self.shared}
        if isinstance(self.target, MarianVocabulary):
            index["bos_id"] = self.target.bos_id  # not in Marian's files
        if self.needs_tag:
            index["languages"] = list(self.languages)
        index["settings"] = dict(self.settings)
        write_file(directory / _INDEX, json.dumps(index, indent=2).encode())

    def _contents(self) -> Mapping[str, bytes]:
        """Returns {file name: content} without the index file."""
        if isinstance(self.source, MarianVocabulary):
            return self.source.files
        if self.shared:
            return {"shared" + self.source.suffix: self.source.to_bytes()}
        sides = {"source": self.source, "target": self.target}
        return {side + one.suffix: one.to_bytes() for side, one in sides.items()}

    @classmethod
    def load(cls, directory: PathLike, *, sampling_alpha: float = 0.0) -> "Tokenizer":
        """Returns the tokenizer that `save` wrote, with this `sampling_alpha`.

        Raises FileNotFoundError if there is no tokenizer, ValueError if it is damaged.
        """
        directory = as_path(directory)
        index_file = directory / _INDEX
        if not index_file.exists():
            raise missing_file(index_file)
        try:
            index = json.loads(index_file.read_bytes())
            kind, shared, settings = index["kind"], index["shared"], index["settings"]
            suffix = _KINDS[kind].suffix
            languages = tuple(index.get("languages", ()))
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{index_file} is damaged: {error!r}") from error
        if kind == "marian":
            sides = read_marian_vocabularies(directory, bos_id=index.get("bos_id"))
            return cls(*sides, settings, languages_in(sides[0].pieces))
        words = None  # the training text has many words
        if (directory / _WORDS).exists():
            lines = (directory / _WORDS).read_text(encoding="utf-8").split("\n")
            words = frozenset(map(form_of, lines))  # earlier versions did not normalise them
        names = ("shared",) if shared else ("source", "target")
        sides = [_read(directory / f"{name}{suffix}", kind, sampling_alpha) for name in names]
        if settings:
            settings |= {"sampling_alpha": sampling_alpha}
        return cls(sides[0], sides[-1], settings, languages, words)


@dataclasses.dataclass(frozen=True, kw_only=True)
class LearningText:
    """The text to learn vocabularies from."""

    pairs: Callable[[], Iterable[Pair]]
    """Returns the pairs: all of the training text, or random ones, the same in every run."""
    is_whole: bool = True
    """Whether `pairs` returns all pairs."""
    languages: tuple[str, ...] = ()
    """The target languages that tags of source texts name, without repetition."""


def build_tokenizer(
    config: TokenizerConfig,
    text: LearningText,
    *,
    directory: PathLike,
    data_directory: PathLike = ".",
) -> Tokenizer:
    """Returns the tokenizer in `directory`. If there is none, learns or reads one and saves it.

    Args:
      config: the configuration of the vocabularies.
      text: the training text to learn from.
      directory: where the tokenizer is saved.
      data_directory: relative names of existing vocabulary files start here.

    Raises:
      FileNotFoundError: a file does not exist.
      ValueError: a file is not a vocabulary, the text is too little to learn from, or the tokenizer
        in `directory` has another configuration.
    """
    settings = dataclasses.asdict(config)
    if (as_path(directory) / _INDEX).exists():
        tokenizer = Tokenizer.load(directory, sampling_alpha=config.sampling_alpha)
        check_same_settings(tokenizer.settings, settings, directory)
        _check_languages(tokenizer, text.languages, directory)
        return tokenizer
    base = as_path(data_directory)
    source_file, target_file = config.existing_files()
    languages = text.languages
    words = None  # a model with an existing vocabulary may know more words
    if config.kind != "marian" and text.is_whole and not (source_file or target_file):
        words = few_words(_lines(text, "source"))
    if config.kind == "marian":
        if not config.source_model:
            raise ValueError(
                "kind='marian' needs existing vocabularies: set source_model to the directory of a "
                "Marian model, or import one with `python -m flaxformer_mt.convert --from marian`."
            )
        source, target = read_marian_vocabularies(join(base, config.source_model))
        languages = languages_in(source.pieces)
    elif config.shared:
        file = source_file or target_file
        source = target = _learn_or_read(config, text, "both", file, base)
    else:
        source = _learn_or_read(config, text, "source", source_file, base)
        target = _learn_or_read(config, text, "target", target_file, base)
    tokenizer = Tokenizer(source, target, settings, languages, words)
    known = dataclasses.replace(tokenizer, languages=languages_in(source.pieces))
    _check_languages(known, text.languages, source_file or target_file)
    tokenizer.save(directory)
    return tokenizer


def _learn_or_read(
    config: TokenizerConfig,
    text: LearningText,
    side: Literal["source", "target", "both"],
    file: str,
    base: AnyPath,
) -> Vocabulary:
    if file:
        return _read(join(base, file), config.kind, config.sampling_alpha)
    tags = [] if side == "target" else [tag_of(language) for language in text.languages]
    what = "both languages" if side == "both" else f"the {side} text"
    print(f"learning the vocabulary of {what}", file=sys.stderr, flush=True)
    lines = _lines(text, side)
    if config.kind == "word":
        return WordVocabulary.learn(
            lines, max_size=config.vocab_size, min_count=config.min_count, symbols=tags
        )
    return SentencePieceVocabulary.learn(lines, config, symbols=tags)


def _lines(text: LearningText, side: Literal["source", "target", "both"]) -> Iterator[str]:
    """Yields the text of one side or both, without tags."""
    for pair in text.pairs():
        if side != "target":
            yield split_tag(pair.source)[1] if text.languages else pair.source
        if side != "source":
            yield pair.target


def _read(file: AnyPath, kind: str, sampling_alpha: float) -> Vocabulary:
    if kind == "word":
        return WordVocabulary.read(local_file(file))
    try:
        return SentencePieceVocabulary(file.read_bytes(), sampling_alpha)
    except FileNotFoundError as error:
        raise missing_file(file) from error
    except ValueError as error:
        raise ValueError(f"{file}: {error}.") from error


def check_same_settings(
    saved: Mapping[str, Any], wanted: Mapping[str, Any], directory: PathLike
) -> None:
    """Raises ValueError unless a saved tokenizer has the settings that the config wants."""

    def meaning(settings: Mapping[str, Any], name: str) -> Any:
        # The workdir has a copy of an existing vocabulary file, so the file name may change.
        is_file = name.endswith(("_model", "_vocab"))
        return bool(settings.get(name)) if is_file else settings.get(name)

    differences = [
        f"{name} was {saved.get(name)!r} and is now {wanted[name]!r}"
        for name in wanted
        if saved and name != "sampling_alpha" and meaning(saved, name) != meaning(wanted, name)
    ]
    if differences:
        raise ValueError(
            f"{directory} contains a tokenizer with other settings: {'; '.join(differences)}. "
            "Restore those settings, or start in a new workdir."
        )


def _check_languages(tokenizer: Tokenizer, wanted: Sequence[str], path: PathLike) -> None:
    """Raises ValueError unless the vocabulary has a token for each tag of the training text."""
    missing = [tag_of(language) for language in wanted if language not in tokenizer.languages]
    if missing:
        raise ValueError(
            f"the vocabulary in {path} has no token for {', '.join(missing)}, which "
            f"data.train.target_languages needs; it has "
            f"{', '.join(map(tag_of, tokenizer.languages)) or 'no such tags'}. Learn a new one in "
            "a new workdir, or add them to the file as user-defined symbols."
        )
