"""The compiled programs: token ids in, hypotheses or scores out, nothing on the host between.

Each is compiled once for a `SearchProgram` (or models), the shapes of its arguments and the kinds
of wishes among them, and kept by `jax.jit` for the whole process. Numbers such as the length
penalty are ordinary arguments: changing them compiles nothing.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import flax.struct
import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float, Int

from flaxformer_mt.data.batch import Batch
from flaxformer_mt.decoding.beam_search import beam_search
from flaxformer_mt.decoding.config import EarlyStopping, ForcedEnd, LengthNormalization
from flaxformer_mt.decoding.continuous_batching import PerSentence, Queue
from flaxformer_mt.decoding.devices import divided
from flaxformer_mt.decoding.ensemble import (
    EnsembleCache,
    Params,
    combine,
    coverage_bonus,
    ensemble_step,
    read_sources,
    source_attention,
    start_ensemble,
    transpose_kernels,
)
from flaxformer_mt.decoding.greedy import greedy
from flaxformer_mt.decoding.grouping import reading_lengths
from flaxformer_mt.decoding.scoring import sentence_scores, token_log_probs
from flaxformer_mt.decoding.step import Hypotheses
from flaxformer_mt.kept_traces import keepable
from flaxformer_mt.model.cache import Source
from flaxformer_mt.model.transformer import Transformer

TOKENS_TOGETHER = 512
"""Of sources that a frugal program reads at once: more are no faster on a CPU."""


class SearchProgram(NamedTuple):
    """All that is fixed when a search is compiled, apart from the shapes of its arguments."""

    models: tuple[Transformer, ...]
    beam_size: int
    num_hypotheses: int
    max_target_length: int
    bos_id: int
    eos_id: int
    pad_id: int
    length_normalization: LengthNormalization = "gnmt"
    early_stopping: EarlyStopping = "exact"
    forced_end: ForcedEnd = "scored"
    renormalize: bool = False
    frugal: bool = False
    """To compute nothing in vain, at the price of more operations and of a longer compilation:
    pages that hold nothing are not read, and sources have little padding. Right where arithmetic
    is dear (a CPU), and not where each operation is."""
    places: int = 0
    """Sentences that a device searches at the same time; 0 = all."""
    mesh: Mesh | None = None
    """The devices, if they are several."""


@flax.struct.dataclass
class Wishes:
    """What is wished of a search beyond its program. What is None is not in the program."""

    each: PerSentence
    """Of single sentences; limit 0 for an empty row."""
    suppressed: Bool[Array, " V"]
    length_penalty: Float[Array, ""]
    weights: Float[Array, " n"] | None = None
    """Of the models, with sum 1; None for a single one."""
    coverage_penalty: Float[Array, ""] | None = None


@functools.partial(jax.jit, static_argnames="program")
def search_batch(
    params: tuple[Params, ...],
    inputs: Int[Array, "B S"],
    inputs_positions: Int[Array, "B S"],
    inputs_segment_ids: Int[Array, "B S"],
    wishes: Wishes,
    *,
    program: SearchProgram,
) -> Hypotheses:
    """Encode a batch and search its translations, all on the device; compiled once a `program`.

    On each device of `program.mesh` there may be more sentences than `program.places`: a multiple.
    """
    source = inputs, inputs_positions, inputs_segment_ids
    of_all = (wishes.suppressed, wishes.length_penalty, wishes.weights, wishes.coverage_penalty)
    search = functools.partial(_search, program)
    return divided(search, program.mesh, (params, *of_all), (source, wishes.each))


def _search(program: SearchProgram, shared: tuple[Any, ...], rows: tuple[Any, ...]) -> Hypotheses:
    """On one device."""
    params, suppressed, length_penalty, weights, coverage_penalty = shared
    source, wishes = rows
    sources = _read(program, params, source, wishes.length_limits)
    start = functools.partial(
        start_ensemble,
        beam_size=program.num_hypotheses if wishes.choose else program.beam_size,
        max_target_length=program.max_target_length,
        with_coverage=coverage_penalty is not None,
        frugal=program.frugal,
    )
    count = len(wishes.length_limits)
    if program.places in (0, count):
        cache, queue = start(sources), None
    else:
        cache = start(_empty_rows(sources, program.places))
        queue = Queue(program.places, functools.partial(_take_places, sources))
    kernels = None
    if program.frugal:
        kernels = transpose_kernels(program.models, params, sources)
    if wishes.choose:
        search = functools.partial(
            greedy, choose=wishes.choose, num_hypotheses=program.num_hypotheses
        )
    elif program.beam_size == 1 and wishes.selection is None:
        search = greedy
    else:
        search = functools.partial(
            beam_search,
            beam_size=program.beam_size,
            num_hypotheses=program.num_hypotheses,
            early_stopping=program.early_stopping,
            selection=wishes.selection,
            coverage_bonus=coverage_penalty
            if coverage_penalty is None
            else coverage_bonus(coverage_penalty),
        )
    return search(
        ensemble_step(program.models, params, weights, kernels),
        cache,
        max_target_length=program.max_target_length,
        length_limits=wishes.length_limits,
        length_penalty=length_penalty,
        suppressed=suppressed,
        bos_id=program.bos_id,
        eos_id=program.eos_id,
        pad_id=program.pad_id,
        length_normalization=program.length_normalization,
        forced_end=program.forced_end,
        renormalize=program.renormalize,
        rules=wishes.rules,
        prefix=wishes.prefix,
        queue=queue,
    )


def _read(
    program: SearchProgram,
    params: tuple[Params, ...],
    source: Sequence[Int[Array, "Q S"]],
    length_limits: Int[Array, " Q"],
) -> tuple[Source, ...]:
    """All sources, read in parts where more wait than have places.

    Frugal programs read so many tokens at once as a CPU needs to be busy, each sentence at the
    shortest length that holds it: that it decides alone, and how many are read together changes no
    bit.
    """
    read = functools.partial(read_sources, program.models, params, frugal=program.frugal)
    count, longest = source[0].shape
    if not program.frugal and program.places in (0, count):
        return read(*source)
    tokens = (source[2] != 0).sum(axis=1)  # [Q]
    lengths = reading_lengths(longest) if program.frugal else (longest,)
    rows = [max(1, TOKENS_TOGETHER // x) if program.frugal else program.places for x in lengths]
    # As many rows in every program of a length, since x W gives other bits for other numbers.
    padding = max(0, max(rows) - count)
    padded = [jnp.pad(x, ((0, padding), (0, 0))) for x in source]
    one_part = jax.eval_shape(read, *(x[: rows[-1]] for x in padded))
    sources = _empty_rows(one_part, count + padding)
    for length, shorter, size in zip(lengths, (0, *lengths), rows, strict=False):
        whose = (length_limits > 0) & (tokens <= length) & (tokens > shorter)
        whose = jnp.pad(whose, (0, padding))
        sources = _read_those(read, [x[:, :length] for x in padded], whose, size, sources)
    return jax.tree.map(lambda x: x[:count], sources)


def _read_those(
    read: Callable[..., tuple[Source, ...]],
    source: Sequence[Int[Array, "Q s"]],
    whose: Bool[Array, " Q"],
    rows: int,
    sources: tuple[Source, ...],
) -> tuple[Source, ...]:
    """`sources`, in whose first s positions some sentences now stand; so many are read at once."""
    # Sentences come longest first, so that those who are read at one length stand together.
    first, last = jnp.argmax(whose), len(whose) - 1 - jnp.argmax(whose[::-1])

    def read_part(part: Int[Array, ""], sources: tuple[Source, ...]) -> tuple[Source, ...]:
        row = first + part * rows

        def of_part(x: Array) -> Array:
            return jax.lax.dynamic_slice_in_dim(x, row, rows)

        mine = of_part(whose)

        def put(x: Array, new: Array) -> Array:
            start = (row, *[0] * (x.ndim - 1))
            old = jax.lax.dynamic_slice(x, start, new.shape)
            return jax.lax.dynamic_update_slice(x, jax.vmap(jnp.where)(mine, new, old), start)

        return jax.tree.map(put, sources, read(*map(of_part, source)))

    if rows == len(whose):
        # In a loop XLA would read them whether there are any or not: each turn reads the same.
        return jax.lax.cond(
            whose.any(), lambda x: read_part(jnp.zeros((), jnp.int32), x), lambda x: x, sources
        )
    num_parts = jnp.where(whose.any(), (last - first) // rows + 1, 0)
    return jax.lax.fori_loop(0, num_parts, read_part, sources)


def _take_places(
    sources: tuple[Source, ...], cache: Any, places: Int[Array, " n"], sentences: Int[Array, " n"]
) -> EnsembleCache:
    return cache.restart(places, jax.tree.map(lambda x: x[sentences], sources))


def _empty_rows(sources: tuple[Source, ...], count: int) -> tuple[Source, ...]:
    """For so many sentences, with nothing in it."""
    return jax.tree.map(lambda x: jnp.zeros((count, *x.shape[1:]), x.dtype), sources)


class Scored(NamedTuple):
    """What the models think of given translations."""

    log_probs: Float[Array, "B T"]
    """Of every target token; 0 for padding."""
    scores: Float[Array, " B"]
    """Log-probability / length penalty."""
    attention: Float[Array, "B T S"] | None
    """Where each target token looked: the mean of the heads and layers of source attention."""


keepable(Hypotheses)
keepable(Scored)


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
    """Log-probability of every target token, and the score of every target, teacher-forced.

    Where `free_end`, the target is as long as it may be, and its EOS costs nothing. The tokens that
    are `excluded` have no share of the probability.
    """
    score = functools.partial(_score, models, length_normalization, with_attention)
    return divided(score, mesh, (params, length_penalty, weights, excluded), (batch, free_end))


def _score(
    models: tuple[Transformer, ...],
    length_normalization: LengthNormalization,
    with_attention: bool,
    shared: tuple[Any, ...],
    rows: tuple[Any, ...],
) -> Scored:
    """On one device."""
    params, length_penalty, weights, excluded = shared
    batch, free_end = rows
    logits, looked = [], []
    for model, of_model in zip(models, params, strict=True):
        # A loop over layers would hide what they sow; one after another they compute the same.
        plain = dataclasses.replace(model.config, layer_loop="unrolled", remat="none")
        of_member, sown = model.clone(config=plain).apply(
            {"params": of_model}, *batch, mutable=["intermediates"]
        )
        logits.append(of_member)
        looked.append(source_attention(sown["intermediates"]))
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
        sentence_scores(log_probs, lengths, length_penalty, length_normalization),
        jnp.mean(jnp.stack(looked), axis=0) if with_attention else None,
    )
