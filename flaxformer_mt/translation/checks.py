"""Checks of the input before anything is computed: each function raises ValueError."""

import itertools
import numbers
import os
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from upath import UPath

from flaxformer_mt.data.tokenization.tokenizer import Tokenizer
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.storage.paths import PathLike
from flaxformer_mt.translation.requests import Request
from flaxformer_mt.translation.setup import Setup

_SURROGATE = re.compile(r"[\ud800-\udfff]")


def check_ensemble(tokenizers: Sequence[Tokenizer], weights: Sequence[float] | None) -> list[float]:
    """Returns the weights with sum 1, equal ones if none are given.

    Raises ValueError unless all members have the same vocabularies and a weight above 0.
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
    given = list(() if weights is None else weights) or [1.0] * len(tokenizers)
    if len(given) != len(tokenizers) or not all(0 < weight < float("inf") for weight in given):
        raise ValueError(
            f"an ensemble needs one weight above 0 for each of its {len(tokenizers)} models, or "
            f"none, but got {given}"
        )
    return [weight / sum(given) for weight in given]


def check_vocabularies(model: Transformer, tokenizer: Tokenizer) -> None:
    """Raises ValueError unless the model was made for the vocabularies of the tokenizer."""
    facts = (
        ("source vocabulary size", model.source_vocab_size, tokenizer.source.size),
        ("target vocabulary size", model.target_vocab_size, tokenizer.target.size),
        ("BOS id", model.bos_id, tokenizer.target.bos_id),
    )
    for name, in_model, in_tokenizer in facts:
        if in_model != in_tokenizer:
            raise ValueError(
                f"model and tokenizer do not belong together: the {name} is {in_model} in the "
                f"model and {in_tokenizer} in the tokenizer; load both from the same workdir"
            )


def expect(is_right: Any, name: str, wanted: str, value: Any) -> None:
    """Raises ValueError for a wrong value; the message names the argument and what is expected."""
    if not is_right:
        given = f"{value!r:.60} ({type(value).__name__})"
        raise ValueError(f"{name} must be {wanted}, but it is {given}")


def as_checkpoint_name(checkpoint: Any) -> str:
    """Returns the name of a checkpoint, or the number of its step, as text.

    Raises ValueError for a value that is neither text nor an integer.
    """
    wanted = "'auto', 'averaged', 'best', 'last' or the number of a step"
    is_right = isinstance(checkpoint, str) or _is_integer(checkpoint)
    expect(is_right, "checkpoint", wanted, checkpoint)
    return str(checkpoint)


def as_path(workdir: Any) -> PathLike:
    """Returns the path of a directory. Raises ValueError for a value that is not a path."""
    is_path = isinstance(workdir, str | os.PathLike | UPath) and str(workdir)
    expect(is_path, "workdir", "the path of the directory of a trained model", workdir)
    return workdir


def _is_integer(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def as_list(items: Any, name: str) -> list[Any]:
    """Returns the items of a list, generator, array or open file.

    Raises ValueError for a single string, whose characters would be taken for sentences, and for an
    object that is no collection.
    """
    wanted = "a list with one string a sentence"
    if isinstance(items, str):
        raise ValueError(
            f"{name} must be {wanted}, but it is one string; put it into a list: [{items[:40]!r}]"
        )
    is_scalar = isinstance(items, bytes) or getattr(items, "ndim", 1) == 0
    expect(isinstance(items, Iterable) and not is_scalar, name, wanted, items)
    return list(items)


def as_lists(sentences: Any, *others: Any) -> list[Any]:
    """Returns lists of one item if the sentences are one string, else all arguments as they are."""
    if not isinstance(sentences, str):
        return [sentences, *others]
    return [[sentences], *(None if x is None else [x] for x in others)]


def as_sentences(sentences: Any, name: str = "sentences", *, first_line: int = 1) -> list[str]:
    """Returns the sentences, without the line break at the end of each line of a file.

    Raises ValueError for a sentence that is no string, and like `as_list`.
    """
    expect(_is_integer(first_line), "first_line", "a line number", first_line)
    lines = as_list(sentences, name)
    for line, text in enumerate(lines, start=first_line):
        check_text(text, f"line {line}: each of the {name}")
    return [text.removesuffix("\n") for text in lines]


def check_text(text: Any, name: str) -> None:
    """Raises ValueError unless `text` is a string that can be encoded."""
    expect(isinstance(text, str), name, "a string", text)
    expect(not _SURROGATE.search(text), name, "a string without surrogates", text)


def as_prefixes(prefixes: Any, num_lines: int, first_line: int) -> list[str | None]:
    """Returns one prefix for each line, None instead of a blank one.

    Raises ValueError if their number differs, or for a prefix that is no string.
    """
    if prefixes is None:
        return [None] * num_lines
    prefixes = as_list(prefixes, "prefixes")
    check_same_number(num_lines, prefixes, "prefix")
    for line, prefix in enumerate(prefixes, start=first_line):
        is_right = isinstance(prefix, str | None)
        expect(is_right, f"line {line}: the prefix", "a string or None", prefix)
        check_text(prefix or "", f"line {line}: the prefix")
    # A line of a file ends with a line break, which is no part of the prefix.
    return [p.removesuffix("\n") if p and p.strip() else None for p in prefixes]


def as_constraints(constraints: Any, num_lines: int, first_line: int) -> list[list[str]]:
    """Returns the phrases of each line, without blank ones.

    Raises ValueError if their number differs, or for an item that is no list of strings.
    """
    if constraints is None:
        return [[]] * num_lines
    constraints = as_list(constraints, "constraints")
    check_same_number(num_lines, constraints, "constraint list")
    checked: list[list[str]] = []
    wanted = "a list of phrases, such as ['a phrase']"
    for line, given in enumerate(constraints, start=first_line):
        is_list = isinstance(given, Iterable) and not isinstance(given, str)
        phrases = list(given) if is_list else []
        is_right = given is None or (is_list and all(isinstance(p, str) for p in phrases))
        expect(is_right, f"line {line}: the constraints", wanted, given)
        for phrase in phrases:
            check_text(phrase, f"line {line}: a phrase of the constraints")
        checked.append([phrase for phrase in phrases if phrase.strip()])
    return checked


def check_same_number(num_lines: int, given: Sequence[Any], name: str) -> None:
    """Raises ValueError unless there is one of `given` for each line."""
    if num_lines != len(given):
        raise ValueError(
            f"there must be one {name} for each source, but there are {num_lines} sources and "
            f"{len(given)} {name}{'es' if name.endswith('x') else 's'}"
        )


def check_requests(requests: Sequence[Request], setup: Setup) -> None:
    """Raises ValueError for a request that the search cannot fulfil.

    Such requests have constraints without a beam search, or a prefix or constraints with tokens
    that no translation may contain.
    """
    config, words, suppressed = setup.config, setup.words, setup.suppressed
    for request in requests:
        if request.phrases and config.strategy != "beam":
            raise ValueError(
                f"line {request.line}: constraints need strategy 'beam', not {config.strategy!r}"
            )
        open_word = request.prefix.open_word
        if open_word and not words.completions.ways(open_word, suppressed):
            raise ValueError(
                f"line {request.line}: the prefix needs tokens for {open_word!r}, which no "
                "translation may contain (decoding.forbidden)"
            )
        for token in (*request.prefix.tokens, *itertools.chain(*request.phrases)):
            if suppressed[token]:
                piece = words.pieces[token]
                raise ValueError(
                    f"line {request.line}: the prefix or a constraint needs token {token} "
                    f"({piece!r}), which no translation may contain (decoding.forbidden)"
                )


def check_target_tokens(tokens: Sequence[int], vocab_size: int, eos_id: int, line: int) -> None:
    """Raises ValueError unless these are token ids of the vocabulary with one EOS, at the end."""
    is_id = (isinstance(token, int | np.integer) and 0 <= token < vocab_size for token in tokens)
    if not all(is_id):
        raise ValueError(f"target {line}: token ids must be in 0..{vocab_size - 1}, got {tokens}")
    if eos_id not in tokens or tokens.index(eos_id) != len(tokens) - 1:
        raise ValueError(
            f"target {line}: the last token, and no other, must be EOS (id {eos_id}), got {tokens}"
        )


def check_finite(score: float, line: int) -> None:
    """Raises ValueError if the best score of a sentence is not finite."""
    if not np.isfinite(score):
        raise ValueError(
            f"line {line}: the model's score is {score}, so its parameters hold NaN or infinities: "
            f"the training has diverged; take an earlier checkpoint"
        )
