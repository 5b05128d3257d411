"""What is asked for each sentence, and the arrays in which a batch of it reaches the device.

By `jax.device_put`: `jnp.asarray` compiles a program for every new shape that it is given.
"""

import zlib
from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Integer

from flaxformer_mt.data.batching.batch import Batch, BatchShape, Example, pad_batch
from flaxformer_mt.data.tokenization.tokenizer import Tokenizer
from flaxformer_mt.inference.continuous_batching import SentenceOptions
from flaxformer_mt.inference.grouping import Group
from flaxformer_mt.inference.programs import SearchInputs
from flaxformer_mt.search.config import DecodingConfig
from flaxformer_mt.search.constraints import Banks, make_banks
from flaxformer_mt.search.rules import (
    ForcedPrefix,
    MinLength,
    NoRepeatedNgram,
    RepetitionPenalty,
    Rule,
)
from flaxformer_mt.search.sampling import Sampler, WithoutReplacement
from flaxformer_mt.search.selection import Selection
from flaxformer_mt.translation.word_ends import TargetWords


class Request(NamedTuple):
    """One segment to translate, and what its translation must have."""

    line: int
    inputs: Int[np.ndarray, " s"]
    """EOS at the end."""
    num_unread: int = 0
    """Source tokens that were cut off."""
    prefix: tuple[int, ...] = ()
    """Target tokens that the translation begins with."""
    phrases: tuple[tuple[int, ...], ...] = ()
    """Target tokens of phrases that it contains."""

    @property
    def room(self) -> int:
        """Target tokens that all this needs, EOS included."""
        return len(self.prefix) + sum(map(len, self.phrases)) + 1

    def limit(self, config: DecodingConfig) -> int:
        """The most target tokens, EOS included: as always, or more if what is asked needs it."""
        return max(config.length_limit(len(self.inputs)), self.room)

    def program_length(self, config: DecodingConfig, menu: Sequence[int]) -> int:
        """The length of the shortest program that holds source and target.

        Raises ValueError if what must appear is longer than any translation may be.
        """
        for length in menu:
            if length >= len(self.inputs) and config.length_limit(length) >= self.limit(config):
                return length
        raise ValueError(
            f"line {self.line}: the prefix and the constraints take {self.room} tokens, EOS "
            f"included, but no translation here has more than {config.length_limit(menu[-1])}: "
            f"shorten them, or raise what limits it (decoding.max_target_length is "
            f"{config.max_target_length}, target_length_ratio {config.target_length_ratio:g}, "
            f"target_length_margin {config.target_length_margin})"
        )

    @property
    def kind(self) -> tuple[int, int, int]:
        """The sizes of its tables: (prefix, phrases, tokens of a phrase), 0 for none."""
        longest = max(map(len, self.phrases), default=0)
        return _padded(len(self.prefix)), _padded(len(self.phrases)), _padded(longest)


def _padded(size: int) -> int:
    """A power of 4, or 0: few sizes mean few programs."""
    padded = 4
    while padded < size:
        padded *= 4
    return padded if size else 0


def make_batch(requests: Sequence[Request], group: Group) -> Batch:
    """The sources; rows left over are empty."""
    examples = [Example(request.inputs, np.zeros(0, np.int32)) for request in requests]
    return pad_batch(examples, BatchShape(group.rows, group.length, 1))


def make_search_inputs(
    requests: Sequence[Request],
    group: Group,
    config: DecodingConfig,
    *,
    suppressed: Bool[np.ndarray, " V"],
    words: TargetWords,
    weights: Sequence[float] | None,
) -> SearchInputs:
    """All that the search shall respect, for the requests of one group."""
    vocabulary, rows = words.vocabulary, group.rows
    prefix_size, num_phrases, phrase_size = requests[0].kind
    limits = _column([request.limit(config) for request in requests], rows)
    rules: list[Rule] = []
    if config.repetition_penalty != 1:
        rules.append(RepetitionPenalty(_number(config.repetition_penalty)))
    if config.no_repeat_ngram_size:
        rules.append(NoRepeatedNgram(config.no_repeat_ngram_size))
    if config.min_target_length or config.min_target_ratio:
        least = [config.least_length(len(request.inputs)) for request in requests]
        rules.append(MinLength(_column(least, rows), vocabulary.eos_id))
    prefix = None
    if prefix_size:
        tokens = np.zeros((rows, prefix_size), np.int32)
        for row, request in enumerate(requests):
            tokens[row, : len(request.prefix)] = request.prefix
        lengths = _column([len(one.prefix) for one in requests], rows)
        prefix = ForcedPrefix(jax.device_put(tokens), lengths)
    sampler = None
    if config.strategy != "beam":
        sampler = Sampler(
            seeds=_column([_seed(config.seed, one.inputs) for one in requests], rows, np.uint32),
            temperature=_number(config.temperature),
            top_p=_number(config.top_p) if config.top_p < 1 else None,
            top_k=config.top_k,
        )
    selection: Selection | None = None
    if config.strategy == "sample_distinct":
        assert sampler is not None
        selection, sampler = WithoutReplacement(sampler), None
    if num_phrases:
        selection = _banks(requests, rows, (num_phrases, phrase_size), words)
    # Greedy search ranks nothing.
    ranks_by_coverage = config.coverage_penalty and (config.beam_size > 1 or num_phrases)
    return SearchInputs(
        each=SentenceOptions(limits, tuple(rules), prefix, selection, sampler),
        suppressed=jax.device_put(suppressed),
        length_penalty=_number(config.length_penalty),
        weights=None if weights is None else jax.device_put(np.array(weights, np.float32)),
        coverage_penalty=_number(config.coverage_penalty) if ranks_by_coverage else None,
    )


def _banks(
    requests: Sequence[Request], rows: int, size: tuple[int, int], words: TargetWords
) -> Banks:
    return make_banks(
        [request.phrases for request in requests],
        rows=rows,
        size=size,
        whole_words=words.ends_inside_word,
        boundary=words.boundary,
        eos_id=words.vocabulary.eos_id,
    )


def _column(values: Sequence[int], rows: int, dtype: type = np.int32) -> Integer[Array, " B"]:
    """One number for each row; 0 in rows left over."""
    column = np.zeros(rows, dtype)
    column[: len(values)] = values
    return jax.device_put(column)


def _number(value: float) -> Float[Array, ""]:
    return jax.device_put(np.float32(value))


def _seed(seed: int, inputs: Int[np.ndarray, " s"]) -> int:
    """Of the draws for a sentence: the same wherever it stands."""
    return zlib.crc32(inputs.astype("<i4").tobytes(), seed & 0xFFFFFFFF)


def suppressed_tokens(tokenizer: Tokenizer, config: DecodingConfig) -> Bool[np.ndarray, " V"]:
    """True for tokens that no translation may contain: padding, BOS, the unknown word, and more:
    tags of languages, and what the config forbids.

    Raises ValueError for a forbidden token that is EOS or none, and if the beam is wider than what
    remains.
    """
    target = tokenizer.target
    for token in config.forbidden:
        if not 0 <= token < target.size or token == target.eos_id:
            raise ValueError(
                f"decoding.forbidden must hold ids of target tokens (0..{target.size - 1}) other "
                f"than EOS ({target.eos_id}), but it holds {token}"
            )
    suppressed = np.zeros(target.size, bool)
    suppressed[[target.pad_id, target.bos_id]] = not config.allow_special
    suppressed[target.unk_id] = not config.allow_unknown
    if tokenizer.needs_tag:  # Marian's own search would let its tags appear
        suppressed[list(tokenizer.target_tags)] = not config.allow_special
    suppressed[list(config.forbidden)] = True
    suppressed[target.eos_id] = False  # where it is padding or BOS as well
    num_allowed = int(np.count_nonzero(~suppressed))
    if config.beam_size > num_allowed and not config.draws:
        raise ValueError(
            f"beam_size is {config.beam_size}, but the target vocabulary has only {num_allowed} "
            f"tokens to choose from: the beam must not be wider than that"
        )
    return suppressed
