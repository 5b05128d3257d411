"""Selections: which extensions of its hypotheses a beam search keeps.

`Selection` keeps the best ones. It has two subclasses: `sampling.WithoutReplacement` samples, and
`constraints.Banks` keeps hypotheses that contain parts of required phrases in the beam. Each is a
pytree, an argument of the compiled program.
"""

from typing import Any, NamedTuple

import flax.struct
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from flaxformer_mt.search.step import Scores, TopK


class Live(NamedTuple):
    """Unfinished hypotheses; total -inf marks an empty entry."""

    tokens: Int[Array, "B K T"]
    totals: Float[Array, "B K"]
    """The sums of log-probabilities after the rules, which the search compares."""
    log_probs: Float[Array, "B K"]
    """The model's log-probability."""


class Candidates(NamedTuple):
    """C extensions of a sentence's live hypotheses by one token; total -inf marks an empty entry.

    The 2K best come first, in order.
    """

    totals: Float[Array, "B C"]
    log_probs: Float[Array, "B C"]
    parents: Int[Array, "B C"]
    """The number of the hypothesis that each one extends."""
    tokens: Int[Array, "B C"]
    """The token that each one adds."""
    state: Any = ()
    """The selection's state of each: any pytree of arrays [B C ...]."""


@flax.struct.dataclass
class Selection:
    """The choices of a beam search. A subclass overrides some of them.

    This class compares by log-probability, and finished hypotheses by log-probability / length
    penalty.
    """

    def start(self, batch: int, beams: int) -> Any:
        """Returns the state of the empty hypotheses: any pytree of arrays [B K ...]."""
        return ()

    def allow(
        self, scores: Scores, log_probs: Scores, state: Any, tokens_left: Int[Array, " B"]
    ) -> Scores:
        """Returns `scores` with -inf for tokens that must not come next; here unchanged."""
        return scores

    def propose(
        self,
        live: Live,
        scores: Scores,
        log_probs: Scores,
        state: Any,
        step: Int[Array, " B"],
        top_k: TopK,
    ) -> Candidates:
        """Returns the candidates of a step: the 2K best extensions."""
        return best_extensions(live.totals[..., None] + scores, live, log_probs, top_k)

    def priority(self, candidates: Candidates) -> Float[Array, "B C"]:
        """Returns the order in which unfinished candidates stay live: the K largest."""
        return candidates.totals

    def finished_candidates(self, candidates: Candidates, beams: int) -> Candidates:
        """Returns the candidates that may enter the pool if they have ended: the K best."""
        return jax.tree.map(lambda x: x[:, :beams], candidates)

    def rank(
        self, totals: Float[Array, "..."], penalty: Float[Array, "..."]
    ) -> Float[Array, "..."]:
        """Returns the numbers by which finished hypotheses are compared."""
        return totals / penalty


def best_extensions(totals: Scores, live: Live, log_probs: Scores, top_k: TopK) -> Candidates:
    """Returns the extensions with the 2K largest of the K * V totals.

    It finds those of each hypothesis first: one row of K * V totals would need a copy.
    """
    batch, beams, vocab_size = totals.shape
    width = min(2 * beams, vocab_size)
    of_beam, tokens = top_k(totals.reshape(-1, vocab_size), width)  # [B*K 2K]
    best, indices = top_k(of_beam.reshape(batch, -1), min(2 * beams, beams * width))  # [B 2K]
    parents = indices // width
    tokens = jnp.take_along_axis(tokens.reshape(batch, -1), indices, axis=1)
    return Candidates(best, extended_log_probs(live, log_probs, parents, tokens), parents, tokens)


def extended_log_probs(
    live: Live, log_probs: Scores, parents: Int[Array, "B C"], tokens: Int[Array, "B C"]
) -> Float[Array, "B C"]:
    """Returns the model's log-probabilities of hypotheses `parents` with `tokens` added."""
    added = of_extensions(log_probs, parents, tokens)
    return jnp.take_along_axis(live.log_probs, parents, axis=1) + added


def of_extensions(
    x: Scores, parents: Int[Array, "B C"], tokens: Int[Array, "B C"]
) -> Float[Array, "B C"]:
    """Returns the element of x for each extension of hypothesis `parents` by `tokens`."""
    rows = jnp.arange(x.shape[0])[:, None]
    return x[rows, parents, tokens]
