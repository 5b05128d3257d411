"""What attention replaced: a convolutional encoder-decoder (Gehring et al. 2017, ConvS2S).

Each layer is a convolution over k neighbours with a gated linear unit and a residual connection
(sections 3.2 and 3.3 there). In the decoder it sees the words before only, and each layer attends
to the encoder by a dot product. Sums of two terms are multiplied by sqrt(0.5) (section 3.4 there),
except that of a query. Weight normalisation and the factor m sqrt(1/m) of the attended sum are left
out. `examples/table_1.py` trains the model beside the Transformer.
"""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp


def neighbours(x: Any, size: int, *, causal: bool) -> Any:
    """Returns the `size` vectors around each position, or up to it: [B T size D]."""
    before = size - 1 if causal else size // 2
    padded = jnp.pad(x, ((0, 0), (before, size - 1 - before), (0, 0)))
    length = x.shape[1]
    return jnp.stack([padded[:, i : i + length] for i in range(size)], axis=2)


class Convolution(nn.Module):
    """A convolution with a gated linear unit: a * sigmoid(b) with [a; b] = W [x_(t-k) ...] + c."""

    width: int
    size: int = 3
    causal: bool = False

    @nn.compact
    def __call__(self, x: Any) -> Any:
        """Returns [B T D], a product of one matrix with the k neighbours of each position."""
        near = neighbours(x, self.size, causal=self.causal)
        value, gate = jnp.split(nn.Dense(2 * self.width)(near.reshape(*x.shape[:2], -1)), 2, -1)
        return value * nn.sigmoid(gate)


class ConvolutionalTranslator(nn.Module):
    """The whole model; source and target share one vocabulary."""

    vocab_size: int
    width: int = 64
    num_layers: int = 3
    size: int = 3
    max_positions: int = 64

    def setup(self) -> None:
        """Makes the modules."""
        self.embedding = nn.Embed(self.vocab_size, self.width)
        self.positions = nn.Embed(self.max_positions, self.width)
        layers = range(self.num_layers)
        self.encoder = [Convolution(self.width, self.size) for _ in layers]
        self.decoder = [Convolution(self.width, self.size, causal=True) for _ in layers]
        self.queries = [nn.Dense(self.width) for _ in layers]
        self.output = nn.Dense(self.vocab_size)

    def __call__(self, inputs: Any, inputs_segment_ids: Any, read: Any) -> Any:
        """Returns the logits [B T V] of the words after `read` [B T], which starts with BOS."""
        real = jnp.asarray(inputs_segment_ids) != 0
        source = self._embed(jnp.asarray(inputs))
        x = source
        for layer in self.encoder:
            x = (x + layer(x * real[..., None])) * 0.5**0.5
        keys, values = x, (x + source) * 0.5**0.5  # section 3.3
        target = self._embed(jnp.asarray(read))
        y = target
        for layer, query in zip(self.decoder, self.queries, strict=True):
            z = layer(y)
            scores = jnp.einsum("BTD,BSD->BTS", query(z) + target, keys)
            weights = jax.nn.softmax(jnp.where(real[:, None], scores, -1e9), axis=-1)
            z = (z + jnp.einsum("BTS,BSD->BTD", weights, values)) * 0.5**0.5
            y = (y + z) * 0.5**0.5
        return self.output(y)

    def _embed(self, tokens: Any) -> Any:
        return self.embedding(tokens) + self.positions(jnp.arange(tokens.shape[1]))
