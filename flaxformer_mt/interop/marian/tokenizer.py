"""Writes our vocabularies as the files of `transformers.MarianTokenizer`.

That tokenizer returns the same ids and text as ours, with two exceptions. It strips white space at
both ends of a text, and it reads ">>xx<<" at the start of a line as a language tag.
"""

import json
from collections.abc import Mapping

from flaxformer_mt.data.tokenization.marian_vocabulary import (
    MODELS,
    SETTINGS,
    TARGET_VOCAB,
    VOCAB,
    MarianVocabulary,
)
from flaxformer_mt.data.tokenization.sentencepiece_vocabulary import SentencePieceVocabulary
from flaxformer_mt.data.tokenization.tokenizer import Tokenizer

SPECIAL = {"pad_token": "pad_id", "unk_token": "unk_id", "eos_token": "eos_id"}


def tokenizer_files(
    tokenizer: Tokenizer, *, source_language: str, target_language: str, max_length: int
) -> Mapping[str, bytes]:
    """Returns {file name: content}. For an imported Marian tokenizer, these are its own files.

    Raises ValueError for word vocabularies, if source and target have different special tokens, and
    if a vocabulary has a piece twice.
    """
    source, target = tokenizer.source, tokenizer.target
    if isinstance(source, MarianVocabulary):
        return source.files
    if not (
        isinstance(source, SentencePieceVocabulary) and isinstance(target, SentencePieceVocabulary)
    ):
        raise ValueError(
            "a Marian model needs SentencePiece vocabularies (data.tokenizer.kind sentencepiece or "
            "marian): SentencePiece does not split text into words as kind word does"
        )
    for name, which in SPECIAL.items():
        ids = [getattr(side, which) for side in (source, target)]
        pieces = source.pieces[ids[0]], target.pieces[ids[1]]
        if ids[0] != ids[1] or pieces[0] != pieces[1]:
            raise ValueError(
                f"a Marian model has one {name} for both languages, but here it is "
                f"{pieces[0]!r} (id {ids[0]}) in the source and {pieces[1]!r} (id {ids[1]}) in the "
                "target vocabulary"
            )
    settings = {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": source_language,
        "target_lang": target_language,
        "model_max_length": max_length,
        "separate_vocabs": not tokenizer.shared,
        # As in our tokenizer, the text of a special token does not become that token.
        "split_special_tokens": True,
        **{name: source.pieces[getattr(source, which)] for name, which in SPECIAL.items()},
    }
    files = {
        MODELS["source"]: source.to_bytes(),
        MODELS["target"]: target.to_bytes(),
        VOCAB: _vocab_json(source, "source"),
        SETTINGS: json_file(settings),
    }
    return files if tokenizer.shared else {**files, TARGET_VOCAB: _vocab_json(target, "target")}


def _vocab_json(vocabulary: SentencePieceVocabulary, side: str) -> bytes:
    ids = {piece: token for token, piece in enumerate(vocabulary.pieces)}
    if len(ids) != vocabulary.size:
        twice = next(piece for t, piece in enumerate(vocabulary.pieces) if ids[piece] != t)
        raise ValueError(
            f"the {side} vocabulary has the piece {twice!r} twice; vocab.json has one id for each"
        )
    return json_file(ids)


def json_file(value: object) -> bytes:
    """Returns the content of a JSON file."""
    return (json.dumps(value, ensure_ascii=False, indent=2) + "\n").encode()
