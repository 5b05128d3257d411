"""What a translator refuses, before any work: each function raises ValueError, or does nothing."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool

from flaxformer_mt.data.tokenization.tokenizer import Tokenizer
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.search.config import DecodingConfig
from flaxformer_mt.translation.requests import Request


def check_ensemble(tokenizers: Sequence[Tokenizer], weights: Sequence[float]) -> list[float]:
    """The weights, with sum 1; equal ones if none are given.

    Raises ValueError unless all members have the same vocabularies, and each a weight above 0.
    """
    if not tokenizers:
        raise ValueError("an ensemble needs at least one model")
    first = tokenizers[0]
    for number, other in enumerate(tokenizers[1:], start=2):
        for side in ("source", "target"):
            ours, theirs = getattr(first, side), getattr(other, side)
            if ours.to_bytes() != theirs.to_bytes():
                raise ValueError(
                    f"the members of an ensemble must have one vocabulary, but the {side} "
                    f"vocabularies of models 1 and {number} differ ({ours.size} and {theirs.size} "
                    "tokens): train them with the same tokenizer files"
                )
    given = list(weights) or [1.0] * len(tokenizers)
    if len(given) != len(tokenizers) or not all(0 < one < float("inf") for one in given):
        raise ValueError(
            f"an ensemble needs one weight above 0 for each of its {len(tokenizers)} models, or "
            f"none, but got {list(weights)}"
        )
    return [one / sum(given) for one in given]


def check_requested(
    sentences: Sequence[str],
    prefixes: Sequence[str | None] | None,
    constraints: Sequence[Sequence[str] | None] | None,
    first_line: int,
) -> None:
    """Raise ValueError unless there is a prefix and a list of phrases for each sentence."""
    if prefixes is not None:
        check_is_list(prefixes, "prefixes")
        check_as_many(sentences, prefixes, "prefix")
    if constraints is not None:
        check_is_list(constraints, "constraints")
        check_as_many(sentences, constraints, "constraint list")
        for line, phrases in enumerate(constraints, start=first_line):
            if isinstance(phrases, str):
                raise ValueError(
                    f"line {line}: the constraints must be a list of phrases, but they are one "
                    f"string; put it into a list: [{phrases[:40]!r}]"
                )


def check_requests(
    requests: Sequence[Request],
    config: DecodingConfig,
    suppressed: Bool[np.ndarray, " V"],
    pieces: Sequence[str],
) -> None:
    """Raise ValueError for constraints in a search that compares nothing, and for a prefix or
    constraints with tokens that no translation may contain."""
    for request in requests:
        if request.phrases and config.strategy != "beam":
            raise ValueError(
                f"line {request.line}: constraints need strategy 'beam', not {config.strategy!r}"
            )
        for token in (*request.prefix, *itertools.chain(*request.phrases)):
            if suppressed[token]:
                raise ValueError(
                    f"line {request.line}: the prefix or a constraint needs token {token} "
                    f"({pieces[token]!r}), which no translation may contain (decoding.forbidden)"
                )


def check_as_many(sentences: Sequence[Any], given: Sequence[Any], name: str) -> None:
    """Raise ValueError unless there is one of `given` for each sentence."""
    if len(sentences) != len(given):
        raise ValueError(
            f"there must be one {name} for each source, but there are {len(sentences)} sources and "
            f"{len(given)} {name}{'es' if name.endswith('x') else 's'}"
        )


def check_vocabularies(model: Transformer, tokenizer: Tokenizer) -> None:
    """Raise ValueError unless the model's embeddings are those of the tokenizer's vocabularies."""
    facts = (
        ("source vocabulary size", model.source_vocab_size, tokenizer.source.size),
        ("target vocabulary size", model.target_vocab_size, tokenizer.target.size),
        ("BOS id", model.bos_id, tokenizer.target.bos_id),
    )
    for name, of_model, of_tokenizer in facts:
        if of_model != of_tokenizer:
            raise ValueError(
                f"model and tokenizer do not belong together: the {name} is {of_model} in the "
                f"model and {of_tokenizer} in the tokenizer; load both from the same workdir"
            )


def check_is_list(items: Sequence[Any], name: str) -> None:
    """Raise ValueError for a lone string: each of its characters would be taken for a sentence."""
    if isinstance(items, str):
        raise ValueError(
            f"{name} must be a list with one string a sentence, but it is one string; "
            f"put it into a list: [{items[:40]!r}]"
        )


def check_target_tokens(tokens: Sequence[int], vocab_size: int, eos_id: int, line: int) -> None:
    """Raise ValueError unless these are token ids of the vocabulary with one EOS, at the end."""
    if not all(0 <= token < vocab_size for token in tokens):
        raise ValueError(f"target {line}: token ids must be in 0..{vocab_size - 1}, got {tokens}")
    if eos_id not in tokens or tokens.index(eos_id) != len(tokens) - 1:
        raise ValueError(
            f"target {line}: the last token, and no other, must be EOS (id {eos_id}), got {tokens}"
        )


def check_finite(score: float, line: int) -> None:
    """Raise ValueError if the best score of a sentence is not a number."""
    if not np.isfinite(score):
        raise ValueError(
            f"line {line}: the model's score is {score}, so its parameters hold NaN or infinities: "
            f"the training has diverged; take an earlier checkpoint"
        )
