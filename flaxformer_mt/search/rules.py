"""Rules on the next token, as functions of log-probabilities: length, repetition, prefix.

A rule is a pytree: its arrays are arguments of the compiled program. A rule that is not used adds
no code. Rules change what a search compares. The reported score is always the model's.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import flax.struct
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from flaxformer_mt.search.step import Scores


class History(NamedTuple):
    """The tokens of the hypotheses so far."""

    tokens: Int[Array, "B K T"]
    """Undefined from position `step` on."""
    step: Int[Array, " B"]
    """Number of tokens."""


Rule = Callable[[Scores, History], Scores]
"""(scores, chosen) -> the scores that the search compares; -inf for a token that must not come
next."""


def apply_rules(rules: Sequence[Rule], log_probs: Scores, chosen: History) -> Scores:
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

    def __call__(self, scores: Scores, chosen: History) -> Scores:
        """Returns `scores` with EOS masked where the translation is too short."""
        too_short = chosen.step + 1 < self.lengths  # [B]
        is_eos = jnp.arange(scores.shape[-1]) == self.eos_id
        return jnp.where(too_short[:, None, None] & is_eos, -jnp.inf, scores)


@flax.struct.dataclass
class NoRepeatedNgram:
    """Forbids repeated n-grams (Paulus et al. 2017), as Hugging Face's no_repeat_ngram_size."""

    size: int = flax.struct.field(pytree_node=False)

    def __call__(self, scores: Scores, chosen: History) -> Scores:
        """Returns `scores` with tokens masked that would complete a repeated n-gram."""
        tokens, step = chosen
        size, room = self.size, tokens.shape[2]
        if room < size:
            return scores
        # If the last n - 1 tokens occurred before, the token that followed them is forbidden.
        indices = jnp.maximum(step[:, None] - (size - 1), 0) + jnp.arange(size - 1)  # [B n-1]
        last = jnp.take_along_axis(tokens, indices[:, None], axis=2)
        starts = room - size + 1
        same = jnp.arange(starts) + size - 1 < step[:, None, None]  # the n-gram is complete
        for i in range(size - 1):
            same = same & (tokens[..., i : i + starts] == last[..., i : i + 1])
        same = jnp.broadcast_to(same, (*tokens.shape[:2], starts))
        return jnp.where(mark(tokens[..., size - 1 :], same, scores.shape[-1]), -jnp.inf, scores)


@flax.struct.dataclass
class RepetitionPenalty:
    """Multiplies log-probabilities of tokens chosen before by `factor` (Keskar et al. 2019).

    A factor above 1 makes them less probable. Hugging Face's beam search does the same.
    """

    factor: Float[Array, ""]

    def __call__(self, scores: Scores, chosen: History) -> Scores:
        """Returns `scores` with another value for tokens that the hypothesis contains."""
        written = jnp.arange(chosen.tokens.shape[2]) < chosen.step[:, None, None]
        written = jnp.broadcast_to(written, chosen.tokens.shape)
        seen = mark(chosen.tokens, written, scores.shape[-1])
        return jnp.where(seen, scores * self.factor, scores)


@flax.struct.dataclass
class Completion:
    """Allows tokens that spell a text of up to C characters. The last token may be longer.

    The rank of a piece is its index in alphabetical order, so the pieces that begin with the same
    text have consecutive ranks.
    """

    lengths: Int[Array, " B"]
    """Characters of the text."""
    ranges: Int[Array, "B C 2"]
    """For each character: ranks (from, to) of the pieces that begin with the text from it on."""
    parts: Int[Array, "B C C"]
    """For each character: tokens that spell a part of the text from it on; -1 = none."""
    ranks: Int[Array, "1 V"]
    widths: Int[Array, "1 V"]
    """Characters of each piece."""

    def __call__(
        self, chosen: History, start: Int[Array, " B"], vocab_size: int
    ) -> tuple[Bool[Array, "B K"], Bool[Array, "B K V"]]:
        """Returns where the text is not complete, and the tokens that may come next there.

        Args:
          chosen: the hypotheses.
          start: the position of the first token of the text.
          vocab_size: V.
        """
        position = jnp.arange(chosen.tokens.shape[2])
        inside = (position >= start[:, None]) & (position < chosen.step[:, None])  # [B T]
        widths = jnp.where(inside[:, None], self.widths[0][chosen.tokens], 0)  # [B K T]
        written = widths.sum(-1)  # [B K]
        here = jnp.minimum(written, self.ranges.shape[1] - 1)[..., None]  # [B K 1]
        ranges = jnp.take_along_axis(self.ranges, here, axis=1)  # [B K 2]
        parts = jnp.take_along_axis(self.parts, here, axis=1)  # [B K C]
        complete = (self.ranks[0] >= ranges[..., :1]) & (self.ranks[0] < ranges[..., 1:])
        partial = mark(jnp.maximum(parts, 0), parts >= 0, vocab_size)
        return written < self.lengths[:, None], complete | partial


@flax.struct.dataclass
class ForcedPrefix:
    """Forces the first `lengths` tokens to those of `tokens`, whatever rules and selection say.

    The tokens after them spell the text of `completion`. Where the prefix `ends_word`, the token
    after it does not continue the word before it, if another one is possible.
    """

    tokens: Int[Array, "B P"]
    lengths: Int[Array, " B"]
    completion: Completion | None = None
    ends_word: Bool[Array, " B"] | None = None
    boundary: Bool[Array, "1 V"] | None = None
    """True for tokens that do not continue the word before them; None without `ends_word`."""

    def __call__(self, scores: Scores, log_probs: Scores, chosen: History) -> Scores:
        """Returns `scores`; within the prefix only its tokens, with `log_probs`."""
        position = jnp.minimum(chosen.step, self.tokens.shape[1] - 1)
        forced = jnp.take_along_axis(self.tokens, position[:, None], axis=1)  # [B 1]
        allowed = (jnp.arange(scores.shape[-1]) == forced)[:, None]  # [B 1 V]
        inside = (chosen.step < self.lengths)[:, None]  # [B 1]
        if self.completion is not None:
            is_open, ways = self.completion(chosen, self.lengths, scores.shape[-1])
            allowed = jnp.where(inside[..., None], allowed, ways)
            inside = inside | is_open
        if self.ends_word is not None and self.boundary is not None:
            next_word = jnp.where(self.boundary, scores, -jnp.inf)
            is_possible = jnp.any(next_word > -jnp.inf, axis=-1, keepdims=True)
            ends = (self.ends_word & (chosen.step == self.lengths))[:, None, None]
            scores = jnp.where(ends & is_possible, next_word, scores)
        return jnp.where(inside[..., None], jnp.where(allowed, log_probs, -jnp.inf), scores)


def mark(
    tokens: Int[Array, "B K N"], where: Bool[Array, "B K N"], vocab_size: int
) -> Bool[Array, "B K V"]:
    """Returns True for the vocabulary's tokens that are in `tokens[where]` of each hypothesis."""
    batch, beams, _ = tokens.shape
    rows, columns = jnp.arange(batch)[:, None, None], jnp.arange(beams)[:, None]
    nothing = jnp.zeros((batch, beams, vocab_size), bool)
    return nothing.at[rows, columns, tokens].max(where)
