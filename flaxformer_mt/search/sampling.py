"""Sampling: random tokens, or random sentences without replacement.

Every sentence has its own seed, so its samples do not depend on the other sentences.
"""

import flax.struct
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, UInt32

from flaxformer_mt.search.selection import (
    Candidates,
    Live,
    Selection,
    best_extensions,
    of_extensions,
)
from flaxformer_mt.search.step import Scores, TopK


@flax.struct.dataclass
class Sampler:
    """Samples the next token of each hypothesis, with probabilities `adjusted_log_probs`."""

    seeds: UInt32[Array, " B"]
    temperature: Float[Array, ""]
    """Above 0. Below 1 makes the distribution sharper, above 1 flatter."""
    top_p: Float[Array, ""] | None = None
    """Samples from the smallest set of most probable tokens whose sum of probabilities reaches this
    value (nucleus sampling)."""
    top_k: int = flax.struct.field(pytree_node=False, default=0)
    """Samples from the k most probable tokens; 0 = all."""

    def __call__(self, scores: Scores, step: Int[Array, " B"]) -> Int[Array, "B K"]:
        """Returns samples by the Gumbel-max trick: the argmax of log p + noise is a sample of p."""
        return jnp.argmax(self.adjusted_log_probs(scores) + self.noise(scores.shape, step), axis=-1)

    def adjusted_log_probs(self, scores: Scores) -> Scores:
        """Returns the log-probabilities after temperature, top-k and top-p, in this order."""
        scores = jax.nn.log_softmax(scores / self.temperature)
        if self.top_k and self.top_k < scores.shape[-1]:
            least = jax.lax.top_k(scores, self.top_k)[0][..., -1:]
            scores = jax.nn.log_softmax(jnp.where(scores < least, -jnp.inf, scores))
        if self.top_p is not None:
            ordered = jnp.sort(scores, axis=-1, descending=True)
            before = jnp.cumsum(jnp.exp(ordered), axis=-1) - jnp.exp(ordered)
            # Keep a token if the tokens before it have less than top_p; always keep the first.
            kept = (before < self.top_p).at[..., 0].set(True)
            least = jnp.min(jnp.where(kept, ordered, jnp.inf), axis=-1, keepdims=True)
            scores = jax.nn.log_softmax(jnp.where(scores < least, -jnp.inf, scores))
        return scores

    def noise(self, shape: tuple[int, ...], step: Int[Array, " B"]) -> Scores:
        """Returns independent Gumbel noise for each sentence, hypothesis, token and step."""

        def of_sentence(seed: UInt32[Array, ""], step: Int[Array, ""]) -> Float[Array, "K V"]:
            key = jax.random.fold_in(jax.random.key(seed), step)
            return jax.random.gumbel(key, shape[1:])

        return jax.vmap(of_sentence)(self.seeds, step)


@flax.struct.dataclass
class WithoutReplacement(Selection):
    """Stochastic beam search: K sentences sampled without replacement (Kool et al. 2019).

    The k largest of log p + Gumbel noise are k samples without replacement. Algorithm 1 of that
    paper samples whole sentences in this way, token by token: the noise of a prefix is the maximum
    of the noise of all its continuations. So it is a beam search that compares perturbed
    log-probabilities. The length penalty has no effect. The state of a hypothesis is its
    log-probability under the distribution that is sampled (`Sampler.adjusted_log_probs`).
    """

    sampler: Sampler

    def start(self, batch: int, beams: int) -> Float[Array, "B K"]:
        """Returns log 1 for the empty hypotheses."""
        return jnp.zeros((batch, beams), jnp.float32)

    def propose(
        self,
        live: Live,
        scores: Scores,
        log_probs: Scores,
        state: Float[Array, "B K"],
        step: Int[Array, " B"],
        top_k: TopK,
    ) -> Candidates:
        """Returns the 2K extensions with the largest perturbed log-probabilities."""
        totals = state[..., None] + self.sampler.adjusted_log_probs(scores)  # [B K V]
        noisy = totals + self.sampler.noise(scores.shape, step)
        noisy = with_maximum(noisy, live.totals[..., None])
        noisy = jnp.where(live.totals[..., None] > -jnp.inf, noisy, -jnp.inf)
        found = best_extensions(noisy, live, log_probs, top_k)
        return found._replace(state=of_extensions(totals, found.parents, found.tokens))

    def rank(
        self, totals: Float[Array, "..."], penalty: Float[Array, "..."]
    ) -> Float[Array, "..."]:
        """Returns the perturbed log-probabilities, without a length penalty."""
        return totals


def with_maximum(x: Float[Array, "... V"], maximum: Float[Array, "... 1"]) -> Float[Array, "... V"]:
    """Returns the Gumbel variables x, shifted so that their largest is `maximum`.

    They have the conditional distribution given that maximum. The numerically stable form is from
    Kool et al. 2019, appendix B.3.
    """
    largest = jnp.max(x, axis=-1, keepdims=True)
    below = jnp.where(x < largest, jnp.log1p(-jnp.exp(jnp.minimum(x - largest, -1e-7))), -jnp.inf)
    v = maximum - x + below
    changed = maximum - jnp.maximum(v, 0) - jnp.log1p(jnp.exp(-jnp.abs(v)))
    return jnp.where(x == largest, maximum, jnp.where(x > -jnp.inf, changed, -jnp.inf))
