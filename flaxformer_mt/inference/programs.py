"""The compiled programs: token ids in, hypotheses or scores out.

`jax.jit` compiles a program once for a `SearchProgram` (or models), the shapes of its arguments and
the kinds of options among them. Numbers such as the length penalty are arguments; changing them
compiles nothing.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import flax.struct
import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float, Int

from flaxformer_mt.data.batching.batch import Batch
from flaxformer_mt.inference.devices import shard_rows
from flaxformer_mt.inference.ensemble import (
    Params,
    combine,
    coverage_bonus,
    empty_ensemble_cache,
    encode_sources,
    ensemble_step,
    source_attention,
)
from flaxformer_mt.inference.grouping import encoder_lengths
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.runtime.trace_cache import register_result
from flaxformer_mt.search.beam_search import beam_search
from flaxformer_mt.search.config import EarlyStopping, LengthNormalization
from flaxformer_mt.search.greedy import greedy
from flaxformer_mt.search.loop import (
    Admit,
    Search,
    SearchSettings,
    SentenceOptions,
    refill_size,
    run_queue,
)
from flaxformer_mt.search.scoring import penalty, token_log_probs
from flaxformer_mt.search.step import Hypotheses


class SearchProgram(NamedTuple):
    """The models and sizes of a compiled search; the shapes of its arguments are static too."""

    models: tuple[Transformer, ...]
    beam_size: int
    num_hypotheses: int
    batch_slots: int
    """How many sentences a device searches at the same time."""
    early_stopping: EarlyStopping = "exact"
    mesh: Mesh | None = None
    """The devices, if there are several."""


@flax.struct.dataclass
class SearchInputs:
    """The arguments of a search beyond its sources. An option that is None adds no code."""

    each: SentenceOptions
    """Options of single sentences; limit 0 for an empty row."""
    settings: SearchSettings
    weights: Float[Array, " n"] | None = None
    """Weights of the models, with sum 1; None for a single one."""
    coverage_penalty: Float[Array, ""] | None = None


@functools.partial(jax.jit, static_argnames="program")
def search_batch(
    params: tuple[Params, ...],
    inputs: Int[Array, "Q S"],
    inputs_positions: Int[Array, "Q S"],
    inputs_segment_ids: Int[Array, "Q S"],
    options: SearchInputs,
    *,
    program: SearchProgram,
) -> Hypotheses:
    """Returns the translations of Q sources, encoded and searched on the device.

    Each device of `program.mesh` takes a part of the rows.
    """
    source = inputs, inputs_positions, inputs_segment_ids
    common = options.settings, options.weights, options.coverage_penalty
    search = functools.partial(_search, program)
    return shard_rows(search, program.mesh, (params, common), (source, options.each))


def _search(program: SearchProgram, shared: tuple[Any, ...], rows: tuple[Any, ...]) -> Hypotheses:
    """Returns the hypotheses of the rows of one device."""
    (params, common), (source, each) = shared, rows
    options = SearchInputs(each, *common)
    with_coverage = options.coverage_penalty is not None
    slots = program.batch_slots
    # Only the shapes of these sources are used.
    sources = jax.eval_shape(
        functools.partial(encode_sources, program.models, params),
        *(x[: refill_size(slots)] for x in source),
    )
    cache = empty_ensemble_cache(
        program.models,
        sources,
        batch=slots,
        beam_size=program.num_hypotheses if each.choose else program.beam_size,
        max_target_length=options.settings.max_target_length,
        with_coverage=with_coverage,
    )
    step = ensemble_step(program.models, params, options.weights, with_coverage=with_coverage)
    admit = _admit(program, params, source, slots)
    return run_queue(make_search(program, options, each), step, cache, each, admit, slots=slots)


def make_search(program: SearchProgram, options: SearchInputs, each: SentenceOptions) -> Search:
    """Returns sampling, greedy search or beam search."""
    settings, top_k = options.settings, program.models[0].kernels.top_k
    if each.choose:
        return greedy(settings, num_hypotheses=program.num_hypotheses)
    if program.beam_size == 1 and each.selection is None:
        return greedy(settings, top_k=top_k)
    penalty = options.coverage_penalty
    return beam_search(
        settings,
        beam_size=program.beam_size,
        num_hypotheses=program.num_hypotheses,
        early_stopping=program.early_stopping,
        coverage_bonus=None if penalty is None else coverage_bonus(penalty),
        top_k=top_k,
    )


def _admit(
    program: SearchProgram,
    params: Sequence[Params],
    source: Sequence[Int[Array, "Q S"]],
    slots: int,
) -> Admit:
    """Returns the function that encodes sources on admission, each at its own encoder length.

    The length of a source alone decides at which length it is encoded, and always the same number
    of rows are encoded together. So the result does not depend on the other sentences.
    """
    lengths = encoder_lengths(source[0].shape[1])

    def admit(cache: Any, rows: Int[Array, " n"], sentences: Int[Array, " n"]) -> Any:
        num_tokens = (source[2] != 0).sum(axis=1)[sentences]  # [n]

        def encode_at(length: int, cache: Any, chosen: Bool[Array, " n"]) -> Any:
            part = (x[sentences, :length] for x in source)
            sources = encode_sources(program.models, params, *part)
            return cache.replace_rows(jnp.where(chosen, rows, slots), sources)

        for length, shorter in zip(lengths, (-1, *lengths), strict=False):
            chosen = (rows < slots) & (num_tokens <= length) & (num_tokens > shorter)
            encode = functools.partial(encode_at, length)
            cache = jax.lax.cond(chosen.any(), encode, lambda cache, _: cache, cache, chosen)
        return cache

    return admit


class Scored(NamedTuple):
    """The models' log-probabilities of given translations."""

    log_probs: Float[Array, "B T"]
    """Of every target token; 0 for padding."""
    scores: Float[Array, " B"]
    """Log-probability / length penalty."""
    attention: Float[Array, "B T S"] | None
    """The source attention of each target token: the mean of all heads and layers."""


register_result(Hypotheses)
register_result(Scored)


@functools.partial(
    jax.jit, static_argnames=("models", "length_normalization", "with_attention", "mesh")
)
def score_batch(
    params: tuple[Params, ...],
    batch: Batch,
    length_penalty: Float[Array, ""],
    weights: Float[Array, " n"] | None = None,
    free_end: Bool[Array, " B"] | None = None,
    excluded: Bool[Array, " V"] | None = None,
    *,
    models: tuple[Transformer, ...],
    length_normalization: LengthNormalization = "gnmt",
    with_attention: bool = False,
    mesh: Mesh | None = None,
) -> Scored:
    """Returns the log-probability of every target token and the score of every target.

    `free_end` is True for targets whose EOS costs nothing, because they have the maximal length.
    The probability of `excluded` tokens is distributed among the others. A single model has no
    `weights`.
    """
    score = functools.partial(_score, models, length_normalization, with_attention)
    shared = params, length_penalty, weights, excluded
    return shard_rows(score, mesh, shared, (batch, free_end))


def _score(
    models: tuple[Transformer, ...],
    length_normalization: LengthNormalization,
    with_attention: bool,
    shared: tuple[Any, ...],
    rows: tuple[Any, ...],
) -> Scored:
    """Returns the scores of the rows of one device."""
    params, length_penalty, weights, excluded = shared
    batch, free_end = rows
    logits, attention = [], []
    for model, member_params in zip(models, params, strict=True):
        # Scanned layers would hide the weights that they record.
        plain = dataclasses.replace(model.config, layer_loop="unrolled", remat="none")
        mutable = ["intermediates"] if with_attention else []
        member_logits, sown = model.clone(config=plain).apply(
            {"params": member_params}, *batch, mutable=mutable
        )
        logits.append(member_logits)
        if with_attention:
            attention.append(source_attention(sown["intermediates"]))
    real = jnp.asarray(batch.targets_segment_ids) != 0
    lengths = real.sum(-1)
    counted = real
    if free_end is not None:
        is_end = jnp.asarray(batch.targets_positions) == lengths[:, None] - 1
        counted = real & ~(is_end & free_end[:, None])
    targets = jnp.asarray(batch.targets)
    log_probs = token_log_probs(combine(logits, weights), targets, counted, excluded)
    return Scored(
        log_probs,
        log_probs.sum(-1) / penalty(lengths, length_penalty, length_normalization),
        jnp.mean(jnp.stack(attention), axis=0) if with_attention else None,
    )
