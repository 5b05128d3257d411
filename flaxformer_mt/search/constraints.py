"""Lexical constraints: phrases that must appear in a translation.

An automaton for each phrase (Knuth, Morris and Pratt 1977) tells how many of its tokens the last
tokens of a hypothesis match. All automata run at the same time, so phrases may overlap and contain
each other. A phrase that ends inside a word counts only if the word ends there too.

The search needs two mechanisms:

- *Masks* guarantee the phrases. EOS is masked while a phrase is missing. Once the tokens left just
  suffice for the missing phrases, everything else is masked: see `Banks.allow`.
- *Banks* keep the translations good (Hokamp and Liu 2017; Post and Vilar 2018). A hypothesis that
  contains a phrase is less probable than one that does not, and would fall out of the beam. So
  extensions that match more of a phrase are always candidates, and the beam is divided among
  hypotheses that have matched 0, 1, 2, ... tokens.

In the same batch, a sentence without phrases gets an ordinary beam search.
"""

from collections.abc import Callable, Sequence

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from flaxformer_mt.search.rules import mark
from flaxformer_mt.search.selection import (
    Best,
    Candidates,
    Live,
    best_extensions,
    extended_log_probs,
)


@flax.struct.dataclass
class Banks(Best):
    """The selection of a beam search with constraints (see `selection.Selection`).

    A state holds for each of M phrases how many of its tokens the hypothesis has just spelt: its
    whole length while it is open whether the word goes on, and `met` (L + 1) ever after.
    """

    phrases: Int[Array, "B M L"]
    """Tokens; -1 after the end."""
    lengths: Int[Array, "B M"]
    """In tokens; 0 for none."""
    table: Int[Array, "B M states symbols"]
    """The next state, from a state and the symbol that was read: i = the i-th token of the phrase
    (the first place where it stands), L = any other token."""
    boundary: Bool[Array, "1 V"]
    """Tokens that do not go on with the word before them."""
    eos_id: int = flax.struct.field(pytree_node=False)

    @property
    def met(self) -> int:
        """The state of a phrase that stands in the hypothesis."""
        return self.phrases.shape[2] + 1

    def start(self, batch: int, beams: int) -> Int[Array, "B K M"]:
        """Nothing is spelt."""
        nothing = jnp.where(self.lengths > 0, 0, self.met)  # [B M]
        return jnp.broadcast_to(nothing[:, None], (batch, beams, nothing.shape[1]))

    def follow(self, state: Int[Array, "B C M"], tokens: Int[Array, "B C"]) -> Int[Array, "B C M"]:
        """The states after one more token."""
        same = self.phrases[:, None] == tokens[..., None, None]  # [B C M L]
        longest = self.phrases.shape[2]
        symbols = jnp.where(same.any(-1), jnp.argmax(same, axis=-1), longest)  # [B C M]
        size = self.table.shape[2] * self.table.shape[3]
        phrase = jnp.arange(self.table.shape[1])
        places = phrase * size + state * self.table.shape[3] + symbols
        flat = self.table.reshape(self.table.shape[0], -1)
        batch, candidates, _ = state.shape
        after = jnp.take_along_axis(flat, places.reshape(batch, -1), axis=1).reshape(state.shape)
        word_ends = self.boundary[0, tokens][..., None]  # [B C 1]
        return jnp.where((state == self.lengths[:, None]) & word_ends, self.met, after)

    def allow(
        self,
        scores: Float[Array, "B K V"],
        log_probs: Float[Array, "B K V"],
        state: Int[Array, "B K M"],
        tokens_left: Int[Array, " B"],
    ) -> Float[Array, "B K V"]:
        """Masks what would make it impossible to write all phrases.

        What it takes to write the open phrases, at most: all tokens of each, if every one is
        begun anew ("rest"); fewer, if one goes on that is spelt in part. A token of the cheapest
        way makes it less by one, whatever it does to the others. Where the tokens left might not
        do after a free choice, only those tokens are allowed; so the last one left is for EOS.

        A hypothesis whose most probable token is EOS has said all, and one that the rules leave
        nothing but EOS has nothing to say; both go on with a phrase too.
        """
        lengths = self.lengths[:, None]  # [B 1 M]
        spelt, open_ = state == lengths, state < lengths  # [B K M]: spelt: does the word end?
        spelt = spelt & (lengths > 0)
        rest = jnp.sum(jnp.where(open_, lengths, 0), -1)  # [B K]
        at_risk = jnp.sum(jnp.where(spelt, lengths, 0), -1)
        going_on, anew = self._next_tokens(state)  # [B K M]
        risk = jnp.where(self.boundary[0, going_on], 0, at_risk[..., None])
        far = jnp.iinfo(jnp.int32).max
        cost_going_on = jnp.where(open_, rest[..., None] - state + risk, far)
        cost_anew = jnp.where(open_, rest[..., None], far)
        need = jnp.minimum(cost_going_on, cost_anew).min(-1, keepdims=True)  # [B K 1]

        def only(chosen: Callable[[Array], Array]) -> Float[Array, "B K V"]:
            ways = jnp.concatenate([chosen(cost_going_on), chosen(cost_anew)], -1)
            tokens = jnp.concatenate([going_on, anew], -1)
            allowed = mark(tokens, ways & jnp.tile(open_, 2), scores.shape[-1])
            return jnp.where(allowed, log_probs, -jnp.inf)

        any_open = open_.any(-1)[..., None]  # [B K 1]
        is_eos = jnp.arange(scores.shape[-1]) == self.eos_id
        wants_end = jnp.argmax(log_probs, -1)[..., None] == self.eos_id
        free = jnp.where(any_open & is_eos, -jnp.inf, scores)
        wants_end = wants_end | jnp.all(free == -jnp.inf, axis=-1, keepdims=True)
        free = jnp.where(any_open & wants_end, only(lambda cost: cost < far), free)
        word_end = jnp.where(self.boundary, log_probs, -jnp.inf)  # what is spelt must stay so
        forced = jnp.where(any_open, only(lambda cost: cost == need), word_end)
        left = tokens_left[:, None] - 1  # [B 1], after the token that comes now
        unmet = rest + at_risk
        tight = (unmet > 0) & (left < unmet + 1)
        return jnp.where(tight[..., None], forced, free)

    def propose(
        self,
        live: Live,
        scores: Float[Array, "B K V"],
        log_probs: Float[Array, "B K V"],
        state: Int[Array, "B K M"],
        step: Int[Array, " B"],
    ) -> Candidates:
        """The 2K best; and of each hypothesis the best token, EOS, and what goes on with a phrase.

        What is among them twice is there once. Without phrases the 2K best are enough: the others
        change nothing then.
        """
        found = best_extensions(live.totals[..., None] + scores, live, log_probs)
        batch, beams, _ = scores.shape
        going_on, anew = self._next_tokens(state)
        best = jnp.argmax(scores, -1)[..., None]
        more = jnp.concatenate([going_on, anew, best, jnp.full_like(best, self.eos_id)], -1)
        totals = live.totals[..., None] + jnp.take_along_axis(scores, more, axis=-1)
        totals = totals.reshape(batch, -1)
        parents = jnp.arange(beams)[:, None] + jnp.zeros_like(more)
        parents, tokens = parents.reshape(batch, -1), more.reshape(batch, -1)
        totals = jnp.concatenate([found.totals, totals], -1)
        parents = jnp.concatenate([found.parents, parents], -1)  # [B C]
        tokens = jnp.concatenate([found.tokens, tokens], -1)
        place = jnp.arange(tokens.shape[1])
        same = (parents[:, :, None] == parents[:, None]) & (tokens[:, :, None] == tokens[:, None])
        again = (same & (place[:, None] > place)).any(-1)
        parent_state = jnp.take_along_axis(state, parents[..., None], axis=1)
        return Candidates(
            totals=jnp.where(again, -jnp.inf, totals),
            log_probs=extended_log_probs(live, log_probs, parents, tokens),
            parents=parents,
            tokens=tokens,
            state=self.follow(parent_state, tokens),
        )

    def priority(self, candidates: Candidates) -> Float[Array, "B C"]:
        """First the best of each bank, the fullest bank before the others; then the second ..."""
        totals = candidates.totals
        spelt = jnp.where(
            candidates.state == self.met, self.lengths[:, None], candidates.state
        ).sum(-1)
        bank = jnp.where(totals > -jnp.inf, spelt, -1)  # [B C]
        place = jnp.arange(totals.shape[1])
        better = (totals[:, None] > totals[:, :, None]) | (
            (totals[:, None] == totals[:, :, None]) & (place < place[:, None])
        )
        rank = (better & (bank[:, None] == bank[:, :, None])).sum(-1)  # within the bank
        num_banks = self.phrases.shape[1] * self.phrases.shape[2] + 1
        order = (bank - rank * num_banks).astype(jnp.float32)
        return jnp.where(totals > -jnp.inf, order, -jnp.inf)

    def finished_candidates(self, candidates: Candidates, beams: int) -> Candidates:
        """All of a sentence with phrases: one with all of them may be less probable than most."""
        constrained = (self.lengths > 0).any(-1)
        may = constrained[:, None] | (jnp.arange(candidates.totals.shape[1]) < beams)
        return candidates._replace(totals=jnp.where(may, candidates.totals, -jnp.inf))

    def _next_tokens(
        self, state: Int[Array, "B K M"]
    ) -> tuple[Int[Array, "B K M"], Int[Array, "B K M"]]:
        """The token that goes on with each phrase, and that which begins it; any, if it is met."""
        phrases = jnp.maximum(self.phrases, 0)[:, None]  # [B 1 M L]
        place = jnp.minimum(state, self.phrases.shape[2] - 1)
        going_on = jnp.take_along_axis(phrases, place[..., None], axis=-1)[..., 0]
        return going_on, jnp.broadcast_to(phrases[..., 0], state.shape)


def make_banks(
    phrases: Sequence[Sequence[Sequence[int]]],
    *,
    rows: int,
    size: tuple[int, int],
    whole_words: Callable[[Sequence[int]], bool],
    boundary: Bool[np.ndarray, " V"],
    eos_id: int,
) -> Banks:
    """The tables of a batch.

    Args:
      phrases: of each sentence, as tokens (no EOS).
      rows: B, at least as many as sentences.
      size: (M, L): room for phrases, and for tokens of each.
      whole_words: whether a phrase ends with a word, so that the word must end there too.
      boundary: as in `Banks`; EOS is one. So is the first token of every phrase, or words need not
        end in this sentence: otherwise one phrase, by being begun, could spoil another.
      eos_id: of the target vocabulary.
    """
    number, longest = size
    tokens = np.full((rows, number, longest), -1, np.int32)
    lengths = np.zeros((rows, number), np.int32)
    table = np.full((rows, number, longest + 2, longest + 1), longest + 1, np.int32)
    for row, of_sentence in enumerate(phrases):
        ends = all(boundary[phrase[0]] for phrase in of_sentence)
        for place, phrase in enumerate(of_sentence):
            tokens[row, place, : len(phrase)] = phrase
            lengths[row, place] = len(phrase)
            table[row, place] = automaton(phrase, longest, whole_words=ends and whole_words(phrase))
    return Banks(
        jax.device_put(tokens),
        jax.device_put(lengths),
        jax.device_put(table),
        jax.device_put(boundary[None]),
        eos_id,
    )


def automaton(
    phrase: Sequence[int], longest: int, *, whole_words: bool
) -> Int[np.ndarray, "states symbols"]:
    """`Banks.table` of one phrase: the longest beginning of it that the tokens read end with."""
    met = longest + 1
    table = np.full((longest + 2, longest + 1), met, np.int32)
    for state in range(len(phrase) + 1):
        for symbol in range(longest + 1):
            read = [*phrase[:state], phrase[symbol] if symbol < len(phrase) else -1]
            lengths = range(min(len(read), len(phrase)), -1, -1)
            spelt = next(n for n in lengths if read[len(read) - n :] == list(phrase[:n]))
            whole = spelt == len(phrase)
            table[state, symbol] = met if whole and not whole_words else spelt
    return table
