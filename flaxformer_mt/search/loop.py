"""The loop over tokens that all searches share, and the arguments of a search.

A search is a `Search`: four functions over a state. `run` searches a batch of sentences from their
first token to their last. `run_queue` runs the same functions over more sentences than fit in the
batch.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import flax.struct
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from flaxformer_mt.search.config import ForcedEnd, LengthNormalization
from flaxformer_mt.search.rules import ForcedPrefix, History, Rule, apply_rules
from flaxformer_mt.search.scoring import penalty
from flaxformer_mt.search.selection import Selection
from flaxformer_mt.search.step import DecodeCache, DecodeStep, Hypotheses, Scores


@flax.struct.dataclass
class SearchSettings:
    """The settings of a search that are the same for all its sentences.

    Attributes:
      suppressed: tokens that are never chosen (padding, BOS, and unknown words unless allowed).
      length_penalty: alpha >= 0 of `scoring.penalty`.
      bos_id: the first input of the model.
      eos_id: ends a hypothesis.
      pad_id: fills the tokens after EOS.
      max_target_length: T, the largest number of tokens, EOS included.
      length_normalization: the form of the length penalty.
      forced_end: whether EOS costs its log-probability at the length limit, or nothing.
      renormalize: take the probability of suppressed tokens out of the total.
    """

    suppressed: Bool[Array, " V"]
    length_penalty: float | Float[Array, ""]
    bos_id: int = flax.struct.field(pytree_node=False)
    eos_id: int = flax.struct.field(pytree_node=False)
    pad_id: int = flax.struct.field(pytree_node=False)
    max_target_length: int = flax.struct.field(pytree_node=False)
    length_normalization: LengthNormalization = flax.struct.field(pytree_node=False, default="gnmt")
    forced_end: ForcedEnd = flax.struct.field(pytree_node=False, default="scored")
    renormalize: bool = flax.struct.field(pytree_node=False, default=False)

    def penalty(self, lengths: Int[Array, "..."]) -> Float[Array, "..."]:
        """Returns the length penalty of hypotheses of these lengths."""
        return penalty(lengths, self.length_penalty, self.length_normalization)

    def next_log_probs(self, logits: Scores) -> Scores:
        """Returns the model's log-probabilities of the next token; -inf for suppressed tokens.

        The mask comes after the softmax. So suppressed tokens keep their share of the probability,
        and a hypothesis gets the same score as with teacher forcing. With `renormalize` the mask
        comes before the softmax, and they have no share.
        """
        logits = logits.astype(jnp.float32)
        if self.renormalize:
            logits = jnp.where(self.suppressed, -jnp.inf, logits)
        return jnp.where(self.suppressed, -jnp.inf, jax.nn.log_softmax(logits))

    def end_at_limit(
        self, scores: Scores, log_probs: Scores, must_end: Bool[Array, " B"]
    ) -> Scores:
        """Returns `scores` in which sentences that `must_end` can only take EOS.

        EOS has the model's log-probability, or 0 if `forced_end` is "free".
        """
        is_eos = jnp.arange(scores.shape[-1]) == self.eos_id
        end = jnp.where(is_eos, 0.0 if self.forced_end == "free" else log_probs, -jnp.inf)
        return jnp.where(must_end[:, None, None], end, scores)


@flax.struct.dataclass
class SentenceOptions:
    """The options of each sentence. Arrays have a row for each sentence, or one row for all.

    An option that is None adds no code to the compiled program. Changing a value compiles nothing.
    """

    length_limits: Int[Array, " Q"]
    """The most tokens of each translation, EOS included; 0 for an empty row."""
    rules: tuple[Rule, ...] = ()
    """Rules that change the scores, applied in this order."""
    prefix: ForcedPrefix | None = None
    """The beginning of each translation."""
    selection: Selection | None = None
    """Which extensions a beam search keeps; None = the best ones."""
    choose: Callable[[Scores, Int[Array, " B"]], Int[Array, "B K"]] | None = None
    """(scores, step) -> tokens, such as `sampling.Sampler`; None = the most probable token."""

    def take(self, sentences: Int[Array, " B"]) -> "SentenceOptions":
        """Returns the options of some sentences; a number beyond the last one has limit 0."""
        count = self.length_limits.shape[0]
        rows = jnp.minimum(sentences, count - 1)
        taken = jax.tree.map(lambda x: x[rows] if is_per_row(x) else x, self)
        limits = jnp.where(sentences < count, taken.length_limits, 0)
        return taken.replace(length_limits=limits)


class NextTokens(NamedTuple):
    """Scores and cache for the next token of each hypothesis; impossible tokens have -inf."""

    scores: Scores
    """Log-probabilities after rules and constraints; the search chooses by these."""
    log_probs: Scores
    """The model's log-probabilities."""
    tokens_left: Int[Array, " B"]
    """How many tokens may follow, this one included."""
    cache: DecodeCache


def score_next_tokens(
    step: DecodeStep,
    settings: SearchSettings,
    options: SentenceOptions,
    state: Any,
    tokens: Int[Array, "B K T"],
) -> NextTokens:
    """Returns the model's log-probabilities, changed by rules, selection, prefix and length limit.

    `tokens` are those of the hypotheses in `state`, the state of a search.
    """
    logits, cache = step(state.last_tokens, state.cache)  # [B K V]
    log_probs = settings.next_log_probs(logits)
    history = History(tokens, state.step)
    tokens_left = jnp.minimum(options.length_limits, settings.max_target_length) - state.step
    scores = apply_rules(options.rules, log_probs, history)
    if options.selection is not None:
        scores = options.selection.allow(scores, log_probs, state.selected, tokens_left)
    if options.prefix is not None:
        scores = options.prefix(scores, log_probs, history)
    must_end = tokens_left <= 1
    return NextTokens(
        settings.end_at_limit(scores, log_probs, must_end),
        settings.end_at_limit(log_probs, log_probs, must_end),
        tokens_left,
        cache,
    )


class Search(NamedTuple):
    """A search in four functions. A state is a named tuple with a field `cache`."""

    start: Callable[[SentenceOptions], Any]
    """options -> the state before the first token, with () as its cache."""
    advance: Callable[[DecodeStep, SentenceOptions, Any], Any]
    """(step, options, state) -> the state one token later."""
    live: Callable[[Any], Bool[Array, " B"]]
    """state -> which sentences are not finished."""
    result: Callable[[Any], Hypotheses]
    """state -> the hypotheses of the finished sentences."""


def run(
    search: Search, step: DecodeStep, cache: DecodeCache, options: SentenceOptions
) -> Hypotheses:
    """Returns the hypotheses of every sentence, from the `cache` before the first token."""
    state = search.start(options)._replace(cache=cache)
    return search.result(decode_until(search, step, options, state, 0))


def decode_until(
    search: Search,
    step: DecodeStep,
    options: SentenceOptions,
    state: Any,
    num_live: int | Int[Array, ""],
) -> Any:
    """Returns the state in which no more than `num_live` sentences are unfinished."""
    return jax.lax.while_loop(
        lambda state: search.live(state).sum() > num_live,
        lambda state: search.advance(step, options, state),
        state,
    )


REFILL_DIVISOR = 8
"""One slot of 8 must be free before new sentences are admitted, because admission has a cost."""

Admit = Callable[[DecodeCache, Int[Array, " n"], Int[Array, " n"]], DecodeCache]
"""(cache, slots, sentences) -> the cache with the sources of these sentences in these slots, and no
tokens. A slot B means none."""


def refill_size(slots: int) -> int:
    """Returns how many sentences are admitted at once."""
    return max(1, slots // REFILL_DIVISOR)


class Progress(NamedTuple):
    """The state of the loop."""

    state: Any
    """The state of the search, a row for each slot."""
    sentences: Int[Array, " B"]
    """The sentence in each slot; Q for none."""
    next_sentence: Int[Array, ""]
    """The next sentence to admit."""
    results: Hypotheses
    """Results of all Q sentences; entries of unfinished sentences are provisional."""


def run_queue(
    search: Search,
    step: DecodeStep,
    cache: DecodeCache,
    options: SentenceOptions,
    admit: Admit,
    *,
    slots: int,
) -> Hypotheses:
    """Returns the hypotheses of Q sentences, searched in B = `slots` slots of an empty cache.

    This is continuous batching (Yu et al. 2022). The translations of a batch differ in length, and
    waiting for the longest one wastes half of the work or more. So all slots advance by one token
    at a time, each from its own position. When enough of them are finished, the next sentences are
    admitted to their slots. The shapes never change, and no row of a product depends on the other
    rows. So a translation does not depend on the sentences beside it.
    """
    count = options.length_limits.shape[0]
    last = jnp.max(jnp.where(options.length_limits > 0, jnp.arange(count), -1))
    size = refill_size(slots)

    def refill(now: Progress) -> Progress:
        (free,) = jnp.nonzero(~search.live(now.state), size=size, fill_value=slots)
        new = now.next_sentence + jnp.arange(size)
        admitted = (free < slots) & (new <= last)
        free, new = jnp.where(admitted, free, slots), jnp.where(admitted, new, count)

        def replace(x: Array, rows: Array) -> Array:
            return x.at[free].set(rows, mode="drop")

        cache = admit(now.state.cache, free, jnp.minimum(new, count - 1))
        fresh = search.start(options.take(new))
        state = jax.tree.map(replace, now.state._replace(cache=()), fresh)
        return now._replace(
            state=state._replace(cache=cache),
            sentences=replace(now.sentences, new),
            next_sentence=now.next_sentence + admitted.sum(),
        )

    def decode(now: Progress) -> Progress:
        waiting = now.next_sentence <= last
        enough = jnp.where(waiting, slots - size, 0)
        state = decode_until(search, step, options.take(now.sentences), now.state, enough)
        results = jax.tree.map(
            lambda all_, x: all_.at[now.sentences].set(x, mode="drop"),
            now.results,
            search.result(state),
        )
        return now._replace(state=state, results=results)

    def unfinished(now: Progress) -> Bool[Array, ""]:
        return (now.next_sentence <= last) | search.live(now.state).any()

    empty = jnp.full(slots, count)
    state = search.start(options.take(empty))._replace(cache=cache)
    results = jax.tree.map(
        lambda x: jnp.zeros((count, *x.shape[1:]), x.dtype), jax.eval_shape(search.result, state)
    )
    results = results._replace(scores=jnp.full_like(results.scores, -jnp.inf))
    start = Progress(state, empty, jnp.zeros((), jnp.int32), results)
    return jax.lax.while_loop(unfinished, lambda now: decode(refill(now)), start).results


def is_per_row(x: Array) -> bool:
    """Returns whether an array has a row for each sentence, not one row or a scalar for all."""
    return x.ndim > 0 and x.shape[0] > 1
