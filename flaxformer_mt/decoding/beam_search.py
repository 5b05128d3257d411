"""Beam search with a length penalty (Wu et al. 2016, section 7), whole batches on the device.

The rules, exactly (those in force where nothing is said; the options at the end):

1. Every sentence has K *live* hypotheses, compared by log-probability, and a pool of the K best
   *finished* ones, compared by score = log-probability / length penalty.
2. At each step the 2K best one-token extensions of the live hypotheses are the candidates. At most
   K of them end in EOS (one a beam), so at least K others remain: the best K of those live on.
3. A candidate that ends in EOS enters the pool if it is among the K best candidates of its step.
4. A sentence with one place left can only take EOS: every hypothesis ends, within its limit.
5. A sentence stops when no live hypothesis can change its `num_hypotheses` best finished ones.
   Longer hypotheses only lose probability, and no penalty is larger than that of the length limit;
   so (best live log-probability) / penalty(limit) is the most that can still be reached. The stop
   is exact: it never changes a result. It needs length_penalty >= 0.
6. Stopped sentences lose their live hypotheses (log-probability -inf); nothing can enter their
   pools while the rest of the batch goes on. The loop ends when no sentence has a live hypothesis.

The options, with which the search is that of Hugging Face's `generate`, tokens and scores:

- `length_normalization="average"`: the penalty is length ** alpha, where "gnmt" has
  ((5 + length) / 6) ** alpha. The length counts EOS.
- `early_stopping` replaces rule 5; K is the beam, not `num_hypotheses`:
  "heuristic": a sentence stops when K hypotheses have finished and the best live log-probability,
  divided by the penalty of the tokens chosen *so far*, is not above the worst of those K (HF's
  False). For alpha above 0 this may miss a better, longer one.
  "first": it stops as soon as K hypotheses have finished (HF's True).
  "exact" is rule 5 (HF's "never").
- `forced_end="free"`: the EOS of rule 4 has log-probability 0 (HF's `forced_eos_token_id`).
- `renormalize`: log-probabilities are those among the tokens that are not suppressed (HF's
  `renormalize_logits`).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from flaxformer_mt.decoding.config import (
    EarlyStopping,
    ForcedEnd,
    LengthNormalization,
    check_beam,
)
from flaxformer_mt.decoding.scoring import penalty
from flaxformer_mt.decoding.step import (
    DecodeCache,
    DecodeStep,
    Hypotheses,
    lengths_to_eos,
    next_log_probs,
)
from flaxformer_mt.decoding.top_k import top_k


class Live(NamedTuple):
    """Hypotheses that go on, best first; log-probability -inf marks an empty place."""

    tokens: Int[Array, "B K T"]
    log_probs: Float[Array, "B K"]


class Finished(NamedTuple):
    """Hypotheses that have ended, best first; score -inf marks an empty place."""

    tokens: Int[Array, "B K T"]
    scores: Float[Array, "B K"]


class BeamState(NamedTuple):
    """What the loop carries from token to token."""

    step: Int[Array, ""]
    """Tokens chosen so far."""
    last_tokens: Int[Array, "B K"]
    live: Live
    finished: Finished
    cache: DecodeCache


class Candidates(NamedTuple):
    """The C = 2K best extensions of a sentence's live hypotheses by one token, best first."""

    log_probs: Float[Array, "B C"]
    parents: Int[Array, "B C"]
    """The beam that each one extends."""
    tokens: Int[Array, "B C"]
    """The token that each one adds."""


def beam_search(
    step: DecodeStep,
    cache: DecodeCache,
    *,
    beam_size: int,
    num_hypotheses: int,
    max_target_length: int,
    length_limits: Int[Array, " B"],
    length_penalty: float | Float[Array, ""],
    suppressed: Bool[Array, " V"],
    bos_id: int,
    eos_id: int,
    pad_id: int,
    length_normalization: LengthNormalization = "gnmt",
    early_stopping: EarlyStopping = "exact",
    forced_end: ForcedEnd = "scored",
    renormalize: bool = False,
) -> Hypotheses:
    """Search the `num_hypotheses` best translations of every sentence, by the rules above.

    Args:
        step: the model, as a function; `cache` is its memory before the first token.
        beam_size: K. More than the vocabulary is allowed: places without a hypothesis stay empty.
        num_hypotheses: how many of the K finished hypotheses to give back.
        max_target_length: T, the room for tokens (EOS included); static.
        length_limits: the most tokens (EOS included) for each sentence, at most T; 0 for an empty
            row.
        length_penalty: alpha >= 0 of `scoring.penalty`.
        suppressed: tokens that are never chosen (padding, BOS, and unknown words unless asked for).
        length_normalization, early_stopping, forced_end, renormalize: see the options above.
    """
    check_beam(beam_size, num_hypotheses)
    length_limits = jnp.minimum(length_limits, max_target_length)

    def penalty_of(lengths: Int[Array, "..."]) -> Float[Array, "..."]:
        return penalty(lengths, length_penalty, length_normalization)

    def advance(state: BeamState) -> BeamState:
        logits, cache = step(state.last_tokens, state.cache)
        must_end = state.step + 1 >= length_limits
        log_probs = next_log_probs(
            logits,
            suppressed=suppressed,
            must_end=must_end,
            eos_id=eos_id,
            forced_end=forced_end,
            renormalize=renormalize,
        )
        candidates = expand(state.live, log_probs)
        extended = append_tokens(state.live, candidates, state.step)  # [B C T]
        ended = candidates.tokens == eos_id
        penalty_now = penalty_of(state.step + 1)
        finished = finish(state.finished, extended, candidates.log_probs / penalty_now, ended)
        live, chosen = keep_live(candidates, extended, ended)
        stop = should_stop(
            live,
            finished,
            num_hypotheses=num_hypotheses,
            penalty_now=penalty_now,
            penalty_at_limit=penalty_of(length_limits),
            early_stopping=early_stopping,
        )
        return BeamState(
            step=state.step + 1,
            last_tokens=jnp.take_along_axis(candidates.tokens, chosen, axis=1),
            live=live._replace(log_probs=jnp.where(stop[:, None], -jnp.inf, live.log_probs)),
            finished=finished,
            cache=cache.select(jnp.take_along_axis(candidates.parents, chosen, axis=1)),
        )

    def any_live(state: BeamState) -> Bool[Array, ""]:
        return jnp.any(state.live.log_probs > -jnp.inf)

    start = first_state(cache, length_limits, beam_size, max_target_length, bos_id, pad_id)
    finished = jax.lax.while_loop(any_live, advance, start).finished
    tokens, scores = finished.tokens[:, :num_hypotheses], finished.scores[:, :num_hypotheses]
    return Hypotheses(tokens, scores, lengths_to_eos(tokens, scores, eos_id))


def first_state(
    cache: DecodeCache,
    length_limits: Int[Array, " B"],
    beam_size: int,
    max_target_length: int,
    bos_id: int,
    pad_id: int,
) -> BeamState:
    """One live hypothesis a sentence, the empty one; none where the limit is 0. An empty pool."""
    beams = (length_limits.shape[0], beam_size)
    no_tokens = jnp.full((*beams, max_target_length), pad_id, jnp.int32)
    only_first = (jnp.arange(beam_size) == 0) & (length_limits > 0)[:, None]  # [B K]
    return BeamState(
        step=jnp.int32(0),
        last_tokens=jnp.full(beams, bos_id, jnp.int32),
        live=Live(no_tokens, jnp.where(only_first, 0.0, -jnp.inf).astype(jnp.float32)),
        finished=Finished(no_tokens, jnp.full(beams, -jnp.inf, jnp.float32)),
        cache=cache,
    )


def expand(live: Live, log_probs: Float[Array, "B K V"]) -> Candidates:
    """The 2K best of the K * V extensions of the live hypotheses by one token (rule 2)."""
    batch_size, beam_size, vocab_size = log_probs.shape
    totals = live.log_probs[..., None] + log_probs  # [B K V]
    best, places = top_k(totals.reshape(batch_size, -1), 2 * beam_size)  # [B C]
    return Candidates(best, parents=places // vocab_size, tokens=places % vocab_size)


def append_tokens(live: Live, candidates: Candidates, step: Int[Array, ""]) -> Int[Array, "B C T"]:
    """The whole token sequences of the candidates: their parents', and the new token at `step`."""
    tokens = jnp.take_along_axis(live.tokens, candidates.parents[..., None], axis=1)  # [B C T]
    return jax.lax.dynamic_update_slice_in_dim(tokens, candidates.tokens[..., None], step, axis=2)


def finish(
    finished: Finished,
    tokens: Int[Array, "B C T"],
    scores: Float[Array, "B C"],
    ended: Bool[Array, "B C"],
) -> Finished:
    """Let the candidates that have ended, if among the K best, compete for the pool (rule 3).

    At equal scores the older one stays.
    """
    beam_size = finished.scores.shape[1]
    new_scores = jnp.where(ended, scores, -jnp.inf)[:, :beam_size]  # [B K]
    all_scores = jnp.concatenate([finished.scores, new_scores], axis=1)  # [B 2K]
    all_tokens = jnp.concatenate([finished.tokens, tokens[:, :beam_size]], axis=1)  # [B C T]
    best, places = jax.lax.top_k(all_scores, beam_size)  # [B K]
    return Finished(jnp.take_along_axis(all_tokens, places[..., None], axis=1), best)


def keep_live(
    candidates: Candidates, tokens: Int[Array, "B C T"], ended: Bool[Array, "B C"]
) -> tuple[Live, Int[Array, "B K"]]:
    """The K best candidates that have not ended (rule 2), and which candidates they are."""
    log_probs = jnp.where(ended, -jnp.inf, candidates.log_probs)
    best, chosen = jax.lax.top_k(log_probs, tokens.shape[1] // 2)  # [B K]
    return Live(jnp.take_along_axis(tokens, chosen[..., None], axis=1), best), chosen


def should_stop(
    live: Live,
    finished: Finished,
    *,
    num_hypotheses: int,
    penalty_now: Float[Array, ""],
    penalty_at_limit: Float[Array, " B"],
    early_stopping: EarlyStopping,
) -> Bool[Array, " B"]:
    """True where a sentence is done: rule 5, or the option that replaces it.

    The penalties are those of a hypothesis as long as the live ones, and of one at the limit.
    """
    if early_stopping == "first":
        return finished.scores[:, -1] > -jnp.inf
    if early_stopping == "heuristic":
        return live.log_probs[:, 0] / penalty_now <= finished.scores[:, -1]
    return live.log_probs[:, 0] / penalty_at_limit <= finished.scores[:, num_hypotheses - 1]
