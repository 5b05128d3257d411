"""What CTranslate2 has to know of our vocabularies: the text of every token, and special names."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from flaxformer_mt.data.tokenization.marian_vocabulary import MODELS, MarianVocabulary
from flaxformer_mt.data.tokenization.sentencepiece_vocabulary import SentencePieceVocabulary
from flaxformer_mt.data.tokenization.tokenizer import Tokenizer
from flaxformer_mt.data.tokenization.vocabulary import Vocabulary

SPECIAL = {"bos": "<s>", "pad": "<pad>", "unk": "<unk>", "eos": "</s>"}
NEVER = -1e4
"""A logit whose probability is 0, also in float16."""


def register_vocabularies(spec: Any, tokenizer: Tokenizer) -> None:
    """The text of every token, and what the special ones are called."""
    source, target = tokenizer.source, tokenizer.target
    names = _special_names(source, target)
    target_tokens = _token_names(target, names)
    spec.register_source_vocabulary(_token_names(source, names))
    spec.register_target_vocabulary(target_tokens)
    spec.config.unk_token, spec.config.eos_token = names["unk"], names["eos"]
    spec.config.bos_token = spec.config.decoder_start_token = target_tokens[target.bos_id]
    spec.config.add_source_eos = True
    if starts_with_padding(target):
        _never_choose(spec, target.pad_id, target.size)


def starts_with_padding(target: Vocabulary) -> bool:
    """As Marian's do: an export never chooses it. (If it is EOS as well, it has to be chosen.)"""
    return target.pad_id == target.bos_id != target.eos_id


def _never_choose(spec: Any, token: int, vocab_size: int) -> None:
    """Marian's padding: its vector is 0, so its logit is 0 where those of most words are negative.

    Every Marian decoder forbids it, ours too; here a bias does, so that none has to be told.
    """
    projection = spec.decoder.projection
    bias = projection.bias if projection.has_bias() else np.zeros(vocab_size, np.float32)
    bias = np.array(bias)
    bias[token] = NEVER
    projection.bias = bias


def _special_names(*vocabularies: Vocabulary) -> dict[str, str]:
    """CTranslate2 has one name for both languages' EOS, and so on: one that no other token has."""
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
    for kind, name in special_names.items():  # Marian starts with padding: the later name stays
        names[getattr(vocabulary, f"{kind}_id")] = name
    return names


def sentencepiece_models(tokenizer: Tokenizer) -> dict[str, bytes]:
    """By file name; none for words, which are separated by spaces."""
    models = {}
    for side, file in MODELS.items():
        vocabulary = getattr(tokenizer, side)
        if isinstance(vocabulary, SentencePieceVocabulary):
            models[file] = vocabulary.to_bytes()
        elif isinstance(vocabulary, MarianVocabulary):
            models[file] = vocabulary.files[file]
    return models
