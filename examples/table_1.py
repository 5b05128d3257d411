"""Table 1 of the paper, measured: attention, recurrence, convolution, and restricted attention.

    python examples/table_1.py             # operations, sequential operations, path lengths
    python examples/table_1.py --train     # also three translators on the same pairs, by length

- *Complexity*: the operations of one layer are counted on its program for two lengths n and two
  widths d. The exponents say how they grow. As in the paper, attention is equation 1 without its
  projections.
- *Sequential operations*: the longest chain of matrix products of which each needs the one before.
- *Path length*: which outputs depend on which inputs is read off the Jacobian of one operation
  (attention, convolution, or a time step). The path length is how often it must be applied until
  the last position depends on the first.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import sacrebleu
import tyro
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal, jaxprs_in_params

from convolutional import Convolution, ConvolutionalTranslator
from flaxformer_mt.data.tokenization.vocabulary import BOS_ID
from flaxformer_mt.data.tokenization.word_vocabulary import WordVocabulary
from flaxformer_mt.inspection.flops import jaxpr_flops
from flaxformer_mt.model.attention import attend
from flaxformer_mt.model.masks import AttentionContext, attention_context
from flaxformer_mt.model.transformer import shift_right
from language_model import LENGTH, encode, is_short, train_translator
from local_attention import local_attend
from recurrent import GRU, RecurrentTranslator
from small_runs import (
    Rows,
    demo_pairs,
    fit,
    mean_loss,
    random_batches,
    search,
    show,
    translate,
    without,
)

KERNEL = 3
WINDOW = 4
LENGTHS = (8, 16)
Layer = Callable[[Any], Any]
"""x [n d] -> [n d], with random parameters."""


def attention_layer(length: int, width: int) -> Layer:
    """Returns equation 1 of x with itself; one head."""
    context = AttentionContext(jnp.ones((1, 1, length, length), bool))

    def whole(x: Any) -> Any:
        x = x[None, :, None]  # [B T N H]
        return attend(x, x, x, context)[0, :, 0]

    return whole


def restricted_layer(length: int, width: int) -> Layer:
    """Returns equation 1 where a position sees `WINDOW` / 2 neighbours on each side; one head."""
    segment_ids, positions = jnp.ones((1, length), jnp.int32), jnp.arange(length)[None]
    context = attention_context(
        segment_ids, segment_ids, positions, positions, causal=False, local_window=WINDOW
    )

    def whole(x: Any) -> Any:
        x = x[None, :, None]  # [B T N H]
        return local_attend(x, x, x, context, window=WINDOW)[0, :, 0]

    return whole


def convolution_layer(length: int, width: int) -> Layer:
    """Returns a convolution of `KERNEL` neighbours."""
    return _with_params(Convolution(width, KERNEL), lambda module, x: module(x[None])[0], width)


def recurrent_layer(length: int, width: int) -> Layer:
    """Returns a GRU over the row."""

    def whole(gru: GRU, x: Any) -> Any:
        return gru.scan(x[None], jnp.ones((1, length), bool))[0]

    return _with_params(GRU(width), whole, width, length)


def time_step(length: int, width: int) -> Layer:
    """Returns one step of a GRU at all positions: each state reads the state before it."""

    def whole(gru: GRU, x: Any) -> Any:
        return gru(jnp.pad(x[:-1], ((1, 0), (0, 0))), x)

    return _with_params(GRU(width), whole, width)


def _with_params(module: nn.Module, method: Callable, width: int, length: int = 2) -> Layer:
    """Returns the module with normal parameters; nothing is compiled."""
    x = jnp.zeros((length, width))
    shapes = jax.eval_shape(lambda: module.init(jax.random.key(0), x, method=method))
    rng = np.random.default_rng(0)
    params = jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape), x.dtype), shapes)
    return lambda x: module.apply(params, x, method=method)


def exponents(make_layer: Callable[[int, int], Layer]) -> tuple[float, float]:
    """Returns a and b of operations ~ n^a d^b, from n = 256 and 512, d = 128 and 256."""

    def flops(n: int, d: int) -> int:
        return jaxpr_flops(jax.make_jaxpr(make_layer(n, d))(jnp.zeros((n, d))))

    small = flops(256, 128)
    return math.log2(flops(512, 128) / small), math.log2(flops(256, 256) / small)


def longest_chain(jaxpr: Jaxpr | ClosedJaxpr) -> int:
    """Returns the length of the longest chain of matrix products in a program.

    A scan counts its body as often as it runs.
    """
    inner = jaxpr.jaxpr if isinstance(jaxpr, ClosedJaxpr) else jaxpr
    depths: dict[Any, int] = {}

    def deepest(atoms: Any) -> int:
        return max((depths.get(x, 0) for x in atoms if not isinstance(x, Literal)), default=0)

    for equation in inner.eqns:
        own = max(map(longest_chain, jaxprs_in_params(equation.params)), default=0)
        own = own * equation.params.get("length", 1) + (equation.primitive.name == "dot_general")
        depth = deepest(equation.invars) + own
        for output in equation.outvars:
            depths[output] = depth
    return deepest(inner.outvars)


def sequential_operations(make_layer: Callable[[int, int], Layer], length: int) -> int:
    """Returns the longest chain of matrix products of a layer over `length` positions."""
    return longest_chain(jax.make_jaxpr(make_layer(length, 8))(jnp.zeros((length, 8))))


def path_length(make_operation: Callable[[int, int], Layer], length: int) -> int:
    """Returns how many applications connect the first position with the last."""
    x = jnp.asarray(np.random.default_rng(0).normal(size=(length, 4)), jnp.float32)
    jacobian = jax.jit(jax.jacobian(make_operation(length, 4)))(x)  # [n d n d]
    reads = np.abs(np.asarray(jacobian)).sum((1, 3)) > 0  # [n n]: output i depends on input j
    reached = np.eye(length, dtype=bool)
    for count in range(1, length + 1):
        reached = reads @ reached
        if reached[-1, 0]:
            return count
    raise ValueError("the last position does not depend on the first")


def measure() -> None:
    """Prints the measured table 1."""
    layers = {
        "self-attention": (attention_layer, attention_layer, "n^2 d, 1, 1"),
        "recurrent": (recurrent_layer, time_step, "n d^2, n, n"),
        f"convolutional, k = {KERNEL}": (
            convolution_layer,
            convolution_layer,
            "k n d^2, 1, log_k n *",
        ),
        f"self-attention, restricted, r = {WINDOW}": (
            restricted_layer,
            restricted_layer,
            "r n d, 1, n / r",
        ),
    }
    rows = []
    for name, (layer, operation, paper) in layers.items():
        n, d = exponents(layer)
        chains = "/".join(str(sequential_operations(layer, length)) for length in LENGTHS)
        paths = "/".join(str(path_length(operation, length)) for length in LENGTHS)
        rows.append((name, f"n^{n:.2f} d^{d:.2f}", chains, paths, paper))
    header = ("operations", "chain, n = 8/16", "path, n = 8/16", "paper")
    show(("layer", *header), rows)
    print("* layers of dilated kernels; contiguous ones need O(n / k) (section 4 of the paper)")


@dataclasses.dataclass(frozen=True)
class Written:
    """What a model without a cache has read: the sources and the tokens so far."""

    inputs: Any
    segment_ids: Any
    tokens: Any
    """[B K T]"""
    index: Any
    """Number of tokens; a scalar."""

    def select(self, parents: Any) -> "Written":
        """Returns the cache in which hypotheses continue `parents` [B K]."""
        tokens = jnp.take_along_axis(self.tokens, parents[..., None], axis=1)
        return dataclasses.replace(self, tokens=tokens)


jax.tree_util.register_dataclass(Written)


def translate_by(model: nn.Module, params: Any, source: Rows, max_length: int) -> np.ndarray:
    """Returns greedy translations [B T]; the model reads all tokens so far at each step."""
    rows = len(source.tokens)

    def step(tokens: Any, cache: Any) -> Any:
        written = cache.tokens.at[:, :, cache.index].set(tokens)
        arguments = cache.inputs, cache.segment_ids, written[:, 0]
        logits: Any = model.apply({"params": params}, *arguments)  # [B T V]
        cache = dataclasses.replace(cache, tokens=written, index=cache.index + 1)
        return logits[:, cache.index - 1][:, None], cache

    def whole(source: Rows) -> Any:
        tokens = jnp.zeros((rows, 1, max_length), jnp.int32)
        cache = Written(source.tokens, source.segment_ids, tokens, jnp.int32(0))
        sizes = {"rows": rows, "vocab_size": model.vocab_size, "max_length": max_length}
        return search(step, cache, **sizes).tokens[:, 0]

    return np.asarray(jax.jit(whole)(jax.tree.map(jnp.asarray, source)))


def train_by(model: nn.Module, source: Rows, target: Rows, *, num_steps: int) -> Any:
    """Returns the parameters of a model (inputs, segment ids, shifted targets) -> logits."""

    def logits(params: Any, source: Rows, target: Rows) -> Any:
        read = shift_right(jnp.asarray(target.tokens), jnp.asarray(target.positions), BOS_ID)
        return model.apply({"params": params}, source.tokens, source.segment_ids, read)

    def loss(params: Any, batch: tuple[Rows, Rows]) -> Any:
        return mean_loss(logits(params, *batch), batch[1])

    batches = ((source.take(i), target.take(i)) for i in random_batches(len(source.tokens), 64))
    one = jnp.ones((1, 2), jnp.int32)
    params = jax.jit(model.init)(jax.random.key(0), one, one, one)["params"]
    return fit(loss, params, batches, num_steps=num_steps)


def compare(num_steps: int) -> None:
    """Trains three translators on the same 10,000 pairs, and prints their BLEU by length."""
    pairs = [pair for pair in demo_pairs(40_000, 15_000) if is_short(pair)]
    test = pairs[:600]
    training = without(pairs[600:], test)[:10_000]
    vocabulary = WordVocabulary.learn(
        [text for pair in training for text in pair], max_size=2500, min_count=1
    )
    source, target = (encode(vocabulary, side) for side in zip(*training, strict=True))
    sources, references = zip(*test, strict=True)
    rows = encode(vocabulary, sources)
    models = {
        "GRU with additive attention": RecurrentTranslator(vocabulary.size),
        "convolutional": ConvolutionalTranslator(vocabulary.size),
    }
    transformer, params = train_translator(vocabulary, training, num_steps=num_steps)
    found: dict[str, Any] = {
        "Transformer": translate(transformer, params, rows, max_length=LENGTH).tokens[:, 0]
    }
    for name, model in models.items():
        params = train_by(model, source, target, num_steps=num_steps)
        found[name] = translate_by(model, params, rows, LENGTH)
    lengths = np.array([len(text.split()) for text in sources])
    groups = {"2-4 words": lengths <= 4, "5-6": (lengths > 4) & (lengths <= 6), "7-9": lengths > 6}
    table = []
    for name, tokens in found.items():
        texts = np.array([vocabulary.detokenize(row) for row in tokens])
        scores = []
        for chosen in groups.values():
            truth = list(np.array(references)[chosen])
            bleu = sacrebleu.corpus_bleu(list(texts[chosen]), [truth], tokenize="none", force=True)
            scores.append(bleu.score)
        right = 100 * float(np.mean(texts == np.array(references)))
        table.append((name, *scores, right))
    counts = (f"BLEU, {name} ({chosen.sum()})" for name, chosen in groups.items())
    show(("", *counts, "% right"), table)


def main(train: bool = False, num_steps: int = 2000) -> None:
    """Prints the measured table 1; with `train` also compares models after `num_steps` updates."""
    measure()
    if train:
        print()
        compare(num_steps)


if __name__ == "__main__":
    tyro.cli(main)
