"""Beam search with a length penalty (Wu et al. 2016, section 7), whole batches on the device.

The rules of the default options:

1. Every sentence has K *live* hypotheses, compared by log-probability, and a pool of the K best
   *finished* ones, compared by score = log-probability / length penalty.
2. At each step the 2K best one-token extensions of the live hypotheses are the candidates. At most
   K of them end in EOS (one a beam), so at least K do not. The best K of those stay live.
3. A candidate that ends in EOS enters the pool if it is among the K best candidates of its step.
4. A sentence with room for one token can only take EOS. So every hypothesis ends within its limit.
5. A sentence stops when no live hypothesis can change its `num_hypotheses` best finished ones.
   A longer hypothesis only loses probability, and no penalty is larger than that of the length
   limit. So no live hypothesis reaches more than (best live log-probability) / penalty(limit).
   The stop is exact: it never changes a result. It needs length_penalty >= 0.
6. A stopped sentence loses its live hypotheses (log-probability -inf). Nothing enters its pool
   while the rest of the batch continues. The loop ends when no sentence has a live hypothesis.

With these options the search is that of Hugging Face's `generate`, tokens and scores:

- `length_normalization="average"`: the penalty is length ** alpha, where "gnmt" has
  ((5 + length) / 6) ** alpha. The length includes EOS.
- `early_stopping` replaces rule 5. Here K is `beam_size`, not `num_hypotheses`:
  "heuristic": a sentence stops when K hypotheses have finished and the best live log-probability,
  divided by the penalty of the tokens chosen *so far*, is not above the worst of those K (Hugging
  Face's False). For alpha above 0 this may miss a better, longer hypothesis.
  "first": it stops as soon as K hypotheses have finished (Hugging Face's True).
  "exact" is rule 5 (Hugging Face's "never").
- `forced_end="free"`: the EOS of rule 4 has log-probability 0 (`forced_eos_token_id`).
- `renormalize`: log-probabilities are those among the tokens that are not suppressed
  (`renormalize_logits`).

`rules`, `prefix` and `selection` change what the search compares. `coverage_bonus` changes the
ranks of finished hypotheses. The reported score is always log-probability / length penalty.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from flaxformer_mt.search.config import EarlyStopping, check_beam
from flaxformer_mt.search.loop import Search, SearchSettings, SentenceOptions, score_next_tokens
from flaxformer_mt.search.selection import Candidates, Live, Selection
from flaxformer_mt.search.step import DecodeStep, Hypotheses, TopK, lengths_to_eos, write_token


class Finished(NamedTuple):
    """Hypotheses that have ended, best first; rank -inf marks an empty entry."""

    tokens: Int[Array, "B K T"]
    ranks: Float[Array, "B K"]
    """The values that order finished hypotheses."""
    scores: Float[Array, "B K"]
    """The reported score: the model's log-probability / length penalty."""


class BeamState(NamedTuple):
    """The state between two tokens."""

    step: Int[Array, " B"]
    """Number of tokens chosen so far."""
    last_tokens: Int[Array, "B K"]
    live: Live
    finished: Finished
    selected: Any
    """The selection's state of the live hypotheses: arrays [B K ...]."""
    cache: Any
    """A DecodeCache."""


def beam_search(
    settings: SearchSettings,
    *,
    beam_size: int,
    num_hypotheses: int,
    early_stopping: EarlyStopping = "exact",
    coverage_bonus: Callable[[Any], Float[Array, "B K"]] | None = None,
    top_k: TopK = jax.lax.top_k,
) -> Search:
    """Returns the search for the `num_hypotheses` best translations, by the rules above.

    K = `beam_size` may exceed the vocabulary; then some beams stay empty. `coverage_bonus` returns
    a number, at most 0, which is added to the rank of hypotheses that end now. Raises ValueError
    unless 1 <= num_hypotheses <= beam_size.
    """
    check_beam(beam_size, num_hypotheses)

    def start(options: SentenceOptions) -> BeamState:
        selection = options.selection or Selection()
        selected = selection.start(options.length_limits.shape[0], beam_size)
        return first_state(settings, options.length_limits, beam_size, selected)

    def advance(step: DecodeStep, options: SentenceOptions, state: BeamState) -> BeamState:
        selection = options.selection or Selection()
        scored = score_next_tokens(step, settings, options, state, state.live.tokens)
        found = selection.propose(
            state.live, scored.scores, scored.log_probs, state.selected, state.step, top_k
        )
        tokens = jnp.take_along_axis(state.live.tokens, found.parents[..., None], axis=1)
        extended = write_token(tokens, found.tokens, state.step)  # [B C T]
        ended = found.tokens == settings.eos_id
        penalty_now = settings.penalty(state.step + 1)[:, None]
        # Those that end compete for the pool.
        finishing = selection.finished_candidates(found, beam_size)
        ranks = selection.rank(finishing.totals, penalty_now)
        if coverage_bonus is not None:
            ranks += jnp.take_along_axis(coverage_bonus(scored.cache), finishing.parents, axis=1)
        count = ranks.shape[1]
        finished = finish(
            state.finished,
            extended[:, :count],
            jnp.where(ended[:, :count], ranks, -jnp.inf),
            finishing.log_probs / penalty_now,
        )
        live, kept = keep_live(selection, found, extended, ended, beam_size)
        penalty_at_limit = settings.penalty(state.step + scored.tokens_left)
        stop = should_stop(
            live,
            finished,
            num_hypotheses=num_hypotheses,
            rank_now=lambda totals: selection.rank(totals, penalty_now[:, 0]),
            rank_at_limit=lambda totals: selection.rank(totals, penalty_at_limit),
            early_stopping=early_stopping,
        )
        return BeamState(
            step=state.step + 1,
            last_tokens=jnp.take_along_axis(found.tokens, kept, axis=1),
            live=live._replace(totals=jnp.where(stop[:, None], -jnp.inf, live.totals)),
            finished=finished,
            selected=take(found.state, kept),
            cache=scored.cache.select(jnp.take_along_axis(found.parents, kept, axis=1)),
        )

    def live(state: BeamState) -> Bool[Array, " B"]:
        return (state.live.totals > -jnp.inf).any(axis=1)

    def result(state: BeamState) -> Hypotheses:
        best = jax.tree.map(lambda x: x[:, :num_hypotheses], state.finished)
        scores = jnp.where(best.ranks > -jnp.inf, best.scores, -jnp.inf)
        lengths = lengths_to_eos(best.tokens, scores, settings.eos_id)
        return Hypotheses(best.tokens, scores, lengths)

    return Search(start, advance, live, result)


def first_state(
    settings: SearchSettings, length_limits: Int[Array, " B"], beam_size: int, selected: Any
) -> BeamState:
    """Returns the state with one live, empty hypothesis for each sentence whose limit is not 0."""
    shape = (length_limits.shape[0], beam_size)
    no_tokens = jnp.full((*shape, settings.max_target_length), settings.pad_id, jnp.int32)
    only_first = (jnp.arange(beam_size) == 0) & (length_limits > 0)[:, None]  # [B K]
    nothing = jnp.full(shape, -jnp.inf, jnp.float32)
    zeros = jnp.zeros(shape, jnp.float32)
    return BeamState(
        step=jnp.zeros_like(length_limits),
        last_tokens=jnp.full(shape, settings.bos_id, jnp.int32),
        live=Live(no_tokens, jnp.where(only_first, 0.0, nothing), zeros),
        finished=Finished(no_tokens, nothing, zeros),
        selected=selected,
        cache=(),
    )


def take(tree: Any, entries: Int[Array, "B N"]) -> Any:
    """Returns the same entries of every array [B C ...] of a pytree."""

    def of_array(x: Array) -> Array:
        return jnp.take_along_axis(x, entries.reshape(*entries.shape, *[1] * (x.ndim - 2)), axis=1)

    return jax.tree.map(of_array, tree)


def finish(
    finished: Finished,
    tokens: Int[Array, "B C T"],
    ranks: Float[Array, "B C"],
    scores: Float[Array, "B C"],
) -> Finished:
    """Returns the pool after candidates with a rank above -inf competed for it (rule 3).

    At equal ranks the older hypothesis stays.
    """
    new = Finished(tokens, ranks, scores)
    both = jax.tree.map(lambda old, x: jnp.concatenate([old, x], axis=1), finished, new)
    _, best = jax.lax.top_k(both.ranks, finished.ranks.shape[1])  # [B K]
    return take(both, best)


def keep_live(
    selection: Selection,
    found: Candidates,
    extended: Int[Array, "B C T"],
    ended: Bool[Array, "B C"],
    beam_size: int,
) -> tuple[Live, Int[Array, "B K"]]:
    """Returns the best candidates that have not ended, and their indices (rule 2).

    `extended` are the tokens of all candidates.
    """
    priority = jnp.where(ended, -jnp.inf, selection.priority(found))
    _, kept = jax.lax.top_k(priority, beam_size)
    totals = jnp.where(ended, -jnp.inf, found.totals)
    return take(Live(extended, totals, found.log_probs), kept), kept


def should_stop(
    live: Live,
    finished: Finished,
    *,
    num_hypotheses: int,
    rank_now: Callable[[Float[Array, " B"]], Float[Array, " B"]],
    rank_at_limit: Callable[[Float[Array, " B"]], Float[Array, " B"]],
    early_stopping: EarlyStopping,
) -> Bool[Array, " B"]:
    """Returns where a sentence is finished: rule 5, or the option that replaces it.

    `rank_now` ranks a hypothesis with the length of the live ones, `rank_at_limit` one with the
    length limit.
    """
    if early_stopping == "first":
        return finished.ranks[:, -1] > -jnp.inf
    best = live.totals.max(axis=1)
    if early_stopping == "heuristic":
        return rank_now(best) <= finished.ranks[:, -1]
    return rank_at_limit(best) <= finished.ranks[:, num_hypotheses - 1]
