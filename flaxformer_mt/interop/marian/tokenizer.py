"""Our vocabularies as the files that `transformers.MarianTokenizer` reads.

It gives the same ids and the same text as ours, with two exceptions: it strips white space at both
ends of a text, and takes ">>xx<<" at the beginning of a line for the name of a language.
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
    """Contents by file name; those of a Marian tokenizer are what they were.

    Raises ValueError for vocabularies of words, and for two whose special tokens differ.
    """
    source, target = tokenizer.source, tokenizer.target
    if isinstance(source, MarianVocabulary):
        return source.files
    if not (
        isinstance(source, SentencePieceVocabulary) and isinstance(target, SentencePieceVocabulary)
    ):
        raise ValueError(
            "a Marian model needs SentencePiece vocabularies (data.tokenizer.kind sentencepiece or "
            "marian); the words of kind word cannot be cut as they are by SentencePiece"
        )
    _check_same_special(source, target)
    settings = {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": source_language,
        "target_lang": target_language,
        "model_max_length": max_length,
        "separate_vocabs": not tokenizer.shared,
        # As here, a text that spells a special token does not get it.
        "split_special_tokens": True,
        **{name: source.pieces[getattr(source, which)] for name, which in SPECIAL.items()},
    }
    files = {
        MODELS["source"]: source.to_bytes(),
        MODELS["target"]: target.to_bytes(),
        VOCAB: _vocab_json(source, "source"),
        SETTINGS: _to_json(settings),
    }
    return files if tokenizer.shared else {**files, TARGET_VOCAB: _vocab_json(target, "target")}


def _check_same_special(source: SentencePieceVocabulary, target: SentencePieceVocabulary) -> None:
    """There is one set of them there, for both languages."""
    for name, which in SPECIAL.items():
        ids = [getattr(side, which) for side in (source, target)]
        pieces = source.pieces[ids[0]], target.pieces[ids[1]]
        if ids[0] != ids[1] or pieces[0] != pieces[1]:
            raise ValueError(
                f"a Marian model has one {name} for both languages, but here it is "
                f"{pieces[0]!r} (id {ids[0]}) in the source and {pieces[1]!r} (id {ids[1]}) in the "
                "target vocabulary"
            )


def _vocab_json(vocabulary: SentencePieceVocabulary, side: str) -> bytes:
    ids = {piece: token for token, piece in enumerate(vocabulary.pieces)}
    if len(ids) != vocabulary.size:
        twice = next(piece for t, piece in enumerate(vocabulary.pieces) if ids[piece] != t)
        raise ValueError(
            f"the {side} vocabulary has the piece {twice!r} twice, for which vocab.json has no room"
        )
    return _to_json(ids)


def _to_json(value: object) -> bytes:
    return (json.dumps(value, ensure_ascii=False, indent=2) + "\n").encode()
