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
from flaxformer_mt.decoding.continuous_batching import PerSentence, Queue, choose_rows
from flaxformer_mt.decoding.devices import divided
from flaxformer_mt.decoding.ensemble import (
    EnsembleCache,
    Params,
    combine,
    coverage_bonus,
    ensemble_step,
    source_attention,
    start_ensemble,
    transpose_kernels,
)
from flaxformer_mt.decoding.greedy import greedy
from flaxformer_mt.decoding.scoring import sentence_scores, token_log_probs
from flaxformer_mt.decoding.step import Hypotheses
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
    pages of the past that are empty are not read, and the last sentences go on in fewer places.
    Right where arithmetic is dear (a CPU), and not where each operation is."""
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

    def read(*source: Int[Array, "b S"], length: int | None = None) -> EnsembleCache:
        return start_ensemble(
            program.models,
            params,
            *source,
            beam_size=program.num_hypotheses if wishes.choose else program.beam_size,
            max_target_length=program.max_target_length,
            with_coverage=coverage_penalty is not None,
            source_length=length,
            frugal=program.frugal,
        )

    count = len(wishes.length_limits)
    if program.places in (0, count):
        cache, queue = read(*source), Queue(count)
    else:
        cache, queue = _read_in_parts(program, read, source, wishes.length_limits)
    kernels = None
    if program.frugal:
        # Not one alone: only from two rows on does a product not depend on how many they are.
        queue = queue._replace(fewer=(queue.places // 4,) if queue.places >= 8 else ())
        kernels = transpose_kernels(program.models, params, cache)
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


def _read_in_parts(
    program: SearchProgram,
    read: Callable[..., EnsembleCache],
    source: Sequence[Int[Array, "Q S"]],
    length_limits: Int[Array, " Q"],
) -> tuple[EnsembleCache, Queue]:
    """The first sentences in their places, and the others, which have been read, in a queue.

    Frugal programs read them in smaller parts, and those that fit into 3/4 of the length in that:
    which length, a sentence decides alone, and how many read together changes no bit.
    """
    count, longest = source[0].shape
    places = rows = program.places
    lengths = [longest]
    if program.frugal and longest > 1:
        rows = max(1, min(places, TOKENS_TOGETHER // longest))
        lengths += [3 * longest // 4]
    tokens = (source[2] != 0).sum(axis=1)  # [Q]
    empty = _zeros_like(read, *(x[:places] for x in source))
    sources = jax.tree.map(lambda x: jnp.zeros((count, *x.shape[1:]), x.dtype), empty.sources)
    for length, shorter in zip(lengths, [*lengths[1:], 0], strict=True):
        whose = (length_limits > 0) & (tokens <= length) & (tokens > shorter)
        sources = _read_those(functools.partial(read, length=length), source, whose, rows, sources)

    def take(cache: Any, new: Bool[Array, " B"], sentences: Int[Array, " B"]) -> EnsembleCache:
        return cache.restart(new, jax.tree.map(lambda x: x[sentences], sources))

    cache = take(empty, jnp.ones(places, bool), jnp.arange(places))
    return cache, Queue(places, take)


def _read_those(
    read: Callable[..., EnsembleCache],
    source: Sequence[Int[Array, "Q S"]],
    whose: Bool[Array, " Q"],
    rows: int,
    sources: Any,
) -> Any:
    """`sources` with what is known of some sentences, which are read so many rows at once."""
    count = len(whose)

    def read_part(part: Int[Array, ""], sources: Any) -> Any:
        def of_part(x: Array) -> Array:
            return jax.lax.dynamic_slice_in_dim(x, part * rows, rows)

        new = read(*map(of_part, source)).sources
        new = choose_rows(of_part(whose), new, jax.tree.map(of_part, sources))
        return jax.tree.map(
            lambda x, new: jax.lax.dynamic_update_slice_in_dim(x, new, part * rows, 0), sources, new
        )

    # Sentences come longest first, so that those who are read at one length stand together.
    first, last = jnp.argmax(whose), count - 1 - jnp.argmax(whose[::-1])
    after = jnp.where(whose.any(), last // rows + 1, 0)
    return jax.lax.fori_loop(first // rows, after, read_part, sources)


def _zeros_like(make: Callable[..., EnsembleCache], *args: Any) -> EnsembleCache:
    """What `make` gives for these, with zeros for numbers, and nothing computed."""
    trees = []

    def leaves(*args: Any) -> list[Array]:
        flat, tree = jax.tree.flatten(make(*args))
        trees.append(tree)
        return flat

    shapes = jax.eval_shape(leaves, *args)
    return jax.tree.unflatten(trees[0], [jnp.zeros(x.shape, x.dtype) for x in shapes])


class Scored(NamedTuple):
    """What the models think of given translations."""

    log_probs: Float[Array, "B T"]
    """Of every target token; 0 for padding."""
    scores: Float[Array, " B"]
    """Log-probability / length penalty."""
    attention: Float[Array, "B T S"] | None
    """Where each target token looked: the mean of the heads and layers of source attention."""


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
