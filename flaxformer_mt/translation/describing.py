"""Token probabilities, attention, flags and unknown words of hypotheses; scores of given texts."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from flaxformer_mt.data.batching.batch import Example
from flaxformer_mt.data.sources.language_tags import split_tag
from flaxformer_mt.data.tokenization.tokenizer import Tokenizer
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
from flaxformer_mt.translation.searching import TargetScore, score_examples
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
    chosen = [i for i, copies in enumerate(copying) if every or copies]
    pairs = [(requests[i], one, copying[i]) for i in chosen for one in found[i]]
    examples = [Example(r.inputs, np.asarray(h.tokens, np.int32)) for r, h, _ in pairs]
    limits = [request.limit(config) for request, *_ in pairs]
    lines = [request.line for request, *_ in pairs]
    scores = score_examples(examples, limits, setup, with_attention=True, lines=lines)
    in_order = (
        _describe_one(*pair, make_details(example, score, setup.tokenizer), setup)
        for pair, example, score in zip(pairs, examples, scores, strict=True)
    )
    described = [list(hypotheses) for hypotheses in found]
    for i in chosen:
        described[i] = [next(in_order) for _ in found[i]]
        if copying[i] and config.strategy != "sample":
            described[i] = distinct(described[i])  # copies can make texts equal
    for i, request in enumerate(requests):
        unknown = tuple(word.text for word in request.unknown)
        details = {} if with_details else {"details": None}
        described[i] = [one._replace(unknown=unknown, **details) for one in described[i]]
    return described


def _describe_one(
    request: Request, hypothesis: Hypothesis, copies: bool, details: TokenDetails, setup: Setup
) -> Hypothesis:
    """Returns a hypothesis with details, flags and, if `copies`, its unknown words."""
    config, target, text = setup.config, setup.tokenizer.target, hypothesis.text
    flags = None
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


def make_details(example: Example, score: TargetScore, tokenizer: Tokenizer) -> TokenDetails:
    """Returns the details of a scored pair. The score must have attention."""
    source, target = tokenizer.source.pieces, tokenizer.target.pieces
    return TokenDetails(
        source_tokens=[source[token] for token in example.inputs],
        target_tokens=[target[token] for token in example.targets],
        token_log_probs=score.token_log_probs,
        attention=np.asarray(score.attention),
    )


def describe_pair(
    example: Example, score: TargetScore, num_unread: int, setup: Setup, *, with_details: bool
) -> PairScore:
    """Returns the score of a given translation, with details and flags if requested.

    `num_unread` tokens of the source were truncated.
    """
    tokens, log_probs = example.targets.tolist(), score.token_log_probs
    result = PairScore(score.score, sum(log_probs), tokens, log_probs)
    details = NO_DETAILS
    if len(example.inputs) <= 1 and len(tokens) <= 1:  # only EOS on both sides
        result = PairScore(0.0, 0.0, [], [])
    elif score.attention is not None:
        details = make_details(example, score, setup.tokenizer)
    if setup.config.flag_faults:
        text = setup.tokenizer.target.detokenize(tokens)
        flags = _flags(example.inputs, text, details, setup, at_limit=False, num_unread=num_unread)
        result = result._replace(flags=flags)
    return result._replace(details=details) if with_details else result


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
