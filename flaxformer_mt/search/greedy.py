"""Greedy search and sampling: one token after another, without comparing hypotheses."""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from flaxformer_mt.search.loop import Search, SearchSettings, SentenceOptions
from flaxformer_mt.search.rules import History, apply_rules
from flaxformer_mt.search.step import DecodeStep, Hypotheses, Scores, lengths_to_eos, write_token


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


def greedy(settings: SearchSettings, *, num_hypotheses: int = 1) -> Search:
    """Returns the search that chooses one token at a time until EOS.

    `SentenceOptions.choose` chooses it: the most probable token, or a sample. At its length
    limit a hypothesis ends with EOS. The length penalty changes the reported score only. The K
    hypotheses of a sentence are chosen independently, and are not sorted by score. Only sampling
    needs more than one.
    """

    def most_probable(scores: Scores, step: Int[Array, " B"]) -> Int[Array, "B K"]:
        """Returns the most probable tokens; the lowest number among equals."""
        indices = settings.top_k(scores.reshape(-1, scores.shape[-1]), 1)[1]
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
        logits, cache = step(state.last_tokens, state.cache)  # [B K V]
        log_probs = settings.next_log_probs(logits)
        chosen = History(state.tokens, state.step)
        scores = apply_rules(options.rules, log_probs, chosen)
        if options.prefix is not None:
            scores = options.prefix(scores, log_probs, chosen)
        limits = jnp.minimum(options.length_limits, settings.max_target_length)
        must_end = state.step + 1 >= limits
        scores = settings.end_at_limit(scores, log_probs, must_end)
        log_probs = settings.end_at_limit(log_probs, log_probs, must_end)
        tokens = (options.choose or most_probable)(scores, state.step)
        added = jnp.take_along_axis(log_probs, tokens[..., None], axis=-1)[..., 0]
        tokens = jnp.where(state.live, tokens, settings.pad_id)
        return GreedyState(
            step=state.step + 1,
            live=state.live & (tokens != settings.eos_id) & ~must_end[:, None],
            last_tokens=tokens,
            tokens=write_token(state.tokens, tokens, state.step),
            log_probs=state.log_probs + jnp.where(state.live, added, 0.0),
            cache=cache,
        )

    def live(state: GreedyState) -> Bool[Array, " B"]:
        return state.live.any(axis=1)

    def result(state: GreedyState) -> Hypotheses:
        lengths = lengths_to_eos(state.tokens, state.log_probs, settings.eos_id)
        return Hypotheses(state.tokens, state.log_probs / settings.penalty(lengths), lengths)

    return Search(start, advance, live, result)
