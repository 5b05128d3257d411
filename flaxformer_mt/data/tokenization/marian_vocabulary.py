"""The vocabularies of a Hugging Face Marian model: SentencePiece pieces, ids from JSON.

    source.spm, target.spm      SentencePiece models; their ids are not used
    vocab.json                  {piece: id} of both languages
    target_vocab.json           {piece: id} of the target, if the settings have "separate_vocabs";
                                vocab.json is then of the source alone
    tokenizer_config.json       settings: names of the special tokens, a few switches (optional)

Ids and text equal those of `transformers.MarianTokenizer` (5.x). So a special token written in the
text becomes that token, and a language tag such as `>>fra<<` at the start of a line is one token.
"""

import functools
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Literal, SupportsInt

from sentencepiece import SentencePieceProcessor

from flaxformer_mt.data.sources.files import missing_file
from flaxformer_mt.data.tokenization.sentencepiece_vocabulary import load_model
from flaxformer_mt.data.tokenization.vocabulary import (
    SPACE,
    Vocabulary,
    until_end,
    without_line_breaks,
)
from flaxformer_mt.storage.paths import PathLike, as_path

MODELS = {"source": "source.spm", "target": "target.spm"}
VOCAB, TARGET_VOCAB, SETTINGS = "vocab.json", "target_vocab.json", "tokenizer_config.json"
_SIDES: tuple[Literal["source", "target"], ...] = ("source", "target")
_FILES = (*MODELS.values(), VOCAB, TARGET_VOCAB, SETTINGS)
_SPECIAL = {"pad_token": "<pad>", "unk_token": "<unk>", "eos_token": "</s>"}

# `clean_up_tokenization` of transformers removes the spaces of these, in this order.
_CLEAN_UP = (" .", " ?", " !", " ,", " ' ", " n't", " 'm", " 's", " 've", " 're")


def read_marian_vocabularies(
    directory: PathLike, *, bos_id: int | None = None
) -> tuple["MarianVocabulary", "MarianVocabulary"]:
    """Returns the source and target vocabulary of a Marian model.

    Args:
      directory: contains the files above.
      bos_id: the token that starts a target; None = padding.

    Raises FileNotFoundError for a missing file, ValueError for a damaged one.
    """
    folder = as_path(directory)
    files = {name: (folder / name).read_bytes() for name in _FILES if (folder / name).is_file()}
    try:
        source, target = (MarianVocabulary(files, side, bos_id=bos_id) for side in _SIDES)
    except KeyError as error:
        raise missing_file(folder / str(error.args[0])) from error
    except ValueError as error:
        raise ValueError(f"{directory}: {error}") from error
    return source, target


class MarianVocabulary(Vocabulary):
    """One side of a Marian tokenizer."""

    suffix: ClassVar[str] = ".spm"

    def __init__(
        self,
        files: Mapping[str, bytes],
        side: Literal["source", "target"],
        *,
        bos_id: int | None = None,
    ) -> None:
        """Loads one side.

        Args:
          files: contents by file name.
          side: the language.
          bos_id: the token that starts a target (decoder_start_token_id); None = padding.

        Raises KeyError with the name of a missing file, ValueError with the name of a file that is
        damaged or lacks a special token.
        """
        self.files, self._side = dict(files), side
        self.settings = settings = parse_json_object(files.get(SETTINGS, b"{}"), SETTINGS)
        separate = bool(settings.get("separate_vocabs"))
        self.vocab_file = TARGET_VOCAB if separate and side == "target" else VOCAB
        self._ids = _parse_vocab(files[self.vocab_file], self.vocab_file)
        self.pieces: tuple[str, ...] = tuple(sorted(self._ids, key=self._ids.__getitem__))
        self.size: int = len(self.pieces)
        special = [_text_of(settings.get(name) or usual) for name, usual in _SPECIAL.items()]
        self.pad_id, self.unk_id, self.eos_id = map(self._special, special)
        self.bos_id: int = self.pad_id if bos_id is None else bos_id
        added = _added_tokens(settings)
        self._silent = {self._special(name) for name in {*special, *(n for n, s in added if s)}}
        self._whole = _whole_tokens(settings, {*special, *(name for name, _ in added)})
        self._segmenter = _load(files, MODELS[side])
        # As in transformers 5: with a shared vocabulary, the source model detokenizes targets too.
        self._joiner = _load(files, MODELS["target" if separate else "source"])
        self._clean_up = bool(settings.get("clean_up_tokenization_spaces"))

    def __reduce__(self) -> tuple[Any, ...]:
        return functools.partial(MarianVocabulary, bos_id=self.bos_id), (self.files, self._side)

    def tokenize(self, text: str) -> list[int]:
        """Returns the token ids of `text`, with EOS at the end and no BOS."""
        pieces: list[str] = []
        for part in self._whole.split(text):
            if self._whole.fullmatch(part):
                pieces.append(part)
            elif part:
                language, end, rest = part.partition("<<")
                if part.startswith(">>") and end:
                    pieces.append(language + end)
                    part = rest
                pieces += self._segmenter.encode(part, out_type=str)
        return [*(self._ids.get(piece, self.unk_id) for piece in pieces), self.eos_id]

    def detokenize(self, ids: Iterable[SupportsInt]) -> str:
        """Returns the text of `ids` up to the first EOS, without special and unknown tokens."""
        pieces = [self.pieces[token] for token in until_end(ids, self.eos_id, self._silent)]
        text = self._joiner.decode_pieces(pieces).replace(SPACE, " ").strip()
        if self._clean_up:
            for spaced in _CLEAN_UP:
                text = text.replace(spaced, spaced.strip())
        return without_line_breaks(text)

    def to_bytes(self) -> bytes:
        """Returns the contents of all files, which determine ids and text."""
        side = f"{self._side} {self.bos_id} ".encode()
        return side + b"".join(f"{n} {len(b)} ".encode() + b for n, b in self.files.items())

    def _special(self, name: str) -> int:
        if name not in self._ids:
            raise ValueError(
                f"{self.vocab_file} lacks the special token {name!r}; set the names of the special "
                f"tokens (pad_token, unk_token, eos_token) in {SETTINGS}"
            )
        return self._ids[name]


def parse_json_object(content: bytes, name: str) -> dict[str, Any]:
    """Returns the JSON object in a file. Raises ValueError, with its name, if there is none."""
    try:
        value = json.loads(content)
    except ValueError as error:
        raise ValueError(f"{name} is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise ValueError(f"{name}: expected a JSON object, got {type(value).__name__}")
    return value


def _parse_vocab(content: bytes, name: str) -> dict[str, int]:
    """Returns {piece: id}. Raises ValueError unless the ids are 0, 1, 2, ..., each once."""
    vocab = parse_json_object(content, name)
    if not all(type(token) is int for token in vocab.values()):
        raise ValueError(f"{name}: expected an object of {{piece: id}}")
    if missing := sorted(set(range(len(vocab))).difference(vocab.values())):
        raise ValueError(
            f"{name} has {len(vocab)} pieces: expected the ids 0 to {len(vocab) - 1}, each once, "
            f"but no piece has the id {missing[0]}"
        )
    return vocab


def _text_of(token: Any) -> str:
    """Returns the text of a token: a string, or an object with the string as its "content"."""
    content = token.get("content") if isinstance(token, dict) else token
    if not isinstance(content, str):
        raise ValueError(
            f'{SETTINGS}: expected a token as a string, or as an object with its "content", '
            f"got {token!r}"
        )
    return content


def _added_tokens(settings: Mapping[str, Any]) -> list[tuple[str, bool]]:
    """Returns (name, whether `detokenize` omits it) of further tokens that are not segmented."""
    decoder = settings.get("added_tokens_decoder") or {}
    if not isinstance(decoder, dict) or not all(isinstance(e, dict) for e in decoder.values()):
        raise ValueError(
            f"{SETTINGS}: added_tokens_decoder: expected an object of {{id: token}}, each token "
            f"an object, got {decoder!r}"
        )
    added = []
    for entry in decoder.values():
        if any(entry.get(switch) for switch in ("lstrip", "rstrip", "single_word")):
            raise ValueError(
                f"{SETTINGS}: added token {_text_of(entry)!r} with lstrip, rstrip or single_word, "
                "which are not supported here; expected all three false"
            )
        added.append((_text_of(entry), bool(entry.get("special"))))
    for key in ("additional_special_tokens", "extra_special_tokens"):
        given = settings.get(key) or []
        tokens = given.values() if isinstance(given, dict) else given  # {purpose: token}
        added += [(_text_of(token), True) for token in tokens]
    return added


def _whole_tokens(settings: Mapping[str, Any], names: set[str]) -> re.Pattern[str]:
    """Returns a pattern of the tokens that SentencePiece must not segment."""
    if settings.get("split_special_tokens"):
        return re.compile(r"(?!)")
    longest_first = sorted(names, key=len, reverse=True)
    return re.compile(f"({'|'.join(map(re.escape, longest_first))})")


def _load(files: Mapping[str, bytes], name: str) -> SentencePieceProcessor:
    try:
        return load_model(files[name])
    except ValueError as error:
        raise ValueError(f"{name} is {error}") from error
