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
) -> list[list[Hypothesis]]:
    """Returns the hypotheses with details, and with flags if the config asks for them."""
    pairs = [(r, h) for r, hypotheses in zip(requests, found, strict=True) for h in hypotheses]
    examples = [Example(r.inputs, np.asarray(h.tokens, np.int32)) for r, h in pairs]
    limits = [request.limit(config) for request, _ in pairs]
    scores = score_examples(examples, limits, config, ensemble, suppressed, with_attention=True)
    described = []
    for (request, hypothesis), details in zip(
        pairs, make_details(examples, scores, tokenizer), strict=True
    ):
        flags = None
        if config.flag_faults:
            flags = check(
                tokenizer.source.detokenize(request.inputs),
                details.source_tokens,
                hypothesis.text,
                details.target_tokens,
                attention=details.attention,
                at_limit=len(hypothesis.tokens) >= request.limit(config),
                num_unread=request.num_unread,
                config=config.guard,
            )
        described.append(hypothesis._replace(details=details, flags=flags))
    in_order = iter(described)
    return [[next(in_order) for _ in hypotheses] for hypotheses in found]


def show_unknown_words(
    requests: Sequence[Request],
    found: Sequence[Sequence[Hypothesis]],
    config: DecodingConfig,
    ensemble: Ensemble,
    tokenizer: Tokenizer,
    suppressed: Bool[np.ndarray, " V"],
) -> list[list[Hypothesis]]:
    """Returns the hypotheses with their unknown words, which are copied if the config says so.

    The places of copies need attention: a second pass over the hypotheses of these requests alone.
    """
    shown = [list(hypotheses) for hypotheses in found]
    some = [index for index, request in enumerate(requests) if request.unknown]
    for index in some:
        texts = tuple(word.text for word in requests[index].unknown)
        shown[index] = [one._replace(unknown=texts) for one in shown[index]]
    if not some or not config.copy_unknown:
        return shown
    given = ([values[index] for index in some] for values in (requests, shown))
    described = describe(*given, config, ensemble, tokenizer, suppressed)
    for index, hypotheses in zip(some, described, strict=True):
        words = requests[index].unknown
        for number, (one, details) in enumerate(
            zip(shown[index], (h.details or NO_DETAILS for h in hypotheses), strict=True)
        ):
            text = copy_unknown_words(
                one.text, one.tokens, details.attention, words, tokenizer.target
            )
            shown[index][number] = one._replace(text=text)
    return shown


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
