"""Token probabilities, attention, flags and unknown words of hypotheses; scores of given texts."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from flaxformer_mt.data.batching.batch import Example
from flaxformer_mt.data.sources.language_tags import split_tag
from flaxformer_mt.data.tokenization.vocabulary import Vocabulary
from flaxformer_mt.evaluation.quality_flags import Flag, check
from flaxformer_mt.translation.checks import check_target_tokens, check_text, expect
from flaxformer_mt.translation.requests import Request
from flaxformer_mt.translation.results import (
    NO_DETAILS,
    Hypothesis,
    PairScore,
    TokenDetails,
    distinct,
)
from flaxformer_mt.translation.searching import score_examples
from flaxformer_mt.translation.segments import truncate
from flaxformer_mt.translation.setup import Setup
from flaxformer_mt.translation.unknown_words import copy_unknown_words


def describe(
    requests: Sequence[Request],
    found: Sequence[Sequence[Hypothesis]],
    setup: Setup,
    *,
    with_details: bool,
) -> list[list[Hypothesis]]:
    """Returns the hypotheses with their unknown words, and flags and details if requested.

    Details, flags and the places of copied words need a second pass over the hypotheses. If neither
    details nor flags are requested, only requests with unknown words get this pass.
    """
    config = setup.config
    every = with_details or config.flag_faults
    bound = {r.line for r in requests if r.phrases or r.prefix.most_tokens}
    copying = [bool(r.unknown) and config.copy_unknown and r.line not in bound for r in requests]
    pairs = [
        (request, hypothesis)
        for request, hypotheses, copies in zip(requests, found, copying, strict=True)
        if every or copies
        for hypothesis in hypotheses
    ]
    scores = iter(
        score_examples(
            [Example(request.inputs, np.asarray(one.tokens, np.int32)) for request, one in pairs],
            [request.limit(config) for request, _ in pairs],
            setup,
            with_attention=True,
            lines=[request.line for request, _ in pairs],
        )
    )
    described: list[list[Hypothesis]] = []
    for request, given, copies in zip(requests, found, copying, strict=True):
        hypotheses = list(given)
        if every or copies:
            hypotheses = [
                _describe_one(request, one, copies, next(scores), setup) for one in hypotheses
            ]
        if copies and config.strategy != "sample":
            hypotheses = distinct(hypotheses)  # copies can make texts equal
        others: dict[str, Any] = {} if with_details else {"details": None}
        others["unknown"] = tuple(request.match_case(word.text) for word in request.unknown)
        texts = [request.before + one.text + request.after for one in hypotheses]
        described.append(
            [
                one._replace(text=request.match_case(text), **others)
                for one, text in zip(hypotheses, texts, strict=True)
            ]
        )
    return described


def _describe_one(
    request: Request, hypothesis: Hypothesis, copies: bool, score: PairScore, setup: Setup
) -> Hypothesis:
    """Returns a hypothesis with details, flags and, if `copies`, its unknown words."""
    config, target, text = setup.config, setup.tokenizer.target, hypothesis.text
    details, flags = score.details, None
    assert details is not None
    if config.flag_faults:
        at_limit = len(hypothesis.tokens) >= request.limit(config)
        num_unread = request.num_unread
        flags = _flags(
            request.inputs, text, details, setup, at_limit=at_limit, num_unread=num_unread
        )
    if copies:
        tokens, attention = hypothesis.tokens, details.attention
        text = copy_unknown_words(text, tokens, attention, request.unknown, target)
    return hypothesis._replace(text=text, details=details, flags=flags)


def _flags(
    inputs: np.ndarray,
    text: str,
    details: TokenDetails,
    setup: Setup,
    *,
    at_limit: bool,
    num_unread: int,
) -> tuple[Flag, ...]:
    """Returns the faults of a translation."""
    source = setup.tokenizer.source.detokenize(inputs)
    return check(
        split_tag(source)[1] if setup.tokenizer.languages else source,
        details.source_tokens,
        text,
        details.target_tokens,
        attention=details.attention,
        at_limit=at_limit,
        num_unread=num_unread,
        config=setup.config.guard,
    )


def describe_pair(
    example: Example, score: PairScore, num_unread: int, setup: Setup, *, with_details: bool
) -> PairScore:
    """Returns the score of a given translation, with flags, and with details or without them.

    `num_unread` tokens of the source were truncated.
    """
    if len(example.inputs) <= 1 and len(score.tokens) <= 1:  # only EOS on both sides
        score = PairScore(0.0, 0.0, [], [])
    details = score.details or NO_DETAILS
    if setup.config.flag_faults:
        text = setup.tokenizer.target.detokenize(score.tokens)
        flags = _flags(example.inputs, text, details, setup, at_limit=False, num_unread=num_unread)
        score = score._replace(flags=flags)
    return score._replace(details=details if with_details else None)


def make_example(
    source: str,
    target: Any,  # text or tokens
    line: int,
    setup: Setup,
) -> tuple[Example, int]:
    """Returns a pair as token ids, and how many source tokens are too many.

    It truncates both sides to their limits, with a warning.
    """
    read, vocabulary = setup.tokenizer.source, setup.tokenizer.target
    inputs = _tokenize(source, read)
    is_right = isinstance(target, str | Iterable) and not isinstance(target, bytes)
    expect(is_right, f"target {line}:", "a string or a list of token ids", target)
    if isinstance(target, str):
        check_text(target, f"target {line}:")
    targets = _tokenize(target, vocabulary) if isinstance(target, str) else list(target)
    if targets or len(inputs) > 1:  # the translation of a blank line has no tokens
        check_target_tokens(targets, vocabulary.size, vocabulary.eos_id, line)
    longest, max_target_length = setup.ensemble.max_source_length, setup.config.max_target_length
    example = Example(
        truncate(inputs, longest, read.eos_id, line=line, side="source"),
        truncate(targets, max_target_length, vocabulary.eos_id, line=line, side="target"),
    )
    return example, len(inputs) - len(example.inputs)


def _tokenize(text: str, vocabulary: Vocabulary) -> list[int]:
    """Returns the tokens of a text: only EOS for a blank one, even if the vocabulary has spaces."""
    return vocabulary.tokenize(text) if text.strip() else [vocabulary.eos_id]
