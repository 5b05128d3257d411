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
            beam_search, beam_size=program.beam_size, num_hypotheses=program.num_hypotheses
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
    )


@functools.partial(jax.jit, static_argnames="model")
def score_batch(
    params: Mapping[str, Any], batch: Batch, length_penalty: Float[Array, ""], *, model: Transformer
) -> tuple[Float[Array, "B T"], Float[Array, " B"]]:
    """Log-probability of every target token, and the score of every target, teacher-forced."""
    logits = _with_params(model, params)(*batch)
    mask = jnp.asarray(batch.targets_segment_ids) != 0
    log_probs = token_log_probs(logits, jnp.asarray(batch.targets), mask)
    return log_probs, sentence_scores(log_probs, mask.sum(-1), length_penalty)


def _with_params(model: Transformer, params: Mapping[str, Any]) -> Callable[..., Any]:
    return functools.partial(model.apply, {"params": params})
