"""Attention variants in the place of the paper's, as language models on the same text.

    python examples/variants.py

Each variant is a `RelativeScheme`, a kernel for equation 1, or a few lines over
`MultiHeadAttention`; none changes the package. The models read sentences of 4 to 8 words. The table
has the perplexity on held-out sentences of that length and on longer ones (9 to 16 words).
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from flaxformer_mt.data.tokenization.word_vocabulary import WordVocabulary
from flaxformer_mt.model.attention import (
    KeysValues,
    attention_logits,
    masked_softmax,
    weighted_sum,
)
from flaxformer_mt.model.config import Scheme, TransformerConfig
from flaxformer_mt.model.encoder_decoder import EncoderLayer
from flaxformer_mt.model.kernels import Kernels
from flaxformer_mt.model.layers import FeedForward, parameter, residual
from flaxformer_mt.model.masks import AttentionContext
from flaxformer_mt.model.multi_head_attention import MultiHeadAttention
from flaxformer_mt.model.positions import (
    RelativePositions,
    RelativeScheme,
    Rotary,
    distances,
    sinusoids,
)
from single_stack import SingleStack, fit_language_model, init, next_word_logits
from small_runs import Params, Rows, demo_pairs, make_rows, mean_loss, show


class FunctionalPositions(RelativePositions):
    """Shaw's relative positions with fixed sinusoids of the distance (NEZHA, Wei et al. 2019).

    Equations 3 and 4 of Shaw et al. hold, but the vectors a_ij are not learned:
        a_ij[2k] = sin((j - i) / 10000^(2k / d)), a_ij[2k + 1] = cos(the same)
    """

    def setup(self) -> None:
        """Makes the fixed tables, one row for each distance from -limit to limit."""
        limit = self.config.distance_limit
        self.num_distances = 2 * limit + 1
        self.key_table, self.value_table = (
            jnp.asarray(distance_sinusoids(limit, width)) for width in self.config.head_widths
        )


def distance_sinusoids(limit: int, width: int) -> np.ndarray:
    """Returns the sinusoids of the distances -limit to limit: [2 limit + 1, width]."""
    right = sinusoids(limit + 1, width)  # sin is odd, cos is even
    left = right[:0:-1] * np.where(np.arange(width) % 2 == 0, -1, 1)
    return np.concatenate([left, right]).astype(np.float32)


class Alibi(RelativeScheme):
    """Attention with linear biases (Press et al. 2022): a penalty of m_n for each step of distance.

    Head n of N has the slope m_n = 2^(-8 n / N), n = 1 ... N. There are no parameters, and no
    position is added to the embeddings.
    """

    def bias(self, queries: Any, context: AttentionContext) -> Any:
        """Returns -m_n |i - j|: [B N T S]."""
        heads = self.config.num_heads
        slopes = 2.0 ** (-8 * np.arange(1, heads + 1) / heads)
        steps = jnp.abs(distances(context)).astype(jnp.float32)  # [B T S]
        return -jnp.asarray(slopes, jnp.float32)[:, None, None] * steps[:, None]


def relu_attend(
    queries: Any, keys: Any, values: Any, context: AttentionContext, bias: Any = None
) -> Any:
    """Returns equation 1 with relu(...) / number of visible keys in place of the softmax.

    Wortsman et al. 2023, "Replacing softmax with ReLU in vision transformers".
    """
    logits = attention_logits(queries, keys)
    logits = logits if bias is None else logits + bias
    visible = context.mask.sum(-1, keepdims=True)
    weights = jnp.where(context.mask, nn.relu(logits), 0) / jnp.maximum(visible, 1)
    return weighted_sum(weights, values)


def unscaled_attend(
    queries: Any, keys: Any, values: Any, context: AttentionContext, bias: Any = None
) -> Any:
    """Returns equation 1 without the division by sqrt(d_k)."""
    logits = attention_logits(queries * queries.shape[-1] ** 0.5, keys)
    logits = logits if bias is None else logits + bias
    return weighted_sum(masked_softmax(logits, context.mask), values)


class AdditiveAttention(MultiHeadAttention):
    """Scores v^T tanh(q_i + k_j) in place of q_i k_j^T / sqrt(d_k) (Bahdanau et al. 2015).

    It needs T x S x H numbers for each head, where the dot product needs T x S.
    """

    def setup(self) -> None:
        """Makes the projections and v."""
        super().setup()
        heads, width = self.config.num_heads, self.config.head_widths[0]
        init, axes = nn.initializers.normal(width**-0.5), ("heads", "head_width")
        self.vector = parameter(self, "vector", init, (heads, width), axes)

    def __call__(
        self, x: Any, source: KeysValues, context: AttentionContext, *, dropout_rows: Any
    ) -> Any:
        """Returns the attention of every position of x to the keys of `source`."""
        queries = self.query(x)  # [B T N H]
        sums = jnp.tanh(queries[:, :, None] + source.keys[:, None])  # [B T S N H]
        logits = jnp.einsum("BTSNH,NH->BNTS", sums, self.vector)
        weights = masked_softmax(logits, context.mask)
        return self.out(weighted_sum(weights, source.values))


class SharedQueriesKeys(MultiHeadAttention):
    """Attention with W^Q = W^K, as in the Reformer (Kitaev et al. 2020).

    The Reformer also normalises the keys, and a token does not attend to itself.
    """

    def keys_values(self, x: Any, positions: Any = None) -> KeysValues:
        """Returns the queries as keys, and the values."""
        return KeysValues(self.relation.rotate(self.query(x), positions), self.value(x))


class VariantLayer(EncoderLayer):
    """The package's encoder layer with another attention or another residual.

    Attributes:
      attention: (config, kernels) -> a module with the methods of `MultiHeadAttention`.
      make_residual: (config, kernels) -> a module with the methods of `Residual`.
    """

    attention: Callable[..., Any] = MultiHeadAttention
    make_residual: Callable[..., Any] = residual

    def setup(self) -> None:
        """Makes the sub-layers; `__call__` is that of the package."""
        config, kernels = self.config, self.kernels
        self.self_attention = self.attention(config, kernels)
        self.attention_residual = self.make_residual(config, kernels)
        self.feed_forward = FeedForward(config, kernels)
        self.feed_forward_residual = self.make_residual(config, kernels)


@dataclasses.dataclass(frozen=True)
class Variant:
    """How a variant differs from the paper's attention."""

    positions: Scheme = "sinusoidal"
    attention: type[MultiHeadAttention] = MultiHeadAttention
    scheme: type[RelativeScheme] = RelativeScheme
    kernels: Kernels = dataclasses.field(default_factory=Kernels)
    make_residual: Callable[..., Any] = residual


VARIANTS = {
    "the paper": Variant(),
    "no positions": Variant("none"),
    "relative (Shaw)": Variant("none", scheme=RelativePositions),
    "functional (NEZHA)": Variant("none", scheme=FunctionalPositions),
    "ALiBi": Variant("none", scheme=Alibi),
    "rotary": Variant("none", scheme=Rotary),
    "additive attention": Variant(attention=AdditiveAttention),
    "ReLU attention": Variant(kernels=Kernels(name="relu", attend=relu_attend)),
    "shared Q = K": Variant(attention=SharedQueriesKeys),
    "not divided by sqrt(d_k)": Variant(kernels=Kernels(name="unscaled", attend=unscaled_attend)),
}


def make_variant(variant: Variant, vocab_size: int, *, d_model: int = 32) -> SingleStack:
    """Returns a small language model with one change."""
    sizes = TransformerConfig(d_model=d_model, d_ff=2 * d_model, num_heads=2, num_encoder_layers=2)
    config = dataclasses.replace(sizes, positions=variant.positions)

    def attention(config: TransformerConfig, kernels: Kernels) -> MultiHeadAttention:
        return variant.attention(config, kernels, variant.scheme)

    def make_layer(config: TransformerConfig, kernels: Kernels) -> VariantLayer:
        return VariantLayer(config, kernels, attention, variant.make_residual)

    return SingleStack(
        config, vocab_size, causal=True, kernels=variant.kernels, make_layer=make_layer
    )


class Texts:
    """German sentences of the demo as rows: `training` and `near` of 4 to 8 words, `far` longer."""

    def __init__(self, count: int = 6000) -> None:
        """Reads and encodes the text."""
        lines = [german for _, german in demo_pairs(20_000, 3 * count)]
        short = [line for line in lines if 4 <= len(line.split()) <= 8]
        long = [line for line in lines if 9 <= len(line.split()) <= 16]
        self.vocabulary = WordVocabulary.learn(short[300:], max_size=600, min_count=1)
        self.training = self._encode(short[300 : 300 + count], 9)
        self.near, self.far = self._encode(short[:300], 9), self._encode(long[:300], 17)

    def _encode(self, lines: Sequence[str], length: int) -> Rows:
        return make_rows([self.vocabulary.tokenize(line) for line in lines], length)


def train_language_model(model: SingleStack, text: Rows, *, num_steps: int) -> Params:
    """Returns the parameters of a trained model."""
    start = init(model)
    return fit_language_model(model, start, text, num_steps=num_steps, learning_rate=5e-3)


def perplexity(model: SingleStack, params: Params, text: Rows) -> float:
    """Returns exp(cross-entropy per word)."""
    loss = jax.jit(lambda params, text: mean_loss(next_word_logits(model, params, text), text))
    return float(np.exp(loss(params, text)))


def main(num_steps: int = 150) -> None:
    """Trains every variant, and prints their perplexities."""
    texts, rows = Texts(), []
    for name, variant in VARIANTS.items():
        model = make_variant(variant, texts.vocabulary.size)
        params = train_language_model(model, texts.training, num_steps=num_steps)
        count = sum(x.size for x in jax.tree.leaves(params))
        near, far = (perplexity(model, params, rows) for rows in (texts.near, texts.far))
        rows.append((name, f"{count:,}", near, far))
    show(("perplexity", "parameters", "4-8 words", "9-16 words"), rows)


if __name__ == "__main__":
    main()
