"""Text in, text out: the one place where search, model and tokenizer meet.

translator = Translator.load("workdir")
translator.translate(["A dog runs ."])[0][0].text
"""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Int

from flaxformer_mt.data.batch import BatchShape, Example, pad_batch
from flaxformer_mt.data.tokenizer import Tokenizer
from flaxformer_mt.data.vocabulary import Vocabulary
from flaxformer_mt.decoding.config import DecodingConfig
from flaxformer_mt.decoding.grouping import Group, group_by_length, length_menu, run_ahead
from flaxformer_mt.decoding.programs import SearchProgram, score_batch, search_batch
from flaxformer_mt.decoding.segments import Segment, segment_lines, truncate
from flaxformer_mt.decoding.step import Hypotheses
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.training.checkpoint import load_model


class Hypothesis(NamedTuple):
    """One translation of one sentence."""

    text: str
    tokens: list[int]
    """EOS at the end; empty for a blank line."""
    score: float
    """Log-probability / length penalty. Natural logarithm; comparable within one sentence."""


class PairScore(NamedTuple):
    """What the model thinks of a given translation."""

    score: float
    """As in `Hypothesis`: log_prob / length penalty."""
    log_prob: float
    tokens: list[int]
    token_log_probs: list[float]
    """One for each of `tokens`."""


NO_TOKENS = PairScore(0.0, 0.0, [], [])


class Translator:
    """Translates and scores sentences; made once, used often. Compiles on first use."""

    def __init__(
        self,
        model: Transformer,
        params: Mapping[str, Any],
        tokenizer: Tokenizer,
        config: DecodingConfig | None = None,
        *,
        max_source_length: int = 256,
        checkpoint: str = "",
    ) -> None:
        """Join a model, its parameters and its tokenizer.

        `checkpoint` says where the parameters come from: "averaged" or the number of a step.
        Raises ValueError if the tokenizer is not the one that the model was made for.
        """
        if max_source_length < 2:
            raise ValueError(
                f"max_source_length must be at least 2 (a token and EOS), got {max_source_length}"
            )
        check_vocabularies(model, tokenizer)
        self.model, self.params, self.tokenizer = model, params, tokenizer
        self.checkpoint = checkpoint
        self.config = config or DecodingConfig()
        self.max_source_length = max_source_length

    @classmethod
    def load(cls, workdir: str | os.PathLike[str], *, which: str = "auto") -> "Translator":
        """The translator that the training in `workdir` made.

        `which` names its parameters: "averaged", "best", "last", the number of a step, or "auto":
        the first of those three that there is.
        Raises FileNotFoundError or ValueError, saying what is missing or wrong in `workdir`.
        """
        loaded = load_model(workdir, which=which)
        return cls(
            loaded.model,
            loaded.params,
            loaded.tokenizer,
            loaded.config.decoding,
            max_source_length=loaded.config.data.max_source_length,
            checkpoint=loaded.checkpoint,
        )

    def translate(
        self,
        sentences: Sequence[str],
        *,
        beam_size: int | None = None,
        length_penalty: float | None = None,
        num_hypotheses: int | None = None,
        first_line: int = 1,
    ) -> list[list[Hypothesis]]:
        """Translate every sentence; what is not given is taken from the config.

        Returns one list for each sentence, in the order of `sentences`: up to `num_hypotheses`
        different hypotheses, best first. A blank sentence has one: "", with score 0. What is found
        for a sentence depends on no other sentence. A sentence that is too long is split or
        truncated, with a warning that gives its number, counted from `first_line`.

        Raises ValueError for an impossible beam, and if the model's scores are not finite.
        """
        check_is_list(sentences, "sentences")
        config = _replace_given(
            self.config,
            beam_size=beam_size,
            length_penalty=length_penalty,
            num_hypotheses=num_hypotheses,
        )
        segments = segment_lines(
            sentences,
            self.tokenizer.source,
            max_source_length=self.max_source_length,
            over_long=config.over_long,
            first_line=first_line,
        )
        pieces: list[list[list[Hypothesis]]] = [[] for _ in sentences]
        for segment, hypotheses in zip(segments, self._search(segments, config), strict=True):
            pieces[segment.line - first_line].append(hypotheses)
        return [self._join(of_line) for of_line in pieces]

    def score(
        self,
        sources: Sequence[str],
        targets: Sequence[str | Sequence[int]],
        *,
        length_penalty: float | None = None,
    ) -> list[PairScore]:
        """The score that the model gives to each target as a translation of its source.

        A target is text, or tokens with EOS at the end (as in `Hypothesis.tokens`): a text can be
        cut into tokens in more than one way, and only the tokens that the search chose have exactly
        the score that it reported. What is longer than the limits is truncated, with a warning.
        A pair that is blank on both sides has score 0 and no tokens, as `translate` reports; one
        that is blank on one side is scored like any other, that side being EOS alone.

        Raises ValueError for lists of unequal length and for impossible tokens.
        """
        check_is_list(sources, "sources")
        check_is_list(targets, "targets")
        if len(sources) != len(targets):
            raise ValueError(
                f"score needs one target for each source, but there are {len(sources)} sources and "
                f"{len(targets)} targets"
            )
        config = _replace_given(self.config, length_penalty=length_penalty)
        pairs = enumerate(zip(sources, targets, strict=True), start=1)
        examples = [self._example(source, target, line) for line, (source, target) in pairs]
        found = zip(examples, self._score(examples, config), strict=True)
        return [NO_TOKENS if is_blank(example) else score for example, score in found]

    def _search(
        self, segments: Sequence[Segment], config: DecodingConfig
    ) -> list[list[Hypothesis]]:
        """The hypotheses of every segment, in order."""
        suppressed = suppressed_tokens(self.tokenizer, config)
        groups = group_by_length(
            [len(segment.inputs) for segment in segments],
            length_menu(self.max_source_length),
            tokens_per_batch=config.tokens_per_batch,
            max_rows=config.max_rows_per_batch,
        )

        def dispatch(group: Group) -> Hypotheses:
            sources = [segments[place].inputs for place in group.members]
            return self._dispatch_search(sources, group, suppressed, config)

        results: list[list[Hypothesis]] = [[] for _ in segments]
        for group, found in run_ahead(groups, dispatch):
            found = jax.device_get(found)
            for row, place in enumerate(group.members):
                check_finite(float(found.scores[row, 0]), segments[place].line)
                results[place] = self._hypotheses(found, row)
        return results

    def _dispatch_search(
        self,
        sources: Sequence[Int[np.ndarray, "_"]],
        group: Group,
        suppressed: Bool[np.ndarray, " V"],
        config: DecodingConfig,
    ) -> Hypotheses:
        """Start the search for one group; rows left over have limit 0 and end at once."""
        no_target = np.zeros(0, np.int32)
        examples = [Example(source, no_target) for source in sources]
        batch = pad_batch(examples, BatchShape(group.rows, group.length, 1))
        limits = np.zeros(group.rows, np.int32)
        limits[: len(sources)] = [config.length_limit(len(source)) for source in sources]
        target = self.tokenizer.target
        program = SearchProgram(
            model=self.model,
            beam_size=config.beam_size,
            num_hypotheses=config.num_hypotheses,
            max_target_length=config.length_limit(group.length),
            bos_id=target.bos_id,
            eos_id=target.eos_id,
            pad_id=target.pad_id,
            length_normalization=config.length_normalization,
            early_stopping=config.early_stopping,
            forced_end=config.forced_end,
            renormalize=config.renormalize,
        )
        return search_batch(
            self.params,
            batch.inputs,
            batch.inputs_positions,
            batch.inputs_segment_ids,
            limits,
            suppressed,
            np.float32(config.length_penalty),
            program=program,
        )

    def _hypotheses(self, found: Hypotheses, row: int) -> list[Hypothesis]:
        """Those of one row of a fetched batch; score -inf marks an empty place."""
        places = zip(found.tokens[row], found.scores[row], found.lengths[row], strict=True)
        return [
            self._hypothesis(tokens[:length].tolist(), float(score))
            for tokens, score, length in places
            if score > -np.inf
        ]

    def _hypothesis(self, tokens: list[int], score: float) -> Hypothesis:
        """With its text: one line of it, for tokens can spell line breaks too."""
        text = " ".join(self.tokenizer.target.detokenize(tokens).splitlines())
        return Hypothesis(text, tokens, score)

    def _join(self, pieces: Sequence[Sequence[Hypothesis]]) -> list[Hypothesis]:
        """The hypotheses of a line, from those of its segments.

        The i-th of a line that was split is made of the i-th of every piece; the scores are added.
        """
        if not pieces:
            return [Hypothesis("", [], 0.0)]
        if len(pieces) == 1:
            return list(pieces[0])
        joined = []
        for parts in zip(*pieces, strict=False):
            tokens = [token for part in parts for token in part.tokens[:-1]]
            tokens.append(self.tokenizer.target.eos_id)
            joined.append(self._hypothesis(tokens, sum(part.score for part in parts)))
        return joined

    def _example(self, source: str, target: str | Sequence[int], line: int) -> Example:
        """A pair as token ids, cut to the limits."""
        inputs = tokenize(source, self.tokenizer.source)
        vocabulary = self.tokenizer.target
        targets = tokenize(target, vocabulary) if isinstance(target, str) else list(target)
        if targets or len(inputs) > 1:  # no tokens: what `translate` gives for a blank line
            check_target_tokens(targets, vocabulary.size, vocabulary.eos_id, line)
        limit, source_eos_id = self.max_source_length, self.tokenizer.source.eos_id
        target_limit = self.config.max_target_length
        return Example(
            truncate(inputs, limit, source_eos_id, line=line, side="source"),
            truncate(targets, target_limit, vocabulary.eos_id, line=line, side="target"),
        )

    def _score(self, examples: Sequence[Example], config: DecodingConfig) -> list[PairScore]:
        """Score pairs, in order, by square programs: their length holds source and target."""
        groups = group_by_length(
            [max(len(example.inputs), len(example.targets)) for example in examples],
            length_menu(max(self.max_source_length, config.max_target_length)),
            tokens_per_batch=config.tokens_per_batch,
            max_rows=config.max_rows_per_batch,
        )
        alpha = np.float32(config.length_penalty)
        excluded = suppressed_tokens(self.tokenizer, config) if config.renormalize else None

        def dispatch(group: Group) -> tuple[jax.Array, jax.Array]:
            shape = BatchShape(group.rows, group.length, group.length)
            members = [examples[place] for place in group.members]
            return score_batch(
                self.params,
                pad_batch(members, shape),
                alpha,
                free_ends(members, group.rows, config),
                excluded,
                model=self.model,
                length_normalization=config.length_normalization,
            )

        results: dict[int, PairScore] = {}
        for group, found in run_ahead(groups, dispatch):
            log_probs, scores = jax.device_get(found)
            for row, place in enumerate(group.members):
                check_finite(float(scores[row]), line=place + 1)
                tokens = examples[place].targets.tolist()
                of_tokens = log_probs[row, : len(tokens)]
                results[place] = PairScore(
                    float(scores[row]), float(of_tokens.sum()), tokens, of_tokens.tolist()
                )
        return [results[place] for place in range(len(examples))]


def _replace_given(config: DecodingConfig, **changes: int | float | None) -> DecodingConfig:
    """`config` with the changes that are not None, checked as a new one is."""
    given: dict[str, Any] = {name: new for name, new in changes.items() if new is not None}
    return dataclasses.replace(config, **given)


def tokenize(text: str, vocabulary: Vocabulary) -> list[int]:
    """EOS alone for a blank text, whatever the vocabulary makes of spaces."""
    return vocabulary.tokenize(text) if text.strip() else [vocabulary.eos_id]


def is_blank(example: Example) -> bool:
    """True where neither side has a token beside EOS: blank, or characters that are dropped."""
    return len(example.inputs) <= 1 and len(example.targets) <= 1


def suppressed_tokens(tokenizer: Tokenizer, config: DecodingConfig) -> Bool[np.ndarray, " V"]:
    """True for tokens that no translation may contain: padding, BOS, the unknown word, and more.

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
    suppressed[list(config.forbidden)] = True
    num_allowed = int(np.count_nonzero(~suppressed))
    if config.beam_size > num_allowed:
        raise ValueError(
            f"beam_size is {config.beam_size}, but the target vocabulary has only {num_allowed} "
            f"tokens to choose from: the beam must not be wider than that"
        )
    return suppressed


def free_ends(
    examples: Sequence[Example], rows: int, config: DecodingConfig
) -> Bool[np.ndarray, " B"] | None:
    """Whose EOS costs nothing: that of targets as long as a search lets them be; None = of none."""
    if config.forced_end == "scored":
        return None
    free = np.zeros(rows, bool)
    limits = [config.length_limit(len(example.inputs)) for example in examples]
    lengths = [len(example.targets) for example in examples]
    free[: len(examples)] = np.greater_equal(lengths, limits)
    return free


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
