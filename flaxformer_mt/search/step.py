"""What a search knows of a model: one function, from the last tokens to the next logits.

The search never sees the model, its parameters or the source sentence. It calls a `DecodeStep` once
for every token position and tells the cache, by `select`, which hypotheses went on. Anything that
keeps to this (a Transformer, an ensemble, a table of Markov probabilities in a test) can be
searched.
"""

from typing import NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from flaxformer_mt.search.config import ForcedEnd


@runtime_checkable
class DecodeCache(Protocol):
    """What the model remembers of the hypotheses so far: any pytree with this method."""

    def select(self, parents: Int[Array, "B K"]) -> "DecodeCache":
        """Let beam k of sentence b continue the hypothesis that was in beam `parents[b, k]`."""
        ...


@runtime_checkable
class DecodeStep(Protocol):
    """One token for every hypothesis: `(tokens[B K], cache) -> (logits[B K V], cache)`.

    `tokens` are the tokens chosen last (BOS at first), `logits` score the tokens that may follow.
    """

    def __call__(
        self, tokens: Int[Array, "B K"], cache: DecodeCache, /
    ) -> tuple[Float[Array, "B K V"], DecodeCache]:
        """Logits after `tokens`, and the cache that remembers them."""
        ...


class Hypotheses(NamedTuple):
    """What a search gives back for every sentence: its `n` best hypotheses, best first.

    A sentence for which fewer were found (or that was empty: limit 0) has score -inf and length 0
    in the places left over.
    """

    tokens: Int[Array, "B n T"]
    """EOS at the end, padding after it."""
    scores: Float[Array, "B n"]
    """Log-probability divided by the length penalty."""
    lengths: Int[Array, "B n"]
    """Number of tokens, EOS included."""


def next_log_probs(
    logits: Float[Array, "B K V"], suppressed: Bool[Array, " V"], *, renormalize: bool = False
) -> Float[Array, "B K V"]:
    """What the model says of the next token; -inf for what no translation may contain.

    The mask comes after the softmax: what is forbidden keeps its share of the probability, so that
    a hypothesis gets the very score that the model, teacher-forced, gives to its tokens. With
    `renormalize` it has no share: the mask comes before the softmax.
    """
    logits = logits.astype(jnp.float32)
    if renormalize:
        logits = jnp.where(suppressed, -jnp.inf, logits)
    return jnp.where(suppressed, -jnp.inf, jax.nn.log_softmax(logits))


def end_at_limit(
    scores: Float[Array, "B K V"],
    log_probs: Float[Array, "B K V"],
    must_end: Bool[Array, " B"],
    *,
    eos_id: int,
    forced_end: ForcedEnd,
) -> Float[Array, "B K V"]:
    """Where `must_end` (one place is left) only EOS may come, whatever rules have made of it.

    It has the model's log-probability, or 0 if `forced_end` is "free".
    """
    is_eos = jnp.arange(scores.shape[-1]) == eos_id
    end = jnp.where(is_eos, 0.0 if forced_end == "free" else log_probs, -jnp.inf)
    return jnp.where(must_end[:, None, None], end, scores)


def lengths_to_eos(
    tokens: Int[Array, "B n T"], scores: Float[Array, "B n"], eos_id: int
) -> Int[Array, "B n"]:
    """Tokens up to and with the first EOS; 0 for an empty place (score -inf)."""
    lengths = 1 + jnp.argmax(tokens == eos_id, axis=-1).astype(jnp.int32)
    return jnp.where(scores > -jnp.inf, lengths, 0)


def put(
    tokens: Int[Array, "B C T"], new: Int[Array, "B C"], step: Int[Array, " B"]
) -> Int[Array, "B C T"]:
    """The token sequences of each sentence with `new` at its position `step`."""
    here = jnp.arange(tokens.shape[2]) == step[:, None, None]
    return jnp.where(here, new[..., None], tokens)
