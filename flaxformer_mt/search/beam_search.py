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

`rules`, `prefix` and `selection` change what is compared, and `coverage_bonus` what finished
hypotheses are ranked by; the score that is reported stays log-probability / length penalty. What
is not given is not in the compiled program.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from flaxformer_mt.inference.continuous_batching import Queue, Search, SentenceOptions, run
from flaxformer_mt.search.config import (
    EarlyStopping,
    ForcedEnd,
    LengthNormalization,
    check_beam,
)
from flaxformer_mt.search.rules import ForcedPrefix, History, Rule, apply_rules
from flaxformer_mt.search.scoring import penalty
from flaxformer_mt.search.selection import Best, Candidates, Live, Selection
from flaxformer_mt.search.step import (
    DecodeCache,
    DecodeStep,
    Hypotheses,
    end_at_limit,
    lengths_to_eos,
    next_log_probs,
    put,
)


class Finished(NamedTuple):
    """Hypotheses that have ended, best first; rank -inf marks an empty place."""

    tokens: Int[Array, "B K T"]
    ranks: Float[Array, "B K"]
    """By what they are compared."""
    scores: Float[Array, "B K"]
    """What is reported: the model's log-probability / length penalty."""


class BeamState(NamedTuple):
    """What the loop carries from token to token."""

    step: Int[Array, " B"]
    """Tokens chosen so far."""
    last_tokens: Int[Array, "B K"]
    live: Live
    finished: Finished
    selected: Any
    """What the selection remembers of the live hypotheses: arrays [B K ...]."""
    cache: Any
    """A DecodeCache."""


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
    rules: Sequence[Rule] = (),
    prefix: ForcedPrefix | None = None,
    selection: Selection | None = None,
    coverage_bonus: Callable[[Any], Float[Array, "B K"]] | None = None,
    queue: Queue | None = None,
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
        rules: change what is compared, in this order.
        prefix: what translations must begin with.
        selection: which extensions are kept; the best ones if not given.
        coverage_bonus: from the cache, at most 0: added to the rank of hypotheses that end now.
        queue: for more sentences than the cache has places (see `continuous_batching`).
    """
    check_beam(beam_size, num_hypotheses)

    def penalty_of(lengths: Int[Array, "..."]) -> Float[Array, "..."]:
        return penalty(lengths, length_penalty, length_normalization)

    def advance(wishes: SentenceOptions, state: BeamState) -> BeamState:
        selection, length_limits = wishes.selection or Best(), wishes.length_limits
        logits, cache = step(state.last_tokens, state.cache)
        log_probs = next_log_probs(logits, suppressed, renormalize=renormalize)
        scores = apply_rules(wishes.rules, log_probs, History(state.live.tokens, state.step))
        tokens_left = length_limits - state.step
        scores = selection.allow(scores, log_probs, state.selected, tokens_left)
        if wishes.prefix is not None:
            scores = wishes.prefix(scores, log_probs, state.step)
        scores, log_probs = (
            end_at_limit(x, log_probs, tokens_left <= 1, eos_id=eos_id, forced_end=forced_end)
            for x in (scores, log_probs)
        )
        found = selection.propose(state.live, scores, log_probs, state.selected, state.step)
        extended = append_tokens(state.live, found, state.step)  # [B C T]
        ended = found.tokens == eos_id
        penalty_now = penalty_of(state.step + 1)[:, None]
        finished_candidates = selection.finished_candidates(found, beam_size)
        ranks = selection.rank(finished_candidates.totals, penalty_now)
        if coverage_bonus is not None:
            ranks += jnp.take_along_axis(coverage_bonus(cache), finished_candidates.parents, axis=1)
        finished = finish(
            state.finished,
            extended[:, : ranks.shape[1]],
            jnp.where(ended[:, : ranks.shape[1]], ranks, -jnp.inf),
            finished_candidates.log_probs / penalty_now,
        )
        live, chosen = keep_live(found, extended, ended, selection.priority(found), beam_size)
        stop = should_stop(
            live,
            finished,
            num_hypotheses=num_hypotheses,
            rank_now=lambda totals: selection.rank(totals, penalty_now[:, 0]),
            rank_at_limit=lambda totals: selection.rank(totals, penalty_of(length_limits)),
            early_stopping=early_stopping,
        )
        return BeamState(
            step=state.step + 1,
            last_tokens=jnp.take_along_axis(found.tokens, chosen, axis=1),
            live=live._replace(totals=jnp.where(stop[:, None], -jnp.inf, live.totals)),
            finished=finished,
            selected=take(found.state, chosen),
            cache=cache.select(jnp.take_along_axis(found.parents, chosen, axis=1)),
        )

    def start(wishes: SentenceOptions) -> BeamState:
        limits = wishes.length_limits
        selected = (wishes.selection or Best()).start(limits.shape[0], beam_size)
        return first_state(selected, limits, beam_size, max_target_length, bos_id, pad_id)

    def result(end: BeamState) -> Hypotheses:
        found = take(end.finished, slice(num_hypotheses))
        scores = jnp.where(found.ranks > -jnp.inf, found.scores, -jnp.inf)
        return Hypotheses(found.tokens, scores, lengths_to_eos(found.tokens, scores, eos_id))

    length_limits = jnp.minimum(length_limits, max_target_length)
    wishes = SentenceOptions(length_limits, tuple(rules), prefix, selection)
    search = Search(
        start, advance, lambda state: (state.live.totals > -jnp.inf).any(axis=1), result
    )
    return run(search, wishes, cache, queue)


def first_state(
    selected: Any,
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
    nothing = jnp.full(beams, -jnp.inf, jnp.float32)
    zeros = jnp.zeros(beams, jnp.float32)
    return BeamState(
        step=jnp.zeros_like(length_limits),
        last_tokens=jnp.full(beams, bos_id, jnp.int32),
        live=Live(no_tokens, jnp.where(only_first, 0.0, nothing), zeros),
        finished=Finished(no_tokens, nothing, zeros),
        selected=selected,
        cache=(),
    )


def take(tree: Any, places: Int[Array, "B N"] | slice) -> Any:
    """The same places of every array [B C ...] of a pytree."""

    def of_array(x: Array) -> Array:
        if isinstance(places, slice):
            return x[:, places]
        return jnp.take_along_axis(x, places.reshape(*places.shape, *[1] * (x.ndim - 2)), axis=1)

    return jax.tree.map(of_array, tree)


def append_tokens(
    live: Live, candidates: Candidates, step: Int[Array, " B"]
) -> Int[Array, "B C T"]:
    """The whole token sequences of the candidates: their parents', and the new token at `step`."""
    tokens = jnp.take_along_axis(live.tokens, candidates.parents[..., None], axis=1)  # [B C T]
    return put(tokens, candidates.tokens, step)


def finish(
    finished: Finished,
    tokens: Int[Array, "B C T"],
    ranks: Float[Array, "B C"],
    scores: Float[Array, "B C"],
) -> Finished:
    """Let candidates compete for the pool (rule 3): none that has rank -inf.

    At equal ranks the older one stays.
    """
    new = Finished(tokens, ranks, scores)
    both = jax.tree.map(lambda old, x: jnp.concatenate([old, x], axis=1), finished, new)
    _, places = jax.lax.top_k(both.ranks, finished.ranks.shape[1])  # [B K]
    return take(both, places)


def keep_live(
    candidates: Candidates,
    tokens: Int[Array, "B C T"],
    ended: Bool[Array, "B C"],
    priority: Float[Array, "B C"],
    beam_size: int,
) -> tuple[Live, Int[Array, "B K"]]:
    """The K first candidates that have not ended (rule 2), and which candidates they are."""
    _, chosen = jax.lax.top_k(jnp.where(ended, -jnp.inf, priority), beam_size)  # [B K]
    totals = jnp.where(ended, -jnp.inf, candidates.totals)
    return take(Live(tokens, totals, candidates.log_probs), chosen), chosen


def should_stop(
    live: Live,
    finished: Finished,
    *,
    num_hypotheses: int,
    rank_now: Callable[[Float[Array, " B"]], Float[Array, " B"]],
    rank_at_limit: Callable[[Float[Array, " B"]], Float[Array, " B"]],
    early_stopping: EarlyStopping,
) -> Bool[Array, " B"]:
    """True where a sentence is done: rule 5, or the option that replaces it.

    The ranks are those of a hypothesis as long as the live ones, and of one at the limit.
    """
    if early_stopping == "first":
        return finished.ranks[:, -1] > -jnp.inf
    best = live.totals.max(axis=1)
    if early_stopping == "heuristic":
        return rank_now(best) <= finished.ranks[:, -1]
    return rank_at_limit(best) <= finished.ranks[:, num_hypotheses - 1]
