"""The model as a search sees it: one function, from the newest tokens to the next logits.

The search never sees the model, its parameters or the source sentence. It calls a `DecodeStep` once
for every token, and `select` of the cache says which hypotheses continue. So it can search a
Transformer, an ensemble, or a table of Markov probabilities in a test.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

Scores = Float[Array, "B K V"]
"""A number for each next token of K hypotheses of B sentences."""
TopK = Callable[[Array, int], Sequence[Array]]
"""The k largest elements of each row and their indices, called as `jax.lax.top_k`."""


@runtime_checkable
class DecodeCache(Protocol):
    """The model's memory of the hypotheses so far: any pytree with this method."""

    def select(self, parents: Int[Array, "B K"]) -> "DecodeCache":
        """Returns the cache in which beam k of sentence b continues beam `parents[b, k]`."""
        ...


@runtime_checkable
class DecodeStep(Protocol):
    """One token of every hypothesis: `(tokens[B K], cache) -> (logits[B K V], cache)`.

    `tokens` are the newest tokens (BOS at first). `logits` score the tokens that may follow.
    """

    def __call__(
        self, tokens: Int[Array, "B K"], cache: DecodeCache, /
    ) -> tuple[Scores, DecodeCache]:
        """Returns the logits after `tokens`, and the cache that contains them."""
        ...


class Hypotheses(NamedTuple):
    """The result of a search: the `n` best hypotheses of every sentence, best first.

    Where fewer were found, and in an empty row (limit 0), the rest has score -inf and length 0.
    """

    tokens: Int[Array, "B n T"]
    """EOS at the end, padding after it."""
    scores: Float[Array, "B n"]
    """Log-probability divided by the length penalty."""
    lengths: Int[Array, "B n"]
    """Number of tokens, EOS included."""


def lengths_to_eos(
    tokens: Int[Array, "B n T"], scores: Float[Array, "B n"], eos_id: int
) -> Int[Array, "B n"]:
    """Returns the number of tokens up to and including the first EOS; 0 where the score is -inf."""
    lengths = 1 + jnp.argmax(tokens == eos_id, axis=-1).astype(jnp.int32)
    return jnp.where(scores > -jnp.inf, lengths, 0)


def write_token(
    tokens: Int[Array, "B C T"], new: Int[Array, "B C"], step: Int[Array, " B"]
) -> Int[Array, "B C T"]:
    """Returns the token sequences of each sentence with `new` at its position `step`."""
    here = jnp.arange(tokens.shape[2]) == step[:, None, None]
    return jnp.where(here, new[..., None], tokens)
