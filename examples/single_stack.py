"""One stack of the package's layers over one sequence: encoder-only or decoder-only models.

The encoder layer has self-attention and a feed-forward network. With all keys visible the stack is
the encoder of the paper (as in BERT). With a causal mask it is a decoder without source attention
(as in GPT).
"""

from collections.abc import Callable, Mapping
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from flaxformer_mt.data.tokenization.vocabulary import BOS_ID
from flaxformer_mt.model.config import TransformerConfig
from flaxformer_mt.model.encoder_decoder import EncoderLayer
from flaxformer_mt.model.kernels import REFERENCE, Kernels
from flaxformer_mt.model.layers import Embedding, Linear, final_norm
from flaxformer_mt.model.masks import attention_context
from flaxformer_mt.model.positions import make_added_positions
from flaxformer_mt.model.transformer import shift_right
from small_runs import Params, Rows, fit, mean_loss, random_batches


class SingleStack(nn.Module):
    """Embeddings, positions, layers, and a linear map to `num_outputs` classes of each token.

    Attributes:
      config: sizes and choices; `num_encoder_layers` counts the layers.
      vocab_size: V of the input.
      num_outputs: classes of each token; 0 = the words, with the embedding matrix (section 3.4).
      causal: hide the keys to the right of each query.
      make_layer: (config, kernels) -> a layer with the arguments of `EncoderLayer`.
    """

    config: TransformerConfig
    vocab_size: int
    num_outputs: int = 0
    causal: bool = False
    kernels: Kernels = REFERENCE
    make_layer: Callable[..., nn.Module] = EncoderLayer

    def setup(self) -> None:
        """Makes the modules."""
        config, kernels = self.config, self.kernels
        self.embedding = Embedding(config, self.vocab_size, kernels)
        self.positions = make_added_positions(config.positions, config.max_positions)
        self.layers = [self.make_layer(config, kernels) for _ in range(config.num_encoder_layers)]
        self.norm = final_norm(config)
        if self.num_outputs:
            self.output = Linear((config.d_model, self.num_outputs), ("embed", "vocab"))

    def __call__(self, tokens: Any, positions: Any, segment_ids: Any) -> Any:
        """Returns the logits [B T num_outputs] of every token [B T]."""
        tokens, positions, segment_ids = map(jnp.asarray, (tokens, positions, segment_ids))
        context = attention_context(
            segment_ids,
            segment_ids,
            positions,
            positions,
            causal=self.causal,
            local_window=self.config.local_window,
        )
        x = self.positions(self.embedding(tokens), positions, length=tokens.shape[1])
        for layer in self.layers:
            x = layer(x, context, dropout_rows=None)  # [B T D]
        x = self.norm(x)
        return self.output(x) if self.num_outputs else self.embedding.logits(x)


def init(model: nn.Module, seed: int = 0) -> Params:
    """Returns fresh parameters. One token is enough: no shape depends on the length."""
    one = jnp.ones((1, 1), jnp.int32)
    return nn.unbox(jax.jit(model.init)(jax.random.key(seed), one, one * 0, one))["params"]


def fit_language_model(
    model: SingleStack,
    params: Params,
    text: Rows,
    *,
    num_steps: int,
    learning_rate: float = 3e-3,
    seed: int = 0,
) -> Params:
    """Returns the parameters after training from `params` to predict each word of `text`."""

    def loss(params: Params, batch: Rows) -> jax.Array:
        return mean_loss(next_word_logits(model, params, batch), batch)

    batches = (text.take(i) for i in random_batches(len(text.tokens), 64, seed))
    return fit(loss, params, batches, num_steps=num_steps, learning_rate=learning_rate)


def next_word_logits(
    model: SingleStack, params: Params, text: Rows, state: Mapping[str, Any] | None = None
) -> Any:
    """Returns the logits of every word of `text`, given the words before it: [B T V].

    The input is the text shifted right, with BOS first (section 3.1). `state` has variables that
    are not parameters.
    """
    tokens, positions = jnp.asarray(text.tokens), jnp.asarray(text.positions)
    shifted = shift_right(tokens, positions, BOS_ID)
    return model.apply({"params": params, **(state or {})}, shifted, positions, text.segment_ids)
