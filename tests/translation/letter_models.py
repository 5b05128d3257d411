"""Translators with a tiny random model, whose tokens are letters."""

import functools
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from flaxformer_mt.data.tokenization.tokenizer import Tokenizer
from flaxformer_mt.data.tokenization.vocabulary import without_line_breaks
from flaxformer_mt.model.config import TransformerConfig
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.translation.config import DecodingConfig
from flaxformer_mt.translation.translator import Translator

PAD, UNK, BOS, EOS = range(4)
LETTERS = "abcdefghijklmnopqrstuvwxyz .\n"  # with a line break, which byte tokens can spell too


class LetterVocabulary:
    """One token for each letter. Other letters are unknown, and invisible ones are dropped, as in
    SentencePiece."""

    suffix: ClassVar[str] = ".letters"
    pieces = ("<pad>", "<unk>", "<s>", "</s>", *LETTERS)
    size = len(pieces)
    pad_id, unk_id, bos_id, eos_id = PAD, UNK, BOS, EOS

    def tokenize(self, text: str) -> list[int]:
        visible = [letter for letter in text if unicodedata.category(letter) != "Cf"]
        return [LETTERS.find(letter) + 4 if letter in LETTERS else UNK for letter in visible] + [
            EOS
        ]

    def detokenize(self, ids) -> str:
        ids = list(ids)
        ids = ids[: ids.index(EOS)] if EOS in ids else ids
        return without_line_breaks("".join(LETTERS[token - 4] for token in ids if token >= 4))

    def tokenize_texts(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.tokenize(text) for text in texts]

    def sample(self, text: str, random: Callable[[], float]) -> list[int]:
        return self.tokenize(text)

    def to_bytes(self) -> bytes:
        return LETTERS.encode()


class TagVocabulary(LetterVocabulary):
    """Letters, and a tag of a language as one token."""

    pieces = (*LetterVocabulary.pieces, ">>fr<<")
    size = len(pieces)

    def tokenize(self, text: str) -> list[int]:
        tag, text = ([self.size - 1], text[6:]) if text.startswith(">>fr<<") else ([], text)
        return tag + super().tokenize(text)


CONFIG = DecodingConfig(
    beam_size=3,
    num_hypotheses=3,
    target_length_ratio=0.5,
    target_length_margin=4,
    tokens_per_batch=96,
    max_rows_per_batch=4,
)


@functools.cache
def random_model(size: int, seed: int) -> tuple[Transformer, Any]:
    """A model and its parameters; both vocabularies have this size."""
    model = Transformer(
        TransformerConfig(
            d_model=16, d_ff=16, num_heads=2, num_encoder_layers=1, num_decoder_layers=1
        ),
        source_vocab_size=size,
        target_vocab_size=size,
        bos_id=BOS,
    )
    ids = jnp.zeros((1, 2), jnp.int32)
    init = jax.jit(model.init)
    return model, init(jax.random.key(seed), ids, ids, ids, ids, ids, ids)["params"]


def make_translator(
    config: DecodingConfig = CONFIG,
    scale: float = 3.0,
    *,
    seed: int = 0,
    vocabulary: type[LetterVocabulary] = LetterVocabulary,
    max_source_length: int = 24,
) -> Translator:
    """A random model; sources of up to 24 tokens share one program."""
    model, params = random_model(vocabulary.size, seed)
    params = jax.tree.map(
        lambda x: x * scale, params
    )  # otherwise all tokens would be about equally probable
    tokenizer = Tokenizer(vocabulary(), vocabulary())
    return Translator(model, params, tokenizer, config, max_source_length=max_source_length)
