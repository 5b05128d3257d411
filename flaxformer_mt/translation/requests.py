"""The request of each segment, and the arrays of a group of requests for the device.

Arrays are made by `jax.device_put`: `jnp.asarray` would compile a program for every new shape.
"""

import contextlib
import itertools
import zlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float, Int, Integer

from flaxformer_mt.inference.grouping import Group
from flaxformer_mt.inference.programs import SearchInputs
from flaxformer_mt.search.constraints import make_banks
from flaxformer_mt.search.loop import SearchSettings, SentenceOptions
from flaxformer_mt.search.rules import (
    ForcedPrefix,
    MinLength,
    NoRepeatedNgram,
    RepetitionPenalty,
    Rule,
)
from flaxformer_mt.search.sampling import Sampler, WithoutReplacement
from flaxformer_mt.search.selection import Selection
from flaxformer_mt.translation.config import DecodingConfig
from flaxformer_mt.translation.setup import Setup
from flaxformer_mt.translation.unknown_words import UnknownWord
from flaxformer_mt.translation.word_ends import Prefix


class Request(NamedTuple):
    """One segment to translate, and the tokens that its translation must contain.

    A segment is a sentence, a whole line, or a piece of a sentence that is too long.
    """

    line: int
    inputs: Int[np.ndarray, " s"]
    """EOS at the end."""
    num_unread: int = 0
    """Source tokens that were cut off."""
    prefix: Prefix = Prefix()
    """The beginning of the target."""
    phrases: tuple[tuple[int, ...], ...] = ()
    """Phrases that the target contains, as tokens."""
    gap: str = ""
    """The white space between it and the segment before it in the line."""
    unknown: tuple[UnknownWord, ...] = ()
    """Source words that the model does not know."""
    before: str = ""
    """Punctuation marks at the beginning that the model does not know: also before the target."""
    after: str = ""
    """The same at the end."""
    in_upper_case: bool = False
    """Whether the segment was written in upper case. `inputs` are in lower case then."""

    def match_case(self, text: str) -> str:
        """Returns `text`, in upper case if the segment was written in upper case."""
        return text.upper() if self.in_upper_case else text

    @property
    def num_required(self) -> int:
        """The most target tokens of the prefix and all phrases, and EOS."""
        return self.prefix.most_tokens + sum(map(len, self.phrases)) + 1

    def limit(self, config: DecodingConfig) -> int:
        """Returns the most target tokens, EOS included: the usual limit, or more if required."""
        return max(config.length_limit(len(self.inputs)), self.num_required)

    def program_length(self, config: DecodingConfig, menu: Sequence[int]) -> int:
        """Returns the length of the shortest program in `menu` that fits source and target.

        Raises ValueError if the prefix and the phrases are longer than any translation may be.
        """
        for length in menu:
            if length >= len(self.inputs) and config.length_limit(length) >= self.limit(config):
                return length
        raise ValueError(
            f"line {self.line}: the prefix and the constraints take {self.num_required} tokens, "
            f"EOS included, but no translation here has more than {config.length_limit(menu[-1])}: "
            f"shorten them, or raise the limit (decoding.max_target_length is "
            f"{config.max_target_length}, target_length_ratio {config.target_length_ratio:g}, "
            f"target_length_margin {config.target_length_margin})"
        )

    @property
    def table_sizes(self) -> tuple[int, int, int]:
        """Sizes of the arrays for (prefix, phrases, tokens of a phrase), 0 for none."""
        longest = max(map(len, self.phrases), default=0)
        return (
            _padded_size(max(len(self.prefix.tokens), self.prefix.most_tokens > 0)),
            _padded_size(len(self.phrases)),
            _padded_size(longest),
        )


def _padded_size(size: int) -> int:
    """Returns the next power of 4, or 0: few sizes mean few programs."""
    padded = 4
    while padded < size:
        padded *= 4
    return padded if size else 0


def make_requests(
    segments: Sequence[Request],
    prefixes: Sequence[str | None],
    constraints: Sequence[Sequence[str]],
    setup: Setup,
    *,
    first_line: int,
) -> list[Request]:
    """Returns the requests of `segments` with the prefix and the phrases of their lines.

    In a line that was split, the prefix belongs to the first segment, and each phrase to the first
    segment that has its text, or else to the first.
    Raises ValueError for text that the target vocabulary cannot represent.
    """
    words, source = setup.words, setup.tokenizer.source
    requests: list[Request] = []
    for line, group in itertools.groupby(segments, lambda segment: segment.line):
        of_line = list(group)
        prefix = prefixes[line - first_line]
        if prefix:
            with _about(f"line {line}: the prefix"):
                of_line[0] = of_line[0]._replace(prefix=words.make_prefix(prefix))
        for phrase in constraints[line - first_line]:
            with _about(f"line {line}: the constraint"):
                tokens = words.tokenize_phrase(phrase)
            text = words.vocabulary.detokenize(tokens)  # normalised as the sources are
            having = (i for i, one in enumerate(of_line) if text in source.detokenize(one.inputs))
            index = next(having, 0)
            if tokens not in of_line[index].phrases:
                more = (*of_line[index].phrases, tokens)
                of_line[index] = of_line[index]._replace(phrases=more)
        requests += of_line
    return requests


def constrained_lines(
    prefixes: Sequence[str | None], constraints: Sequence[Sequence[str]], first_line: int
) -> set[int]:
    """Returns the numbers of the lines with a prefix or a constraint.

    They are not split into sentences: a prefix can be longer than the first sentence, and it is
    not known to which sentence a phrase belongs.
    """
    demands = zip(prefixes, constraints, strict=True)
    return {line for line, given in enumerate(demands, start=first_line) if any(given)}


@contextlib.contextmanager
def _about(what: str) -> Iterator[None]:
    """Puts `what` in front of the message of a ValueError."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{what} {error}") from error


def make_search_inputs(requests: Sequence[Request], group: Group, setup: Setup) -> SearchInputs:
    """Returns the arguments of the search of one group."""
    config, words, weights = setup.config, setup.words, setup.ensemble.weights
    target = words.vocabulary
    rows = group.rows
    prefix_size, num_phrases, phrase_size = requests[0].table_sizes
    prefix = None
    if prefix_size:
        tokens = np.zeros((rows, prefix_size), np.int32)
        for row, request in enumerate(requests):
            tokens[row, : len(request.prefix.tokens)] = request.prefix.tokens
        lengths = _per_row([len(request.prefix.tokens) for request in requests], rows)
        open_words = [request.prefix.open_word for request in requests]
        completion = words.completions.rows(open_words, setup.suppressed, rows)
        prefix = ForcedPrefix(
            jax.device_put(tokens),
            lengths,
            completion,
            _per_row([request.prefix.ends_word for request in requests], rows, np.bool_),
            jax.device_put(words.boundary[None]),
        )
    sampler = None
    if config.strategy != "beam":
        seeds = [_seed(config.seed, request.inputs) for request in requests]
        sampler = Sampler(
            seeds=_per_row(seeds, rows, np.uint32),
            temperature=_scalar(config.temperature),
            top_p=_scalar(config.top_p) if config.top_p < 1 else None,
            top_k=config.top_k,
        )
    selection: Selection | None = None
    if config.strategy == "sample_distinct":
        assert sampler is not None
        selection, sampler = WithoutReplacement(sampler), None
    if num_phrases:
        selection = make_banks(
            [request.phrases for request in requests],
            rows=rows,
            size=(num_phrases, phrase_size),
            whole_words=words.ends_inside_word,
            boundary=words.boundary,
            eos_id=target.eos_id,
        )
    limits = _per_row([request.limit(config) for request in requests], rows)
    rules = _rules(requests, rows, config, target.eos_id)
    # Greedy search compares no hypotheses.
    ranks_by_coverage = config.coverage_penalty and (config.beam_size > 1 or num_phrases)
    return SearchInputs(
        each=SentenceOptions(limits, rules, prefix, selection, sampler),
        settings=SearchSettings(
            suppressed=jax.device_put(setup.suppressed),
            length_penalty=_scalar(config.length_penalty),
            bos_id=target.bos_id,
            eos_id=target.eos_id,
            pad_id=target.pad_id,
            max_target_length=config.length_limit(group.length),
            length_normalization=config.length_normalization,
            forced_end=config.forced_end,
            renormalize=config.renormalize,
        ),
        weights=None if weights is None else jax.device_put(np.array(weights, np.float32)),
        coverage_penalty=_scalar(config.coverage_penalty) if ranks_by_coverage else None,
    )


def _rules(
    requests: Sequence[Request], rows: int, config: DecodingConfig, eos_id: int
) -> tuple[Rule, ...]:
    rules: list[Rule] = []
    if config.repetition_penalty != 1:
        rules.append(RepetitionPenalty(_scalar(config.repetition_penalty)))
    if config.no_repeat_ngram_size:
        rules.append(NoRepeatedNgram(config.no_repeat_ngram_size))
    if config.min_target_length or config.min_target_ratio:
        lengths = [config.min_length(len(request.inputs)) for request in requests]
        rules.append(MinLength(_per_row(lengths, rows), eos_id))
    return tuple(rules)


def _per_row(values: Sequence[int], rows: int, dtype: type = np.int32) -> Integer[Array, " B"]:
    """Returns one number for each row; 0 in unused rows."""
    padded = np.zeros(rows, dtype)
    padded[: len(values)] = values
    return jax.device_put(padded)


def _scalar(value: float) -> Float[Array, ""]:
    return jax.device_put(np.float32(value))


def _seed(seed: int, inputs: Int[np.ndarray, " s"]) -> int:
    """Returns the seed of a sentence's samples, which does not depend on other sentences."""
    return zlib.crc32(inputs.astype("<i4").tobytes(), seed & 0xFFFFFFFF)
