"""Greedy search and sampling: one token after another, without comparing hypotheses."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from flaxformer_mt.search.loop import Search, SearchSettings, SentenceOptions, score_next_tokens
from flaxformer_mt.search.step import (
    DecodeStep,
    Hypotheses,
    Scores,
    TopK,
    lengths_to_eos,
    write_token,
)


class GreedyState(NamedTuple):
    """The state between two tokens."""

    step: Int[Array, " B"]
    """Number of tokens chosen so far."""
    live: Bool[Array, "B K"]
    """False once the hypothesis has its EOS."""
    last_tokens: Int[Array, "B K"]
    tokens: Int[Array, "B K T"]
    log_probs: Float[Array, "B K"]
    cache: Any
    """A DecodeCache."""


def greedy(
    settings: SearchSettings, *, num_hypotheses: int = 1, top_k: TopK = jax.lax.top_k
) -> Search:
    """Returns the search that chooses one token at a time until EOS.

    `SentenceOptions.choose` chooses it: the most probable token, or a sample. At its length
    limit a hypothesis ends with EOS. The length penalty changes the reported score only. The K
    hypotheses of a sentence are chosen independently, and are not sorted by score. Only sampling
    needs more than one.
    """

    def most_probable(scores: Scores, step: Int[Array, " B"]) -> Int[Array, "B K"]:
        """Returns the most probable tokens; the lowest number among equals."""
        indices = top_k(scores.reshape(-1, scores.shape[-1]), 1)[1]
        return indices.reshape(scores.shape[:2])

    def start(options: SentenceOptions) -> GreedyState:
        limits = options.length_limits
        shape = (limits.shape[0], num_hypotheses)
        live = jnp.broadcast_to(limits[:, None] > 0, shape)
        return GreedyState(
            step=jnp.zeros_like(limits),
            live=live,
            last_tokens=jnp.full(shape, settings.bos_id, jnp.int32),
            tokens=jnp.full((*shape, settings.max_target_length), settings.pad_id, jnp.int32),
            log_probs=jnp.where(live, 0.0, -jnp.inf).astype(jnp.float32),
            cache=(),
        )

    def advance(step: DecodeStep, options: SentenceOptions, state: GreedyState) -> GreedyState:
        scored = score_next_tokens(step, settings, options, state, state.tokens)
        tokens = (options.choose or most_probable)(scored.scores, state.step)
        added = jnp.take_along_axis(scored.log_probs, tokens[..., None], axis=-1)[..., 0]
        tokens = jnp.where(state.live, tokens, settings.pad_id)
        return GreedyState(
            step=state.step + 1,
            live=state.live & (tokens != settings.eos_id) & (scored.tokens_left > 1)[:, None],
            last_tokens=tokens,
            tokens=write_token(state.tokens, tokens, state.step),
            log_probs=state.log_probs + jnp.where(state.live, added, 0.0),
            cache=scored.cache,
        )

    def live(state: GreedyState) -> Bool[Array, " B"]:
        return state.live.any(axis=1)

    def result(state: GreedyState) -> Hypotheses:
        lengths = lengths_to_eos(state.tokens, state.log_probs, settings.eos_id)
        return Hypotheses(state.tokens, state.log_probs / settings.penalty(lengths), lengths)

    return Search(start, advance, live, result)
