"""Lexical constraints: phrases that must appear in a translation.

For each phrase an automaton (Knuth, Morris and Pratt 1977) counts how many of its first tokens the
hypothesis ends with. All automata run at the same time, so phrases may overlap and contain
each other. A phrase that ends inside a word counts only if the word ends there too.

The search needs two mechanisms:

- *Masks* guarantee the phrases. EOS is masked while a phrase is missing. When the tokens left are
  only just enough for the missing phrases, everything else is masked: see `Banks.allow`.
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
    Candidates,
    Live,
    Selection,
    best_extensions,
    extended_log_probs,
)
from flaxformer_mt.search.step import Scores, TopK


@flax.struct.dataclass
class Banks(Selection):
    """The selection of a beam search with constraints.

    The state of a phrase is the number of its first tokens that the hypothesis ends with. At the
    end of the phrase the state is its length, until the next token shows whether the word ends
    there. If so, the state is `satisfied` (L + 1) for the rest of the hypothesis.
    """

    phrases: Int[Array, "B M L"]
    """Tokens; -1 after the end of a phrase."""
    lengths: Int[Array, "B M"]
    """Number of tokens; 0 for no phrase."""
    table: Int[Array, "B M states symbols"]
    """The next state for each state and symbol. Symbol i is the i-th token of the phrase (a token
    that occurs twice has the first i), symbol L any other token."""
    boundary: Bool[Array, "1 V"]
    """True for tokens that do not continue the word before them."""
    eos_id: int = flax.struct.field(pytree_node=False)

    @property
    def satisfied(self) -> int:
        """The state of a phrase that the hypothesis contains."""
        return self.phrases.shape[2] + 1

    def start(self, batch: int, beams: int) -> Int[Array, "B K M"]:
        """Returns state 0 for every phrase."""
        first = jnp.where(self.lengths > 0, 0, self.satisfied)  # [B M]
        return jnp.broadcast_to(first[:, None], (batch, beams, first.shape[1]))

    def follow(self, state: Int[Array, "B C M"], tokens: Int[Array, "B C"]) -> Int[Array, "B C M"]:
        """Returns the states after one more token."""
        same = self.phrases[:, None] == tokens[..., None, None]  # [B C M L]
        longest = self.phrases.shape[2]
        symbols = jnp.where(same.any(-1), jnp.argmax(same, axis=-1), longest)  # [B C M]
        size = self.table.shape[2] * self.table.shape[3]
        phrase = jnp.arange(self.table.shape[1])
        entries = phrase * size + state * self.table.shape[3] + symbols
        flat = self.table.reshape(self.table.shape[0], -1)
        batch, candidates, _ = state.shape
        after = jnp.take_along_axis(flat, entries.reshape(batch, -1), axis=1).reshape(state.shape)
        word_ends = self.boundary[0, tokens][..., None]  # [B C 1]
        return jnp.where((state == self.lengths[:, None]) & word_ends, self.satisfied, after)

    def allow(
        self,
        scores: Scores,
        log_probs: Scores,
        state: Int[Array, "B K M"],
        tokens_left: Int[Array, " B"],
    ) -> Scores:
        """Returns `scores` without the tokens that would make it impossible to write all phrases.

        A phrase is open until the hypothesis contains it. `missing` is the number of tokens needed
        if all open phrases start anew. A phrase that is already begun needs fewer. The cheapest
        next token lowers the need by one, even if other phrases must start anew. If too few tokens
        might be left after a free choice, only the cheapest next tokens are allowed. One token is
        always left for EOS.

        If EOS is the most probable token, or the only one that the rules allow, while a phrase is
        open, the hypothesis must continue with a phrase.
        """
        lengths = self.lengths[:, None]  # [B 1 M]
        is_open = state < lengths  # [B K M]
        is_whole = (state == lengths) & (lengths > 0)  # all tokens; the word may continue
        missing = jnp.sum(jnp.where(is_open, lengths, 0), -1)  # [B K]
        at_risk = jnp.sum(jnp.where(is_whole, lengths, 0), -1)
        next_tokens, first_tokens = self._next_tokens(state)  # [B K M]
        risk = jnp.where(self.boundary[0, next_tokens], 0, at_risk[..., None])
        never = jnp.iinfo(jnp.int32).max
        cost_of_next = jnp.where(is_open, missing[..., None] - state + risk, never)
        cost_of_first = jnp.where(is_open, missing[..., None], never)
        least = jnp.minimum(cost_of_next, cost_of_first).min(-1, keepdims=True)  # [B K 1]

        def only(chosen: Callable[[Array], Array]) -> Scores:
            ways = jnp.concatenate([chosen(cost_of_next), chosen(cost_of_first)], -1)
            tokens = jnp.concatenate([next_tokens, first_tokens], -1)
            allowed = mark(tokens, ways & jnp.tile(is_open, 2), scores.shape[-1])
            return jnp.where(allowed, log_probs, -jnp.inf)

        any_open = is_open.any(-1)[..., None]  # [B K 1]
        is_eos = jnp.arange(scores.shape[-1]) == self.eos_id
        wants_end = jnp.argmax(log_probs, -1)[..., None] == self.eos_id
        free = jnp.where(any_open & is_eos, -jnp.inf, scores)
        wants_end = wants_end | jnp.all(free == -jnp.inf, axis=-1, keepdims=True)
        free = jnp.where(any_open & wants_end, only(lambda cost: cost < never), free)
        word_end = jnp.where(self.boundary, log_probs, -jnp.inf)  # keeps whole phrases complete
        forced = jnp.where(any_open, only(lambda cost: cost == least), word_end)
        left = tokens_left[:, None] - 1  # [B 1], after this token
        needed = missing + at_risk
        is_tight = (needed > 0) & (left < needed + 1)
        return jnp.where(is_tight[..., None], forced, free)

    def propose(
        self,
        live: Live,
        scores: Scores,
        log_probs: Scores,
        state: Int[Array, "B K M"],
        step: Int[Array, " B"],
        top_k: TopK,
    ) -> Candidates:
        """Returns the 2K best extensions, and others of each hypothesis.

        The others are its best token, EOS, and the tokens that continue or begin a phrase. Each
        candidate counts once. These extra candidates never change the result of a sentence without
        phrases.
        """
        found = best_extensions(live.totals[..., None] + scores, live, log_probs, top_k)
        batch, beams, _ = scores.shape
        best = jnp.argmax(scores, -1)[..., None]
        eos = jnp.full_like(best, self.eos_id)
        more = jnp.concatenate([*self._next_tokens(state), best, eos], -1)
        totals = live.totals[..., None] + jnp.take_along_axis(scores, more, axis=-1)
        totals = totals.reshape(batch, -1)
        parents = jnp.arange(beams)[:, None] + jnp.zeros_like(more)
        parents, tokens = parents.reshape(batch, -1), more.reshape(batch, -1)
        totals = jnp.concatenate([found.totals, totals], -1)
        parents = jnp.concatenate([found.parents, parents], -1)  # [B C]
        tokens = jnp.concatenate([found.tokens, tokens], -1)
        number = jnp.arange(tokens.shape[1])
        same = (parents[:, :, None] == parents[:, None]) & (tokens[:, :, None] == tokens[:, None])
        is_repeated = (same & (number[:, None] > number)).any(-1)
        parent_state = jnp.take_along_axis(state, parents[..., None], axis=1)
        return Candidates(
            totals=jnp.where(is_repeated, -jnp.inf, totals),
            log_probs=extended_log_probs(live, log_probs, parents, tokens),
            parents=parents,
            tokens=tokens,
            state=self.follow(parent_state, tokens),
        )

    def priority(self, candidates: Candidates) -> Float[Array, "B C"]:
        """Returns an order that alternates between the banks.

        First comes the best candidate of each bank, the bank with most matched tokens first; then
        the second best of each, and so on.
        """
        totals = candidates.totals
        is_satisfied = candidates.state == self.satisfied
        matched = jnp.where(is_satisfied, self.lengths[:, None], candidates.state).sum(-1)
        bank = jnp.where(totals > -jnp.inf, matched, -1)  # [B C]
        number = jnp.arange(totals.shape[1])
        better = (totals[:, None] > totals[:, :, None]) | (
            (totals[:, None] == totals[:, :, None]) & (number < number[:, None])
        )
        rank = (better & (bank[:, None] == bank[:, :, None])).sum(-1)  # within the bank
        num_banks = self.phrases.shape[1] * self.phrases.shape[2] + 1
        order = (bank - rank * num_banks).astype(jnp.float32)
        return jnp.where(totals > -jnp.inf, order, -jnp.inf)

    def finished_candidates(self, candidates: Candidates, beams: int) -> Candidates:
        """Returns all candidates of sentences with phrases, and the K best of the others.

        A candidate that contains all phrases may be less probable than most.
        """
        constrained = (self.lengths > 0).any(-1)
        may = constrained[:, None] | (jnp.arange(candidates.totals.shape[1]) < beams)
        return candidates._replace(totals=jnp.where(may, candidates.totals, -jnp.inf))

    def _next_tokens(
        self, state: Int[Array, "B K M"]
    ) -> tuple[Int[Array, "B K M"], Int[Array, "B K M"]]:
        """Returns the token that continues each phrase and the one that begins it.

        They have no meaning for satisfied phrases.
        """
        phrases = jnp.maximum(self.phrases, 0)[:, None]  # [B 1 M L]
        index = jnp.minimum(state, self.phrases.shape[2] - 1)
        next_tokens = jnp.take_along_axis(phrases, index[..., None], axis=-1)[..., 0]
        return next_tokens, jnp.broadcast_to(phrases[..., 0], state.shape)


def make_banks(
    phrases: Sequence[Sequence[Sequence[int]]],
    *,
    rows: int,
    size: tuple[int, int],
    whole_words: Callable[[Sequence[int]], bool],
    boundary: Bool[np.ndarray, " V"],
    eos_id: int,
) -> Banks:
    """Returns the constraints of a batch.

    Args:
      phrases: of each sentence, as tokens (no EOS).
      rows: B, at least the number of sentences.
      size: (M, L), the largest number of phrases and of tokens in each.
      whole_words: whether a phrase ends with a word, so that the word must end there.
      boundary: as in `Banks`; contains EOS. If the first token of a phrase is not in it, word ends
        are not checked in this sentence. Otherwise the first token of one phrase could undo
        another phrase.
      eos_id: of the target vocabulary.
    """
    number, longest = size
    tokens = np.full((rows, number, longest), -1, np.int32)
    lengths = np.zeros((rows, number), np.int32)
    table = np.full((rows, number, longest + 2, longest + 1), longest + 1, np.int32)
    for row, of_sentence in enumerate(phrases):
        ends = all(boundary[phrase[0]] for phrase in of_sentence)
        for column, phrase in enumerate(of_sentence):
            tokens[row, column, : len(phrase)] = phrase
            lengths[row, column] = len(phrase)
            table[row, column] = automaton(
                phrase, longest, whole_words=ends and whole_words(phrase)
            )
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
    """Returns `Banks.table` of one phrase.

    The next state is the length of the longest beginning of the phrase with which the tokens end.
    """
    satisfied = longest + 1
    table = np.full((longest + 2, longest + 1), satisfied, np.int32)
    for state in range(len(phrase) + 1):
        for symbol in range(longest + 1):
            read = [*phrase[:state], phrase[symbol] if symbol < len(phrase) else -1]
            lengths = range(min(len(read), len(phrase)), -1, -1)
            matched = next(n for n in lengths if read[len(read) - n :] == list(phrase[:n]))
            is_whole = matched == len(phrase)
            table[state, symbol] = satisfied if is_whole and not whole_words else matched
    return table
