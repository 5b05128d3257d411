"""Greedy search: at every position the most probable token."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from flaxformer_mt.decoding.config import ForcedEnd, LengthNormalization
from flaxformer_mt.decoding.scoring import penalty
from flaxformer_mt.decoding.step import (
    DecodeCache,
    DecodeStep,
    Hypotheses,
    lengths_to_eos,
    next_log_probs,
)
from flaxformer_mt.decoding.top_k import top_k


class GreedyState(NamedTuple):
    """What the loop carries from token to token."""

    step: Int[Array, ""]
    """Tokens chosen so far."""
    live: Bool[Array, " B"]
    """False once the sentence has its EOS."""
    last_tokens: Int[Array, "B 1"]
    tokens: Int[Array, "B T"]
    log_probs: Float[Array, " B"]
    cache: DecodeCache


def greedy(
    step: DecodeStep,
    cache: DecodeCache,
    *,
    max_target_length: int,
    length_limits: Int[Array, " B"],
    length_penalty: float | Float[Array, ""],
    suppressed: Bool[Array, " V"],
    bos_id: int,
    eos_id: int,
    pad_id: int,
    length_normalization: LengthNormalization = "gnmt",
    forced_end: ForcedEnd = "scored",
    renormalize: bool = False,
) -> Hypotheses:
    """Take the most probable token until EOS; the arguments are those of `beam_search`.

    A sentence at its limit is ended with EOS, whatever the model would rather say. The length
    penalty changes no choice here, only the score that is reported.
    """

    def advance(state: GreedyState) -> GreedyState:
        logits, cache = step(state.last_tokens, state.cache)  # [B 1 V]
        must_end = state.step + 1 >= length_limits
        log_probs = next_log_probs(
            logits,
            suppressed=suppressed,
            must_end=must_end,
            eos_id=eos_id,
            forced_end=forced_end,
            renormalize=renormalize,
        )
        best, token = top_k(log_probs[:, 0], 1)  # [B 1]
        token = jnp.where(state.live[:, None], token, pad_id)
        return GreedyState(
            step=state.step + 1,
            live=state.live & (token[:, 0] != eos_id) & ~must_end,
            last_tokens=token,
            tokens=jax.lax.dynamic_update_slice_in_dim(state.tokens, token, state.step, axis=1),
            log_probs=state.log_probs + jnp.where(state.live, best[:, 0], 0.0),
            cache=cache,
        )

    batch_size = length_limits.shape[0]
    length_limits = jnp.minimum(length_limits, max_target_length)
    start = GreedyState(
        step=jnp.int32(0),
        live=length_limits > 0,
        last_tokens=jnp.full((batch_size, 1), bos_id, jnp.int32),
        tokens=jnp.full((batch_size, max_target_length), pad_id, jnp.int32),
        log_probs=jnp.where(length_limits > 0, 0.0, -jnp.inf).astype(jnp.float32),
        cache=cache,
    )
    end = jax.lax.while_loop(lambda state: state.live.any(), advance, start)
    tokens, log_probs = end.tokens[:, None], end.log_probs[:, None]  # [B 1 T], [B 1]
    lengths = lengths_to_eos(tokens, log_probs, eos_id)
    scores = log_probs / penalty(lengths, length_penalty, length_normalization)
    return Hypotheses(tokens, scores, lengths)
