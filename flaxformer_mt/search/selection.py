"""Which extensions of its hypotheses a beam search keeps: the best ones, unless told otherwise.

`Best` is the plain rule; `sampling.WithoutReplacement` draws, and `constraints.Banks` sees to it
that phrases that must appear are not crowded out. Each is a pytree, an argument of the compiled
program, chosen at one place.
"""

from typing import Any, NamedTuple, Protocol, runtime_checkable

import flax.struct
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from flaxformer_mt.search.top_k import top_k


class Live(NamedTuple):
    """Hypotheses that go on; total -inf marks an empty place."""

    tokens: Int[Array, "B K T"]
    totals: Float[Array, "B K"]
    """What the search compares: the sum of what the rules made of the log-probabilities."""
    log_probs: Float[Array, "B K"]
    """What the model says."""


class Candidates(NamedTuple):
    """C extensions of a sentence's live hypotheses by one token; total -inf marks an empty place.

    The 2K best come first, in order.
    """

    totals: Float[Array, "B C"]
    log_probs: Float[Array, "B C"]
    parents: Int[Array, "B C"]
    """The beam that each one extends."""
    tokens: Int[Array, "B C"]
    """The token that each one adds."""
    state: Any = ()
    """What the selection remembers of each: any pytree of arrays [B C ...]."""

    def first(self, number: int) -> "Candidates":
        """The first ones."""
        return jax.tree.map(lambda x: x[:, :number], self)


@runtime_checkable
class Selection(Protocol):
    """The choices of a beam search."""

    def start(self, batch: int, beams: int, /) -> Any:
        """What is remembered of the empty hypotheses: any pytree of arrays [B K ...]."""
        ...

    def allow(
        self,
        scores: Float[Array, "B K V"],
        log_probs: Float[Array, "B K V"],
        state: Any,
        tokens_left: Int[Array, " B"],
        /,
    ) -> Float[Array, "B K V"]:
        """`scores` with -inf for what must not come next; `log_probs` are the model's own."""
        ...

    def propose(
        self,
        live: Live,
        scores: Float[Array, "B K V"],
        log_probs: Float[Array, "B K V"],
        state: Any,
        step: Int[Array, " B"],
        /,
    ) -> Candidates:
        """The candidates of a step."""
        ...

    def priority(self, candidates: Candidates, /) -> Float[Array, "B C"]:
        """Of those that have not ended, the K largest of this go on."""
        ...

    def finished_candidates(self, candidates: Candidates, beams: int, /) -> Candidates:
        """Those that may enter the pool if they have ended."""
        ...

    def rank(
        self, totals: Float[Array, "..."], penalty: Float[Array, "..."], /
    ) -> Float[Array, "..."]:
        """By what finished hypotheses are compared."""
        ...


@flax.struct.dataclass
class Best:
    """By log-probability; finished ones by log-probability / length penalty.

    The others begin here, and say what they do otherwise.
    """

    def start(self, batch: int, beams: int) -> tuple[()]:
        """Nothing is remembered."""
        return ()

    def allow(
        self, scores: Float[Array, "B K V"], log_probs: Float[Array, "B K V"], *_: object
    ) -> Float[Array, "B K V"]:
        """All that the rules allow."""
        return scores

    def propose(
        self,
        live: Live,
        scores: Float[Array, "B K V"],
        log_probs: Float[Array, "B K V"],
        state: Any,
        step: Int[Array, " B"],
    ) -> Candidates:
        """The 2K best."""
        return best_extensions(live.totals[..., None] + scores, live, log_probs)

    def priority(self, candidates: Candidates) -> Float[Array, "B C"]:
        """The totals themselves."""
        return candidates.totals

    def finished_candidates(self, candidates: Candidates, beams: int) -> Candidates:
        """Those among the K best."""
        return candidates.first(beams)

    def rank(
        self, totals: Float[Array, "..."], penalty: Float[Array, "..."]
    ) -> Float[Array, "..."]:
        """The score of the length penalty."""
        return totals / penalty


def best_extensions(
    totals: Float[Array, "B K V"], live: Live, log_probs: Float[Array, "B K V"]
) -> Candidates:
    """The 2K largest of the K * V totals."""
    _, beams, vocab_size = totals.shape
    best, places = top_k(totals, 2 * beams, axes=2)  # [B 2K]
    parents, tokens = places // vocab_size, places % vocab_size
    return Candidates(best, extended_log_probs(live, log_probs, parents, tokens), parents, tokens)


def extended_log_probs(
    live: Live,
    log_probs: Float[Array, "B K V"],
    parents: Int[Array, "B C"],
    tokens: Int[Array, "B C"],
) -> Float[Array, "B C"]:
    """What the model says of hypotheses `parents` with `tokens` added."""
    added = of_extensions(log_probs, parents, tokens)
    return jnp.take_along_axis(live.log_probs, parents, axis=1) + added


def of_extensions(
    x: Float[Array, "B K V"], parents: Int[Array, "B C"], tokens: Int[Array, "B C"]
) -> Float[Array, "B C"]:
    """The number that x has for each extension of hypothesis `parents` by `tokens`."""
    rows = jnp.arange(x.shape[0])[:, None]
    return x[rows, parents, tokens]
