"""The compiled programs: token ids in, hypotheses or scores out, nothing on the host between.

Each is compiled once for a `SearchProgram` (or model) and the shapes of its arguments, and kept by
`jax.jit` for the whole process. The length penalty is an ordinary argument: changing it compiles
nothing.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from flaxformer_mt.data.batch import Batch
from flaxformer_mt.decoding.beam_search import beam_search
from flaxformer_mt.decoding.config import EarlyStopping, ForcedEnd, LengthNormalization
from flaxformer_mt.decoding.greedy import greedy
from flaxformer_mt.decoding.scoring import sentence_scores, token_log_probs
from flaxformer_mt.decoding.step import DecodeStep, Hypotheses
from flaxformer_mt.model.transformer import Transformer


class SearchProgram(NamedTuple):
    """All that is fixed when a search is compiled, apart from the shapes of its arguments."""

    model: Transformer
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


@functools.partial(jax.jit, static_argnames="program")
def search_batch(
    params: Mapping[str, Any],
    inputs: Int[Array, "B S"],
    inputs_positions: Int[Array, "B S"],
    inputs_segment_ids: Int[Array, "B S"],
    length_limits: Int[Array, " B"],
    suppressed: Bool[Array, " V"],
    length_penalty: Float[Array, ""],
    *,
    program: SearchProgram,
) -> Hypotheses:
    """Encode a batch and search its translations, all on the device; compiled once a `program`."""
    apply = _with_params(program.model, params)
    memory = apply(inputs, inputs_positions, inputs_segment_ids, method="encode")
    cache = apply(
        memory,
        inputs_segment_ids != 0,
        beam_size=program.beam_size,
        max_target_length=program.max_target_length,
        method="init_cache",
    )
    step: DecodeStep = functools.partial(apply, method="decode_step")
    search = greedy
    if program.beam_size > 1:
        search = functools.partial(
            beam_search,
            beam_size=program.beam_size,
            num_hypotheses=program.num_hypotheses,
            early_stopping=program.early_stopping,
        )
    return search(
        step,
        cache,
        max_target_length=program.max_target_length,
        length_limits=length_limits,
        length_penalty=length_penalty,
        suppressed=suppressed,
        bos_id=program.bos_id,
        eos_id=program.eos_id,
        pad_id=program.pad_id,
        length_normalization=program.length_normalization,
        forced_end=program.forced_end,
        renormalize=program.renormalize,
    )


@functools.partial(jax.jit, static_argnames=("model", "length_normalization"))
def score_batch(
    params: Mapping[str, Any],
    batch: Batch,
    length_penalty: Float[Array, ""],
    free_end: Bool[Array, " B"] | None = None,
    excluded: Bool[Array, " V"] | None = None,
    *,
    model: Transformer,
    length_normalization: LengthNormalization = "gnmt",
) -> tuple[Float[Array, "B T"], Float[Array, " B"]]:
    """Log-probability of every target token, and the score of every target, teacher-forced.

    Where `free_end`, the target is as long as it may be, and its EOS costs nothing. The tokens that
    are `excluded` have no share of the probability.
    """
    logits = _with_params(model, params)(*batch)
    real = jnp.asarray(batch.targets_segment_ids) != 0
    lengths = real.sum(-1)
    counted = real
    if free_end is not None:
        is_end = jnp.asarray(batch.targets_positions) == lengths[:, None] - 1
        counted = real & ~(is_end & free_end[:, None])
    log_probs = token_log_probs(logits, jnp.asarray(batch.targets), counted, excluded)
    return log_probs, sentence_scores(log_probs, lengths, length_penalty, length_normalization)


def _with_params(model: Transformer, params: Mapping[str, Any]) -> Callable[..., Any]:
    return functools.partial(model.apply, {"params": params})
