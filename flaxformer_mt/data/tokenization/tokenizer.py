"""The vocabularies of both languages: learnt from the training text or given, kept in the workdir.

tokenizer.json                                         kind, shared or not, by which settings
shared.model      or  source.model, target.model            SentencePiece
shared.vocab.tsv  or  source.vocab.tsv, target.vocab.tsv    words
source.spm, target.spm, vocab.json, ...                     Marian, see data.marian_vocabulary
"""

import dataclasses
import functools
import hashlib
import io
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from sentencepiece import SentencePieceTrainer

from flaxformer_mt.data.sources.corpora import Corpus
from flaxformer_mt.data.sources.language_tags import languages_in, split_tag, tag_of
from flaxformer_mt.data.sources.text_files import missing_file
from flaxformer_mt.data.tokenization.marian_vocabulary import (
    MarianVocabulary,
    read_marian_vocabularies,
)
from flaxformer_mt.data.tokenization.vocabulary import (
    BOS_ID,
    EOS_ID,
    PAD_ID,
    UNK_ID,
    SentencePieceVocabulary,
    Vocabulary,
    WordVocabulary,
)

__all__ = [
    "MarianVocabulary",
    "SentencePieceVocabulary",
    "Tokenizer",
    "TokenizerConfig",
    "Vocabulary",
    "WordVocabulary",
    "build_tokenizer",
]

_INDEX = "tokenizer.json"
_KINDS = {
    "sentencepiece": SentencePieceVocabulary,
    "word": WordVocabulary,
    "marian": MarianVocabulary,
}
_READY_FILES = {
    "sentencepiece": ("source_model", "target_model"),
    "word": ("source_vocab", "target_vocab"),
    "marian": ("source_model",),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenizerConfig:
    """How text becomes token ids. What is learnt, is learnt from the training text."""

    kind: Literal["sentencepiece", "word", "marian"] = "sentencepiece"
    """"sentencepiece": subword pieces; "word": words, as the text separates them by spaces;
    "marian": the vocabularies of a Hugging Face Marian model, which are never learnt here."""
    shared: bool = True
    """One vocabulary for both languages, learnt from both (section 5.1); False = one for each."""
    vocab_size: int = 8000
    """Size of a vocabulary that is learnt, special tokens included. Little text may give less."""
    model_type: Literal["unigram", "bpe"] = "unigram"
    """SentencePiece: the algorithm that finds the pieces."""
    byte_fallback: bool = True
    """SentencePiece: spell rare characters as bytes (256 more ids), so that nothing is unknown."""
    character_coverage: float = 1.0
    """SentencePiece: share of the running characters that get a piece; 0.9995 suits Chinese and
    Japanese, whose rarest characters would fill the vocabulary."""
    normalization: Literal["nmt_nfkc", "nmt_nfkc_cf", "nfkc", "nfkc_cf", "identity"] = "nmt_nfkc"
    """SentencePiece: how characters are unified first ("_cf" lower-cases too). All but "identity"
    make Chinese punctuation Western: a Chinese target wants "identity"."""
    max_lines: int = 100_000
    """SentencePiece: learn from at most so many lines of a side, chosen at random; 0 = all."""
    min_count: int = 1
    """Words: leave those out of a learnt vocabulary that the training text has less often."""
    source_model: str = ""
    """SentencePiece: a ready .model file for the source, if shared for both; "" = learn it.
    Marian: the directory that holds source.spm, target.spm and vocab.json."""
    target_model: str = ""
    """SentencePiece: a ready .model file for the target; "" = learn it."""
    source_vocab: str = ""
    """Words: a file of word<TAB>count rows for the source, if shared for both, the first four rows
    being padding, unknown, start and end; "" = learn it."""
    target_vocab: str = ""
    """Words: such a file for the target; "" = learn it."""
    sampling_alpha: float = 0.0
    """Subword regularisation: cut the training text differently in each epoch; 0 = off. Unigram:
    the exponent of the probabilities, 0.1 to 0.5 (less = wilder). BPE: how many merges to skip,
    0.1."""

    def __post_init__(self) -> None:
        for name, valid, rule in (
            ("vocab_size", self.vocab_size > EOS_ID + 1, "more than the 4 special tokens"),
            ("character_coverage", 0 < self.character_coverage <= 1, "above 0 and at most 1"),
            ("max_lines", self.max_lines >= 0, "0 (all) or positive"),
            ("min_count", self.min_count >= 1, "at least 1"),
            ("sampling_alpha", 0 <= self.sampling_alpha < 1, "0 (off) or between 0 and 1"),
        ):
            if not valid:
                raise ValueError(f"{name} must be {rule}, got {getattr(self, name)}.")
        allowed = _READY_FILES[self.kind]
        for name in ("source_model", "target_model", "source_vocab", "target_vocab"):
            if getattr(self, name) and name not in allowed:
                raise ValueError(
                    f"{name}={getattr(self, name)!r} does not go with kind={self.kind!r}: "
                    "SentencePiece takes source_model and target_model, words take source_vocab "
                    "and target_vocab, Marian takes source_model (a directory)."
                )
        if self.kind == "word" and self.sampling_alpha:
            raise ValueError("sampling_alpha needs kind='sentencepiece': words are never cut.")
        source, target = self._files()
        if self.shared and source and target and source != target:
            raise ValueError(
                "shared=True is one vocabulary for both languages, but two files are given, "
                f"{source} and {target}. Give one of them, or set shared=False."
            )

    def _files(self) -> tuple[str, str]:
        """The ready file of each side, or ""."""
        return self.source_model or self.source_vocab, self.target_model or self.target_vocab


@dataclasses.dataclass(frozen=True, eq=False)
class Tokenizer:
    """The vocabulary of each language; if shared, `source` and `target` are the same object."""

    source: Vocabulary
    target: Vocabulary
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """The configuration that it was made by, to notice when a resumed run asks for another."""
    languages: tuple[str, ...] = ()
    """Target languages whose tags the source vocabulary has; see `data.language_tags`."""

    @property
    def shared(self) -> bool:
        """Whether both languages have one vocabulary."""
        return self.source is self.target

    @property
    def needs_tag(self) -> bool:
        """Whether every source text must begin with a tag. (Some Marian models can do without.)"""
        return bool(self.languages) and not isinstance(self.source, MarianVocabulary)

    @functools.cached_property
    def target_tags(self) -> tuple[int, ...]:
        """Ids that the tags have as target tokens, which no translation has use for."""
        tags = set(map(tag_of, self.languages))
        return tuple(token for token, piece in enumerate(self.target.pieces) if piece in tags)

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits that differ when any token id would mean something else."""
        digest = hashlib.sha256()
        for vocabulary in (self.source, self.target):
            content = vocabulary.to_bytes()
            digest.update(f"{vocabulary.suffix} {len(content)} ".encode() + content)
        return digest.hexdigest()[:16]

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Writes the vocabularies, and last of all the index, without which `load` finds none."""
        directory = Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        for name, content in self._contents().items():
            _write(directory / name, content)
        kind = next(kind for kind, cls in _KINDS.items() if cls.suffix == self.source.suffix)
        index: dict[str, Any] = {"kind": kind, "shared": self.shared}
        if isinstance(self.target, MarianVocabulary):
            index["bos_id"] = self.target.bos_id  # none of its files says it
        if self.needs_tag:
            index["languages"] = list(self.languages)
        index["settings"] = dict(self.settings)
        _write(directory / _INDEX, json.dumps(index, indent=2).encode())

    def _contents(self) -> Mapping[str, bytes]:
        """Its files by name, all but the index."""
        if isinstance(self.source, MarianVocabulary):
            return self.source.files
        if self.shared:
            return {"shared" + self.source.suffix: self.source.to_bytes()}
        sides = {"source": self.source, "target": self.target}
        return {side + one.suffix: one.to_bytes() for side, one in sides.items()}

    @classmethod
    def load(cls, directory: str | os.PathLike[str], *, sampling_alpha: float = 0.0) -> "Tokenizer":
        """Reads what `save` wrote. Sampling is not part of it: say it anew.

        Raises FileNotFoundError if there is no tokenizer, ValueError if it is damaged.
        """
        directory = Path(directory)
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
            bos_id = index.get("bos_id")
            sides = read_marian_vocabularies(
                directory, bos_id=bos_id, sampling_alpha=sampling_alpha
            )
            return cls(*sides, settings, languages_in(sides[0].pieces))
        if shared:
            both = _read(directory / f"shared{suffix}", kind, sampling_alpha)
            return cls(both, both, settings, languages)
        source = _read(directory / f"source{suffix}", kind, sampling_alpha)
        target = _read(directory / f"target{suffix}", kind, sampling_alpha)
        return cls(source, target, settings, languages)


def build_tokenizer(
    config: TokenizerConfig,
    corpus: Corpus,
    *,
    directory: str | os.PathLike[str],
    data_directory: str | os.PathLike[str] = ".",
) -> Tokenizer:
    """The tokenizer that `directory` holds; if none, learns one or reads ready files, and saves it.

    Args:
      config: which vocabularies.
      corpus: the training text to learn from.
      directory: the place for it in the workdir.
      data_directory: where relative names of ready files start.

    Raises:
      FileNotFoundError: a ready file is not there.
      ValueError: a ready file that is no vocabulary, too little text for one, or another
        configuration than that of the tokenizer in `directory`.
    """
    settings = dataclasses.asdict(config)
    if (Path(directory) / _INDEX).exists():
        tokenizer = Tokenizer.load(directory, sampling_alpha=config.sampling_alpha)
        _check_same_settings(tokenizer.settings, settings, directory)
        _check_languages(tokenizer, corpus.languages, directory)
        return tokenizer
    source_file, target_file = config._files()
    base = Path(data_directory).expanduser()
    if config.kind == "marian":
        tokenizer = _ready_marian(config, base, settings)
        _check_languages(tokenizer, corpus.languages, config.source_model)
        tokenizer.save(directory)
        return tokenizer

    def vocabulary(side: Literal["source", "target", "both"], file: str) -> Vocabulary:
        if file:
            return _read(base / Path(file).expanduser(), config.kind, config.sampling_alpha)
        return _learn(config, corpus, side)

    if config.shared:
        both = vocabulary("both", source_file or target_file)
        tokenizer = Tokenizer(both, both, settings, corpus.languages)
    else:
        source, target = vocabulary("source", source_file), vocabulary("target", target_file)
        tokenizer = Tokenizer(source, target, settings, corpus.languages)
    known = dataclasses.replace(tokenizer, languages=languages_in(tokenizer.source.pieces))
    _check_languages(known, corpus.languages, source_file or target_file)
    tokenizer.save(directory)
    return tokenizer


def _ready_marian(config: TokenizerConfig, base: Path, settings: Mapping[str, Any]) -> Tokenizer:
    if not config.source_model:
        raise ValueError(
            "kind='marian' is never learnt: set source_model to the directory of a Marian model, "
            "or import one with `python -m flaxformer_mt.convert --from marian`."
        )
    directory = base / Path(config.source_model).expanduser()
    sides = read_marian_vocabularies(directory, sampling_alpha=config.sampling_alpha)
    return Tokenizer(*sides, settings, languages_in(sides[0].pieces))


def _learn(
    config: TokenizerConfig, corpus: Corpus, side: Literal["source", "target", "both"]
) -> Vocabulary:
    tags = [] if side == "target" else [tag_of(language) for language in corpus.languages]
    if config.kind == "word":
        lines = _lines(corpus, side, max_lines=0)
        return WordVocabulary.learn(
            lines, max_size=config.vocab_size, min_count=config.min_count, symbols=tags
        )
    lines = _lines(corpus, side, max_lines=config.max_lines)
    return SentencePieceVocabulary(_learn_pieces(config, lines, tags), config.sampling_alpha)


def _learn_pieces(config: TokenizerConfig, lines: Iterator[str], tags: Sequence[str]) -> bytes:
    model = io.BytesIO()
    try:
        SentencePieceTrainer.train(
            sentence_iterator=lines,
            model_writer=model,
            model_type=config.model_type,
            vocab_size=config.vocab_size,
            hard_vocab_limit=False,  # little text: fewer pieces, no error
            byte_fallback=config.byte_fallback,
            character_coverage=config.character_coverage,
            normalization_rule_name=config.normalization,
            user_defined_symbols=tags,
            pad_id=PAD_ID,
            unk_id=UNK_ID,
            bos_id=BOS_ID,
            eos_id=EOS_ID,
            minloglevel=2,  # errors only
        )
    except RuntimeError as error:
        raise ValueError(_explain(str(error), config)) from error
    return model.getvalue()


def _explain(error: str, config: TokenizerConfig) -> str:
    if match := re.search(r"smaller than required_chars. \d+ vs (\d+)", error):
        return (
            f"vocab_size={config.vocab_size} is too small for this text: its characters, "
            f"{'the 256 bytes of byte_fallback ' if config.byte_fallback else ''}and the special "
            f"tokens alone are {match[1]}. Raise vocab_size, or lower character_coverage (from "
            f"{config.character_coverage})."
        )
    if "sentences_.empty()" in error or "all_chars_count" in error:
        return "there is no text to learn the vocabulary from: every training line is blank."
    return f"SentencePiece cannot learn a vocabulary from this text: {error}"


def _lines(
    corpus: Corpus, side: Literal["source", "target", "both"], *, max_lines: int
) -> Iterator[str]:
    """The lines of one side or of both, or the same random `max_lines` pairs of them each time.

    Without language tags, which are not learnt.
    """
    total = len(corpus)
    chosen = np.ones(total, bool)
    if 0 < max_lines < total:
        chosen[:] = False
        chosen[np.random.default_rng(0).choice(total, max_lines, replace=False)] = True
    start = 0
    for source in corpus.sources:
        for index in np.flatnonzero(chosen[start : start + len(source)]).tolist():
            pair = source[index]
            if side != "target":
                yield split_tag(pair.source)[1] if corpus.languages else pair.source
            if side != "source":
                yield pair.target
        start += len(source)


def _read(file: Path, kind: str, sampling_alpha: float) -> Vocabulary:
    if kind == "word":
        return WordVocabulary.read(file)
    try:
        return SentencePieceVocabulary(file.read_bytes(), sampling_alpha)
    except FileNotFoundError as error:
        raise missing_file(file) from error
    except ValueError as error:
        raise ValueError(f"{file}: {error}.") from error


def _check_same_settings(
    saved: Mapping[str, Any], wanted: Mapping[str, Any], directory: str | os.PathLike[str]
) -> None:
    def meaning(settings: Mapping[str, Any], name: str) -> Any:
        # A ready file was copied: its name does not matter any more, only that there was one.
        of_file = name.endswith(("_model", "_vocab"))
        return bool(settings.get(name)) if of_file else settings.get(name)

    differences = [
        f"{name} was {saved.get(name)!r} and is now {wanted[name]!r}"
        for name in wanted
        if saved and name != "sampling_alpha" and meaning(saved, name) != meaning(wanted, name)
    ]
    if differences:
        raise ValueError(
            f"{directory} holds a tokenizer made by other settings: {'; '.join(differences)}. Take "
            "those settings back, or start in a new workdir."
        )


def _check_languages(
    tokenizer: Tokenizer, wanted: Sequence[str], place: str | os.PathLike[str]
) -> None:
    """Raises ValueError unless the tags of the training text are tokens of the vocabulary."""
    missing = [tag_of(language) for language in wanted if language not in tokenizer.languages]
    if missing:
        raise ValueError(
            f"the vocabulary in {place} has no token for {', '.join(missing)}, which "
            f"data.train.target_languages asks for; it has "
            f"{', '.join(map(tag_of, tokenizer.languages)) or 'no such tags'}. Learn a new one in "
            "a new workdir, or add them to the ready file as user-defined symbols."
        )


def _write(file: Path, content: bytes) -> None:
    """Writes a file that appears whole or not at all."""
    partial = file.with_name(f"{file.name}.{os.getpid()}.partial")
    partial.write_bytes(content)
    os.replace(partial, file)
