"""Rules on the next token, as functions of log-probabilities: length, repetition, prefix.

A rule is a pytree: its arrays are arguments of the compiled program. A rule that is not used adds
no code. Rules change what a search compares. The reported score is always the model's.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import flax.struct
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int


class History(NamedTuple):
    """The tokens of the hypotheses so far."""

    tokens: Int[Array, "B K T"]
    """Undefined from position `step` on."""
    step: Int[Array, " B"]
    """Number of tokens."""


@runtime_checkable
class Rule(Protocol):
    """Changes the log-probabilities of the next token that the search compares."""

    def __call__(self, scores: Float[Array, "B K V"], chosen: History, /) -> Float[Array, "B K V"]:
        """Returns the changed `scores`; -inf for a token that must not come next."""
        ...


def apply_rules(
    rules: Sequence[Rule], log_probs: Float[Array, "B K V"], chosen: History
) -> Float[Array, "B K V"]:
    """Returns the log-probabilities after all rules, applied in this order.

    If the rules together forbid every token of a hypothesis, they are ignored for it: a hypothesis
    can always continue.
    """
    scores = log_probs
    for rule in rules:
        scores = rule(scores, chosen)
    if not rules:
        return scores
    nothing_left = jnp.all(scores == -jnp.inf, axis=-1, keepdims=True)  # [B K 1]
    return jnp.where(nothing_left, log_probs, scores)


@flax.struct.dataclass
class MinLength:
    """Forbids EOS before a translation has `lengths` tokens, EOS included."""

    lengths: Int[Array, " B"]
    eos_id: int = flax.struct.field(pytree_node=False)

    def __call__(self, scores: Float[Array, "B K V"], chosen: History) -> Float[Array, "B K V"]:
        """Returns `scores` with EOS masked where the translation is too short."""
        too_short = chosen.step + 1 < self.lengths  # [B]
        is_eos = jnp.arange(scores.shape[-1]) == self.eos_id
        return jnp.where(too_short[:, None, None] & is_eos, -jnp.inf, scores)


@flax.struct.dataclass
class NoRepeatedNgram:
    """Forbids repeated n-grams (Paulus et al. 2017), as Hugging Face's no_repeat_ngram_size."""

    size: int = flax.struct.field(pytree_node=False)

    def __call__(self, scores: Float[Array, "B K V"], chosen: History) -> Float[Array, "B K V"]:
        """Returns `scores` with tokens masked that would complete a repeated n-gram."""
        tokens, step = chosen
        size, room = self.size, tokens.shape[2]
        if room < size:
            return scores
        # If the last n - 1 tokens occurred before, the token that followed them is forbidden.
        places = jnp.maximum(step[:, None] - (size - 1), 0) + jnp.arange(size - 1)  # [B n-1]
        last = jnp.take_along_axis(tokens, places[:, None], axis=2)
        starts = room - size + 1
        same = jnp.arange(starts) + size - 1 < step[:, None, None]  # the n-gram is complete
        for place in range(size - 1):
            same = same & (tokens[..., place : place + starts] == last[..., place : place + 1])
        same = jnp.broadcast_to(same, (*tokens.shape[:2], starts))
        return jnp.where(mark(tokens[..., size - 1 :], same, scores.shape[-1]), -jnp.inf, scores)


@flax.struct.dataclass
class RepetitionPenalty:
    """Multiplies log-probabilities of tokens chosen before by `factor` (Keskar et al. 2019).

    A factor above 1 makes them less probable. Hugging Face's beam search does the same.
    """

    factor: Float[Array, ""]

    def __call__(self, scores: Float[Array, "B K V"], chosen: History) -> Float[Array, "B K V"]:
        """Returns `scores` with another value for tokens that the hypothesis contains."""
        written = jnp.arange(chosen.tokens.shape[2]) < chosen.step[:, None, None]
        written = jnp.broadcast_to(written, chosen.tokens.shape)
        seen = mark(chosen.tokens, written, scores.shape[-1])
        return jnp.where(seen, scores * self.factor, scores)


@flax.struct.dataclass
class ForcedPrefix:
    """The first `lengths` tokens are those of `tokens`, whatever rules and selection say."""

    tokens: Int[Array, "B P"]
    lengths: Int[Array, " B"]

    def __call__(
        self,
        scores: Float[Array, "B K V"],
        log_probs: Float[Array, "B K V"],
        step: Int[Array, " B"],
    ) -> Float[Array, "B K V"]:
        """`scores` after the prefix; inside of it those of the model, for one token."""
        place = jnp.minimum(step, self.tokens.shape[1] - 1)
        forced = jnp.take_along_axis(self.tokens, place[:, None], axis=1)  # [B 1]
        is_forced = jnp.arange(scores.shape[-1]) == forced  # [B V]
        only = jnp.where(is_forced[:, None], log_probs, -jnp.inf)
        return jnp.where((step < self.lengths)[:, None, None], only, scores)


def mark(
    tokens: Int[Array, "B K N"], where: Bool[Array, "B K N"], vocab_size: int
) -> Bool[Array, "B K V"]:
    """Returns True for the vocabulary's tokens that are in `tokens[where]` of each hypothesis."""
    batch, beams, _ = tokens.shape
    rows, columns = jnp.arange(batch)[:, None, None], jnp.arange(beams)[:, None]
    nothing = jnp.zeros((batch, beams, vocab_size), bool)
    return nothing.at[rows, columns, tokens].max(where)
