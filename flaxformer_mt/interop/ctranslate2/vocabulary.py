"""The vocabularies of a CTranslate2 model: the text of every token, and the special tokens."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from flaxformer_mt.data.tokenization.marian_vocabulary import MODELS, MarianVocabulary
from flaxformer_mt.data.tokenization.sentencepiece_vocabulary import SentencePieceVocabulary
from flaxformer_mt.data.tokenization.tokenizer import Tokenizer
from flaxformer_mt.data.tokenization.vocabulary import Vocabulary

# If one token has two roles, the later name is used. (Marian starts a target with padding.)
SPECIAL = {"bos": "<s>", "pad": "<pad>", "unk": "<unk>", "eos": "</s>"}
SUPPRESSED_LOGIT = -1e4  # its probability is 0, also in float16


def register_vocabularies(spec: Any, tokenizer: Tokenizer) -> None:
    """Sets the text of every token and the names of the special tokens."""
    source, target = tokenizer.source, tokenizer.target
    names = _special_names(source, target)
    target_tokens = _token_names(target, names)
    spec.register_source_vocabulary(_token_names(source, names))
    spec.register_target_vocabulary(target_tokens)
    spec.config.unk_token, spec.config.eos_token = names["unk"], names["eos"]
    spec.config.bos_token = spec.config.decoder_start_token = target_tokens[target.bos_id]
    spec.config.add_source_eos = True
    if starts_with_padding(target):
        # In Marian, the embedding and the logit of padding are 0, while the logits of most words
        # are negative. Marian's decoders forbid padding; other engines need a bias.
        projection = spec.decoder.projection
        bias = projection.bias if projection.has_bias() else np.zeros(target.size, np.float32)
        is_padding = np.arange(target.size) == target.pad_id
        projection.bias = np.where(is_padding, np.float32(SUPPRESSED_LOGIT), bias)


def starts_with_padding(target: Vocabulary) -> bool:
    """Returns whether padding starts a target, as in Marian. An export then never generates it.

    False if padding is also EOS, which must be generated.
    """
    return target.pad_id == target.bos_id != target.eos_id


def read_pieces(directory: Path, side: Literal["source", "target"]) -> list[str]:
    """Returns the text of every token id of one side of an export."""
    file = directory / "shared_vocabulary.json"
    file = file if file.exists() else directory / f"{side}_vocabulary.json"
    return json.loads(file.read_text(encoding="utf-8"))


def sentencepiece_models(tokenizer: Tokenizer) -> dict[str, bytes]:
    """Returns {file name: SentencePiece model}. Word vocabularies have none."""
    if isinstance(tokenizer.source, MarianVocabulary):
        return {file: tokenizer.source.files[file] for file in MODELS.values()}
    sides = {file: getattr(tokenizer, side) for side, file in MODELS.items()}
    return {
        file: side.to_bytes()
        for file, side in sides.items()
        if isinstance(side, SentencePieceVocabulary)
    }


def _special_names(*vocabularies: Vocabulary) -> dict[str, str]:
    """Returns a name for each special token. CTranslate2 uses it for both languages.

    No other token of either vocabulary has this name.
    """
    taken: set[str] = set()
    for vocabulary in vocabularies:
        special = {getattr(vocabulary, f"{kind}_id") for kind in SPECIAL}
        taken |= {piece for i, piece in enumerate(vocabulary.pieces) if i not in special}
    names = dict(SPECIAL)
    for kind in names:
        while names[kind] in taken:
            names[kind] = f"<{names[kind]}>"
    return names


def _token_names(vocabulary: Vocabulary, special_names: Mapping[str, str]) -> list[str]:
    names = list(vocabulary.pieces)
    for kind, name in special_names.items():
        names[getattr(vocabulary, f"{kind}_id")] = name
    return names
