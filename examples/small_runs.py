"""What the examples share: rows of tokens, a training loop, a search, the demo's text, tables."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from flaxformer_mt.data.sources.demo_text import open_demo
from flaxformer_mt.data.tokenization.vocabulary import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from flaxformer_mt.model.cache import empty_cache
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.search.beam_search import beam_search
from flaxformer_mt.search.loop import SearchSettings, SentenceOptions, run
from flaxformer_mt.search.rules import Rule
from flaxformer_mt.search.step import DecodeCache, DecodeStep, Hypotheses
from flaxformer_mt.training.config import TrainingConfig
from flaxformer_mt.training.optimizer import make_optimizer

Params = Any  # a nested dict of arrays, as Flax makes it


class Rows(NamedTuple):
    """Sentences as rows of arrays, padded with 0. Each field is [B T]."""

    tokens: np.ndarray
    positions: np.ndarray
    segment_ids: np.ndarray
    """1 at a token, 0 at padding."""

    def take(self, rows: Any) -> "Rows":
        """Returns some of the rows."""
        return Rows(*(x[rows] for x in self))


def make_rows(sentences: Sequence[Sequence[int]], length: int = 0) -> Rows:
    """Returns the sentences as rows of `length` tokens; 0 = as long as the longest."""
    length = length or max(map(len, sentences))
    tokens, segment_ids = np.zeros((2, len(sentences), length), np.int32)
    for row, sentence in enumerate(sentences):
        tokens[row, : len(sentence)] = sentence
        segment_ids[row, : len(sentence)] = 1
    positions = np.arange(length, dtype=np.int32) * segment_ids
    return Rows(tokens, positions, segment_ids)


def pair_arguments(source: Rows, target: Rows) -> tuple[jax.Array, ...]:
    """Returns the arguments of `Transformer.__call__`."""
    both = zip(source, target, strict=True)
    return tuple(jnp.asarray(x) for field in both for x in field)


def random_batches(count: int, size: int, seed: int = 0) -> Iterator[np.ndarray]:
    """Yields the numbers of `size` of `count` sentences, epoch after epoch, without end."""
    rng = np.random.default_rng(seed)
    while True:
        order = rng.permutation(count)
        for start in range(0, count - size + 1, size):
            yield order[start : start + size]


def fit(
    loss: Callable[..., Any],
    params: Params,
    batches: Iterable[Any],
    *,
    num_steps: int,
    learning_rate: float = 3e-3,
) -> Params:
    """Returns the parameters after `num_steps` updates of Adam that reduce loss(params, batch).

    The learning rate rises over the first tenth of the steps and falls like a cosine.
    """
    warmup = max(1, num_steps // 10)
    config = TrainingConfig(
        num_steps=num_steps, learning_rate=learning_rate, warmup_steps=warmup, schedule="cosine"
    )
    optimizer = make_optimizer(config, d_model=1)  # the rate is given, so the width has no effect

    @jax.jit
    def update(params: Params, state: Any, batch: Any) -> tuple[Params, Any]:
        updates, state = optimizer.update(jax.grad(loss)(params, batch), state, params)
        return optax.apply_updates(params, updates), state

    state = optimizer.init(params)
    for _, batch in zip(range(num_steps), batches, strict=False):
        params, state = update(params, state, batch)
    return params


def sequence_log_probs(logits: Any, tokens: Any, segment_ids: Any) -> Any:
    """Returns log p of each sentence [B]: position t of the logits predicts token t."""
    log_probs = jnp.take_along_axis(jax.nn.log_softmax(logits), tokens[..., None], axis=-1)[..., 0]
    return jnp.sum(log_probs, axis=-1, where=segment_ids != 0)


def mean_loss(logits: Any, target: Rows) -> Any:
    """Returns the cross-entropy per token, in nats."""
    log_probs = sequence_log_probs(logits, target.tokens, target.segment_ids)
    return -log_probs.sum() / (target.segment_ids != 0).sum()


def search(
    step: DecodeStep,
    cache: DecodeCache,
    *,
    rows: int,
    vocab_size: int,
    max_length: int,
    beam_size: int = 1,
    length_penalty: float = 0.0,
    rules: tuple[Rule, ...] = (),
    never: tuple[int, ...] = (PAD_ID, UNK_ID, BOS_ID),
) -> Hypotheses:
    """Returns the `beam_size` best token sequences of each row, by the package's beam search.

    The tokens `never` are not chosen.
    """
    suppressed = np.isin(np.arange(vocab_size), never)
    settings = SearchSettings(
        jnp.asarray(suppressed),
        length_penalty,
        bos_id=BOS_ID,
        eos_id=EOS_ID,
        pad_id=PAD_ID,
        max_target_length=max_length,
    )
    how = beam_search(settings, beam_size=beam_size, num_hypotheses=beam_size)
    options = SentenceOptions(jnp.full(rows, max_length, jnp.int32), rules=rules)
    return run(how, step, cache, options)


def translate(
    model: Transformer,
    params: Params,
    source: Rows,
    *,
    max_length: int,
    beam_size: int = 1,
    length_penalty: float = 0.0,
    rules: tuple[Rule, ...] = (),
    never: tuple[int, ...] = (PAD_ID, UNK_ID, BOS_ID),
) -> Hypotheses:
    """Returns the `beam_size` best translations of each row of `source`, best first."""

    @jax.jit
    def whole(params: Params, source: Rows, rules: tuple[Rule, ...]) -> Hypotheses:
        encoded: Any = model.apply({"params": params}, *source, method="encode_source")
        rows = len(source.tokens)
        sizes = {"batch": rows, "beam_size": beam_size, "max_target_length": max_length}
        cache = empty_cache(encoded, model.kernels, **sizes)

        def step(tokens: Any, cache: Any) -> Any:
            return model.apply({"params": params}, tokens, cache, method="decode_step")

        return search(
            step,
            cache.replace_rows(jnp.arange(rows), encoded),
            rows=rows,
            vocab_size=model.target_vocab_size,
            max_length=max_length,
            beam_size=beam_size,
            length_penalty=length_penalty,
            rules=rules,
            never=never,
        )

    return jax.tree.map(np.asarray, whole(params, jax.tree.map(jnp.asarray, source), rules))


def words(text: str) -> str:
    """Returns the text with spaces between its words and punctuation marks."""
    return " ".join(re.findall(r"\w+|[^\w\s]", text))


def demo_pairs(start: int, count: int, split: str = "train") -> list[tuple[str, str]]:
    """Returns different pairs of the demo text as spaced words, from pair `start` on.

    The first 40,000 training pairs are varied sentences, the others plain short ones.
    """
    pairs, found = open_demo(split), {}
    for index in range(start, len(pairs)):
        pair = pairs[index]
        found[words(pair.source), words(pair.target)] = None
        if len(found) == count:
            break
    return list(found)


def without(
    pairs: Iterable[tuple[str, str]], held_out: Iterable[tuple[str, str]]
) -> list[tuple[str, str]]:
    """Returns the pairs that share no side with a held-out pair, apart from case and final stop."""

    def sides(pair: tuple[str, str]) -> set[tuple[int, str]]:
        return {(side, text.lower().rstrip(" .?!")) for side, text in enumerate(pair)}

    known = set().union(*map(sides, held_out))
    return [pair for pair in pairs if known.isdisjoint(sides(pair))]


def show(header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Prints a table; numbers that are not integers have three significant digits."""

    def text(value: object) -> str:
        return f"{value:.3g}" if isinstance(value, float) else str(value)

    table = [list(header), *([text(value) for value in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for first, *others in table:
        columns = (x.rjust(width) for x, width in zip(others, widths[1:], strict=True))
        print("  ".join([first.ljust(widths[0]), *columns]))
