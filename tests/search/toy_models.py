"""Models without parameters for tests of the search: a table gives the next token."""

import functools
import itertools
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np

from flaxformer_mt.search.beam_search import beam_search
from flaxformer_mt.search.greedy import greedy
from flaxformer_mt.search.loop import SearchSettings, SentenceOptions, run
from flaxformer_mt.search.step import Hypotheses

PAD, UNK, BOS, EOS, A, B = range(6)


@flax.struct.dataclass
class TableCache:
    """Stores the whole prefix of each hypothesis as a number, so that a wrong `select` is seen."""

    tables: jax.Array  # [B P V]
    prefix: jax.Array  # [B K]

    def select(self, parents):
        return TableCache(self.tables, jnp.take_along_axis(self.prefix, parents, axis=1))


def table_step(tokens, cache):
    """Returns the logits tables[b, number of the prefix]; the number is 0 before BOS."""
    num_prefixes = cache.tables.shape[1]
    prefix = jnp.where(tokens == BOS, 0, (cache.prefix * 7 + tokens) % num_prefixes)  # [B K]
    logits = jnp.take_along_axis(cache.tables, prefix[..., None], axis=1)  # [B K V]
    return logits, TableCache(cache.tables, prefix)


def random_tables(seed: int, batch_size: int, vocab_size: int = 6, num_prefixes: int = 101):
    rng = np.random.default_rng(seed)
    return rng.normal(scale=2.0, size=(batch_size, num_prefixes, vocab_size)).astype(np.float32)


def suppressed(vocab_size: int) -> jax.Array:
    return jnp.isin(jnp.arange(vocab_size), jnp.array([PAD, UNK, BOS]))


STATIC_SETTINGS = ("length_normalization", "forced_end", "renormalize")


def make_search(beam_size, num_hypotheses, vocab_size, alpha, length, **options):
    """Beam search, or greedy search if `beam_size` is None."""
    settings = SearchSettings(
        suppressed(vocab_size),
        alpha,
        bos_id=BOS,
        eos_id=EOS,
        pad_id=PAD,
        max_target_length=length,
        **{name: options.pop(name) for name in STATIC_SETTINGS if name in options},
    )
    if beam_size is None:
        return greedy(settings, num_hypotheses=num_hypotheses, **options)
    return beam_search(settings, beam_size=beam_size, num_hypotheses=num_hypotheses, **options)


@functools.partial(jax.jit, static_argnames=("beam_size", "num_hypotheses", "length", "options"))
def compiled_search(
    tables, limits, alpha, sentence_options, *, beam_size, num_hypotheses, length, options=()
) -> Hypotheses:
    cache = TableCache(tables, jnp.zeros((len(tables), beam_size or num_hypotheses), jnp.int32))
    how = make_search(beam_size, num_hypotheses, tables.shape[-1], alpha, length, **dict(options))
    return run(how, table_step, cache, SentenceOptions(limits, **sentence_options))


def search(
    tables,
    limits,
    *,
    beam_size=None,
    num_hypotheses=1,
    alpha=0.0,
    length=None,
    sentence_options=None,
    **options,
) -> Any:
    """Beam search, or greedy search if `beam_size` is None, over tables [B P V].

    `sentence_options` are pytrees (rules, prefix, selection, choose), `options` what is static.
    """
    found = compiled_search(
        jnp.asarray(tables),
        jnp.asarray(limits, jnp.int32),
        jnp.float32(alpha),
        sentence_options or {},
        beam_size=beam_size,
        num_hypotheses=num_hypotheses,
        length=length or max(limits),
        options=tuple(options.items()),
    )
    return jax.tree.map(np.asarray, found)


def log_softmax(x: np.ndarray) -> np.ndarray:
    x = x.astype(np.float64)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def log_prob(table: np.ndarray, tokens) -> float:
    """Returns the model's log-probability of one hypothesis."""
    return teacher_forced_score(table, tokens, 0.0)


def teacher_forced_score(table: np.ndarray, tokens, alpha: float) -> float:
    """Returns the score of one hypothesis by definition, in plain Python and float64."""
    log_probs, prefix, total = log_softmax(table), 0, 0.0
    for token in tokens:
        total += log_probs[prefix, token]
        prefix = (prefix * 7 + token) % len(table)
    return total / ((5 + len(tokens)) / 6) ** alpha


def all_hypotheses(vocab_size: int, limit: int):
    """Returns all sequences of at most `limit` allowed tokens with EOS at the end."""
    words = [token for token in range(vocab_size) if token > EOS]
    for length in range(limit):
        for prefix in itertools.product(words, repeat=length):
            yield (*prefix, EOS)


def sentences(found: Hypotheses, row: int) -> list[tuple[int, ...]]:
    """Returns the hypotheses of one sentence, without padding and empty entries."""
    return [
        tuple(tokens[:length].tolist())
        for tokens, length in zip(found.tokens[row], found.lengths[row], strict=True)
        if length
    ]
