"""One token after another, with nothing compared: the most probable one, or one drawn at random."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from flaxformer_mt.inference.continuous_batching import Queue, Search, SentenceOptions, run
from flaxformer_mt.search.config import ForcedEnd, LengthNormalization
from flaxformer_mt.search.rules import ForcedPrefix, History, Rule, apply_rules
from flaxformer_mt.search.scoring import penalty
from flaxformer_mt.search.step import (
    DecodeCache,
    DecodeStep,
    Hypotheses,
    end_at_limit,
    lengths_to_eos,
    next_log_probs,
    put,
)
from flaxformer_mt.search.top_k import top_k

Choose = Callable[[Float[Array, "B K V"], Int[Array, " B"]], Int[Array, "B K"]]
"""(scores, step) -> the next token of each hypothesis."""


class GreedyState(NamedTuple):
    """What the loop carries from token to token."""

    step: Int[Array, " B"]
    """Tokens chosen so far."""
    live: Bool[Array, "B K"]
    """False once the hypothesis has its EOS."""
    last_tokens: Int[Array, "B K"]
    tokens: Int[Array, "B K T"]
    log_probs: Float[Array, "B K"]
    cache: Any
    """A DecodeCache."""


def most_probable(scores: Float[Array, "B K V"], step: Int[Array, " B"]) -> Int[Array, "B K"]:
    """Greedy search."""
    return top_k(scores, 1)[1][..., 0]


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
    rules: Sequence[Rule] = (),
    prefix: ForcedPrefix | None = None,
    choose: Choose | None = None,
    num_hypotheses: int = 1,
    queue: Queue | None = None,
) -> Hypotheses:
    """Choose a token until it is EOS; the other arguments are those of `beam_search`.

    A sentence at its limit is ended with EOS, whatever the model would rather say. The length
    penalty changes no choice here, only the score that is reported.

    Args:
        choose: the next token, from what the rules leave of the log-probabilities: the most
            probable one if not given, or a `sampling.Sampler`.
        num_hypotheses: how many hypotheses go on side by side, each by itself; they come back in
            this order, not by score. More than one makes sense for samples.
    """

    def advance(wishes: SentenceOptions, state: GreedyState) -> GreedyState:
        logits, cache = step(state.last_tokens, state.cache)  # [B K V]
        log_probs = next_log_probs(logits, suppressed, renormalize=renormalize)
        scores = apply_rules(wishes.rules, log_probs, History(state.tokens, state.step))
        if wishes.prefix is not None:
            scores = wishes.prefix(scores, log_probs, state.step)
        must_end = state.step + 1 >= wishes.length_limits
        scores, log_probs = (
            end_at_limit(x, log_probs, must_end, eos_id=eos_id, forced_end=forced_end)
            for x in (scores, log_probs)
        )
        tokens = (wishes.choose or most_probable)(scores, state.step)
        added = jnp.take_along_axis(log_probs, tokens[..., None], axis=-1)[..., 0]
        tokens = jnp.where(state.live, tokens, pad_id)
        return GreedyState(
            step=state.step + 1,
            live=state.live & (tokens != eos_id) & ~must_end[:, None],
            last_tokens=tokens,
            tokens=put(state.tokens, tokens, state.step),
            log_probs=state.log_probs + jnp.where(state.live, added, 0.0),
            cache=cache,
        )

    def start(wishes: SentenceOptions) -> GreedyState:
        limits = wishes.length_limits
        beams = (limits.shape[0], num_hypotheses)
        some = jnp.broadcast_to(limits[:, None] > 0, beams)
        return GreedyState(
            step=jnp.zeros_like(limits),
            live=some,
            last_tokens=jnp.full(beams, bos_id, jnp.int32),
            tokens=jnp.full((*beams, max_target_length), pad_id, jnp.int32),
            log_probs=jnp.where(some, 0.0, -jnp.inf).astype(jnp.float32),
            cache=(),
        )

    def result(end: GreedyState) -> Hypotheses:
        lengths = lengths_to_eos(end.tokens, end.log_probs, eos_id)
        scores = end.log_probs / penalty(lengths, length_penalty, length_normalization)
        return Hypotheses(end.tokens, scores, lengths)

    length_limits = jnp.minimum(length_limits, max_target_length)
    wishes = SentenceOptions(length_limits, tuple(rules), prefix, choose=choose)
    search = Search(start, advance, lambda state: state.live.any(axis=1), result)
    return run(search, wishes, cache, queue)
