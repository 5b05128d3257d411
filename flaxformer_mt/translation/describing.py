"""Token probabilities, attention, flags and unknown words of hypotheses; scores of given texts."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool

from flaxformer_mt.data.batching.batch import Example
from flaxformer_mt.data.tokenization.tokenizer import Tokenizer
from flaxformer_mt.data.tokenization.vocabulary import Vocabulary
from flaxformer_mt.evaluation.quality_flags import check
from flaxformer_mt.translation.checks import check_is_target, check_target_tokens
from flaxformer_mt.translation.config import DecodingConfig
from flaxformer_mt.translation.ranking import distinct
from flaxformer_mt.translation.requests import Request
from flaxformer_mt.translation.results import NO_DETAILS, Hypothesis, PairScore, TokenDetails
from flaxformer_mt.translation.scoring import TargetScore, score_examples
from flaxformer_mt.translation.searching import Ensemble
from flaxformer_mt.translation.segments import truncate
from flaxformer_mt.translation.unknown_words import copy_unknown_words


def describe(
    requests: Sequence[Request],
    found: Sequence[Sequence[Hypothesis]],
    config: DecodingConfig,
    ensemble: Ensemble,
    tokenizer: Tokenizer,
    suppressed: Bool[np.ndarray, " V"],
    *,
    with_details: bool,
) -> list[list[Hypothesis]]:
    """Returns the hypotheses with their unknown words, and flags and details if requested.

    Details, flags and the places of copied words need a second pass over the hypotheses. Without
    details and flags, only those of requests with unknown words take it.
    """
    described = [list(hypotheses) for hypotheses in found]
    every = with_details or config.flag_faults
    chosen = [i for i, r in enumerate(requests) if every or (r.unknown and config.copy_unknown)]
    pairs = [(requests[i], one) for i in chosen for one in found[i]]
    all_details = _details_of(pairs, config, ensemble, tokenizer, suppressed)
    in_order = iter(
        _describe_one(*pair, details, config, tokenizer)
        for pair, details in zip(pairs, all_details, strict=True)
    )
    for i in chosen:
        described[i] = [next(in_order) for _ in found[i]]
        if requests[i].unknown and config.strategy != "sample":
            described[i] = distinct(described[i])  # copies can make texts equal
    for i, request in enumerate(requests):
        unknown = tuple(word.text for word in request.unknown)
        details = {} if with_details else {"details": None}
        described[i] = [one._replace(unknown=unknown, **details) for one in described[i]]
    return described


def _details_of(
    pairs: Sequence[tuple[Request, Hypothesis]],
    config: DecodingConfig,
    ensemble: Ensemble,
    tokenizer: Tokenizer,
    suppressed: Bool[np.ndarray, " V"],
) -> list[TokenDetails]:
    """Returns the details of hypotheses, by a second pass over them."""
    examples = [Example(r.inputs, np.asarray(h.tokens, np.int32)) for r, h in pairs]
    limits = [request.limit(config) for request, _ in pairs]
    scores = score_examples(examples, limits, config, ensemble, suppressed, with_attention=True)
    return make_details(examples, scores, tokenizer)


def _describe_one(
    request: Request,
    hypothesis: Hypothesis,
    details: TokenDetails,
    config: DecodingConfig,
    tokenizer: Tokenizer,
) -> Hypothesis:
    """Returns a hypothesis with details, flags and copies of unknown words."""
    flags, text = None, hypothesis.text
    if config.flag_faults:
        flags = check(
            tokenizer.source.detokenize(request.inputs),
            details.source_tokens,
            text,
            details.target_tokens,
            attention=details.attention,
            at_limit=len(hypothesis.tokens) >= request.limit(config),
            num_unread=request.num_unread,
            config=config.guard,
        )
    if request.unknown and config.copy_unknown:
        tokens, attention = hypothesis.tokens, details.attention
        text = copy_unknown_words(text, tokens, attention, request.unknown, tokenizer.target)
    return hypothesis._replace(text=text, details=details, flags=flags)


def make_details(
    examples: Sequence[Example], scores: Sequence[TargetScore], tokenizer: Tokenizer
) -> list[TokenDetails]:
    """Returns the details of scored pairs. The scores must have attention."""
    source, target = tokenizer.source.pieces, tokenizer.target.pieces
    return [
        TokenDetails(
            source_tokens=[source[token] for token in example.inputs],
            target_tokens=[target[token] for token in example.targets],
            token_log_probs=score.token_log_probs,
            attention=np.asarray(score.attention),
        )
        for example, score in zip(examples, scores, strict=True)
    ]


def describe_pairs(
    examples: Sequence[Example],
    scores: Sequence[TargetScore],
    config: DecodingConfig,
    tokenizer: Tokenizer,
    *,
    with_details: bool,
) -> list[PairScore]:
    """Returns the scores of given translations, with details and flags if requested."""
    results = []
    for example, score in zip(examples, scores, strict=True):
        tokens, log_probs = example.targets.tolist(), score.token_log_probs
        result = PairScore(score.score, sum(log_probs), tokens, log_probs)
        details = NO_DETAILS
        if len(example.inputs) <= 1 and len(tokens) <= 1:  # only EOS on both sides
            result = PairScore(0.0, 0.0, [], [])
        elif score.attention is not None:
            (details,) = make_details([example], [score], tokenizer)
        if config.flag_faults:
            flags = check(
                tokenizer.source.detokenize(example.inputs),
                details.source_tokens,
                tokenizer.target.detokenize(tokens),
                details.target_tokens,
                attention=details.attention,
                config=config.guard,
            )
            result = result._replace(flags=flags)
        results.append(result._replace(details=details) if with_details else result)
    return results


def make_example(
    source: str,
    target: Any,  # text or tokens
    line: int,
    config: DecodingConfig,
    tokenizer: Tokenizer,
    max_source_length: int,
) -> Example:
    """Returns a pair as token ids, truncated to the limits with a warning."""
    inputs = _tokenize(source, tokenizer.source)
    vocabulary = tokenizer.target
    check_is_target(target, line)
    targets = _tokenize(target, vocabulary) if isinstance(target, str) else list(target)
    if targets or len(inputs) > 1:  # the translation of a blank line has no tokens
        check_target_tokens(targets, vocabulary.size, vocabulary.eos_id, line)
    source_eos_id, max_target_length = tokenizer.source.eos_id, config.max_target_length
    return Example(
        truncate(inputs, max_source_length, source_eos_id, line=line, side="source"),
        truncate(targets, max_target_length, vocabulary.eos_id, line=line, side="target"),
    )


def _tokenize(text: str, vocabulary: Vocabulary) -> list[int]:
    """Returns the tokens of a text: only EOS for a blank one, even if the vocabulary has spaces."""
    return vocabulary.tokenize(text) if text.strip() else [vocabulary.eos_id]
