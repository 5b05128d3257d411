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

from flaxformer_mt.data.batching.batch import Batch
from flaxformer_mt.inference.continuous_batching import Queue, SentenceOptions, at_once
from flaxformer_mt.inference.devices import shard_rows
from flaxformer_mt.inference.ensemble import (
    EnsembleCache,
    Params,
    combine,
    coverage_bonus,
    ensemble_step,
    prepare_kernels,
    read_sources,
    source_attention,
    start_ensemble,
)
from flaxformer_mt.inference.grouping import reading_lengths
from flaxformer_mt.model.cache import Source
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.runtime.trace_cache import register_result
from flaxformer_mt.search.beam_search import beam_search
from flaxformer_mt.search.config import EarlyStopping, ForcedEnd, LengthNormalization
from flaxformer_mt.search.greedy import greedy
from flaxformer_mt.search.scoring import sentence_scores, token_log_probs
from flaxformer_mt.search.step import Hypotheses

ADDED_ALIKE = 4096
"""On a CPU XLA adds up so many numbers or more in one order, fewer in another. It matters to
norms, to a new token that looks at itself and to the softmax of logits; other sums are the same for
any number of rows (`matmul.prepared_matmul`, `attention.sum_of_each`)."""


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
    """How many sentences a device searches at the same time, of a multiple of so many that it is
    given; 0 = all."""
    mesh: Mesh | None = None
    """The devices, if they are several."""


@flax.struct.dataclass
class SearchInputs:
    """What is wished of a search beyond its program. What is None is not in the program."""

    each: SentenceOptions
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
    wishes: SearchInputs,
    *,
    program: SearchProgram,
) -> tuple[Hypotheses, list[Array]]:
    """Encode a batch and search its translations, all on the device; compiled once a `program`.

    On each device of `program.mesh` there may be more sentences than `program.places`: a multiple.

    Returns:
      What was found, and of a frugal search with a queue its caches, which nobody needs. On a CPU
      each array that a program returns has memory of its own, which malloc keeps for the next
      search (`host_memory`); all others lie in one block, too large to be kept.
    """
    source = inputs, inputs_positions, inputs_segment_ids
    of_all = (wishes.suppressed, wishes.length_penalty, wishes.weights, wishes.coverage_penalty)
    search = functools.partial(_search, program)
    return shard_rows(search, program.mesh, (params, *of_all), (source, wishes.each))


def _search(
    program: SearchProgram, shared: tuple[Any, ...], rows: tuple[Any, ...]
) -> tuple[Hypotheses, list[Array]]:
    """On one device."""
    params, suppressed, length_penalty, weights, coverage_penalty = shared
    source, wishes = rows
    read = functools.partial(read_sources, program.models, params, frugal=program.frugal)
    start = functools.partial(
        start_ensemble,
        beam_size=program.num_hypotheses if wishes.choose else program.beam_size,
        max_target_length=program.max_target_length,
        with_coverage=coverage_penalty is not None,
        frugal=program.frugal,
    )
    places, queue = program.places, None
    caches: list[Any] = []
    if places in (0, len(wishes.length_limits)):
        sources = read(*source)
    else:
        # For their shapes; as many as are read later, which then need not be traced again.
        some = jax.eval_shape(read, *(x[: at_once(places)] for x in source))
        sources = jax.tree.map(lambda x: jnp.zeros((places, *x.shape[1:]), x.dtype), some)
        if program.frugal:
            take = functools.partial(_read_when_taken, read, source)
        else:
            take = functools.partial(_take, _read_all(read, source, wishes.length_limits, places))
        queue = Queue(places, take, fewer=fewer_places(program), done=caches.append)
    cache = start(sources)
    kernels = None
    if program.frugal:
        kernels = prepare_kernels(program.models, params, sources)
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
    found = search(
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
    return found, jax.tree.leaves(caches) if program.frugal else []


def fewer_places(program: SearchProgram) -> int:
    """For `Queue`: a quarter of the places where arithmetic is dear, if no bit depends on that."""
    fewer = program.places // 4
    hypotheses = fewer * max(program.beam_size, program.num_hypotheses)
    narrowest = min(
        min(m.config.d_model, m.config.num_heads * m.config.head_widths[0], m.target_vocab_size)
        for m in program.models
    )
    alike = hypotheses > 1 and hypotheses * narrowest >= ADDED_ALIKE
    return fewer if program.frugal and alike else 0


Read = Callable[..., tuple[Source, ...]]
"""(tokens, positions, segment ids), all [n S] -> what each model knows of n sources."""


def _read_all(
    read: Read, source: Sequence[Int[Array, "Q S"]], limits: Int[Array, " Q"], places: int
) -> tuple[Source, ...]:
    """All sources before the search, as many at once as have places."""
    parts = jax.tree.map(lambda x: x.reshape(-1, places, *x.shape[1:]), (tuple(source), limits))

    def read_part(part: tuple[Sequence[Array], Array]) -> tuple[Source, ...]:
        source, limits = part
        shapes = jax.eval_shape(read, *source)
        return jax.lax.cond(
            (limits > 0).any(),
            lambda: read(*source),
            lambda: jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes),
        )

    read_parts = jax.lax.map(read_part, parts)
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), read_parts)


def _take(
    sources: tuple[Source, ...], cache: Any, places: Int[Array, " n"], sentences: Int[Array, " n"]
) -> EnsembleCache:
    """For `Queue`: sentences whose sources have been read."""
    return cache.restart(places, jax.tree.map(lambda x: x[sentences], sources))


def _read_when_taken(
    read: Read,
    source: Sequence[Int[Array, "Q S"]],
    cache: Any,
    places: Int[Array, " n"],
    sentences: Int[Array, " n"],
) -> EnsembleCache:
    """For `Queue`: sentences whose sources are read now, each at the shortest length that holds it.

    That it decides alone; those of another length are read with it, in vain, and always n: no bit
    depends on company.
    """
    nowhere, longest = cache.members[0].index.shape[0], source[0].shape[1]
    lengths = reading_lengths(longest)
    tokens = (source[2] != 0).sum(axis=1)[sentences]  # [n]

    def read_those(length: int, cache: Any, whose: Bool[Array, " n"]) -> Any:
        rows = (x[sentences, :length] for x in source)
        return cache.restart(jnp.where(whose, places, nowhere), read(*rows))

    for length, shorter in zip(lengths, (-1, *lengths), strict=False):
        whose = (places < nowhere) & (tokens <= length) & (tokens > shorter)
        read_now = functools.partial(read_those, length)
        cache = jax.lax.cond(whose.any(), read_now, lambda cache, whose: cache, cache, whose)
    return cache


class Scored(NamedTuple):
    """What the models think of given translations."""

    log_probs: Float[Array, "B T"]
    """Of every target token; 0 for padding."""
    scores: Float[Array, " B"]
    """Log-probability / length penalty."""
    attention: Float[Array, "B T S"] | None
    """Where each target token looked: the mean of the heads and layers of source attention."""


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
    """Log-probability of every target token, and the score of every target, teacher-forced.

    Where `free_end`, the target is as long as it may be, and its EOS costs nothing. The tokens that
    are `excluded` have no share of the probability.
    """
    score = functools.partial(_score, models, length_normalization, with_attention)
    shared = params, length_penalty, weights, excluded
    return shard_rows(score, mesh, shared, (batch, free_end))[0]


def _score(
    models: tuple[Transformer, ...],
    length_normalization: LengthNormalization,
    with_attention: bool,
    shared: tuple[Any, ...],
    rows: tuple[Any, ...],
) -> tuple[Scored, Any]:
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
    scored = Scored(
        log_probs,
        sentence_scores(log_probs, lengths, length_penalty, length_normalization),
        jnp.mean(jnp.stack(looked), axis=0) if with_attention else None,
    )
    return scored, ()
