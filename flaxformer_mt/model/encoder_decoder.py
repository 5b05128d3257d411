"""The encoder layer and the decoder layer (section 3.1, figure 1), and their parts.

The two classes give the order of the sub-layers. The functions below them choose the kind of each
part from the config.
"""

import functools
from collections.abc import Callable

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from flaxformer_mt.model.attention import KeysValues
from flaxformer_mt.model.config import TransformerConfig
from flaxformer_mt.model.dropout import DropoutRows
from flaxformer_mt.model.kernels import REFERENCE, Kernels, KeyValueStore
from flaxformer_mt.model.layers import (
    FeedForward,
    Identity,
    LayerNorm,
    PreNormResidual,
    Residual,
    RMSNorm,
    make_feed_forward,
)
from flaxformer_mt.model.masks import AttentionContext
from flaxformer_mt.model.multi_head_attention import MultiHeadAttention
from flaxformer_mt.model.positions import RelativeScheme, relative_scheme


class EncoderLayer(nn.Module):
    """Self-attention, then the feed-forward network (section 3.1)."""

    config: TransformerConfig
    kernels: Kernels = REFERENCE

    def setup(self) -> None:
        config, kernels = self.config, self.kernels
        self.self_attention = self_attention(config, kernels, bidirectional=True)
        self.attention_residual = residual(config, kernels)
        self.feed_forward = feed_forward(config, kernels)
        self.feed_forward_residual = residual(config, kernels)

    def __call__(
        self, x: Float[Array, "B S D"], context: AttentionContext, *, dropout_rows: DropoutRows
    ) -> Float[Array, "B S D"]:
        y = self.attention_residual.before(x)
        keys_values = self.self_attention.keys_values(y, context.key_positions)
        y = self.self_attention(y, keys_values, context, dropout_rows=dropout_rows)
        x = self.attention_residual.after(x, y, dropout_rows=dropout_rows)
        y = self.feed_forward(self.feed_forward_residual.before(x), dropout_rows=dropout_rows)
        return self.feed_forward_residual.after(x, y, dropout_rows=dropout_rows)


class DecoderLayer(nn.Module):
    """Causal self-attention, attention to the source, feed-forward network (section 3.1)."""

    config: TransformerConfig
    kernels: Kernels = REFERENCE

    def setup(self) -> None:
        config, kernels = self.config, self.kernels
        self.self_attention = self_attention(config, kernels, bidirectional=False)
        self.self_residual = residual(config, kernels)
        self.source_attention = attention(config, kernels)
        self.source_residual = residual(config, kernels)
        self.feed_forward = feed_forward(config, kernels)
        self.feed_forward_residual = residual(config, kernels)

    def __call__(
        self,
        x: Float[Array, "B T D"],
        context: AttentionContext,
        memory: Float[Array, "B S D"],
        source_context: AttentionContext,
        *,
        dropout_rows: DropoutRows,
    ) -> Float[Array, "B T D"]:
        """Returns the output of all T positions at once (training)."""
        y = self.self_residual.before(x)
        keys_values = self.self_attention.keys_values(y, context.key_positions)
        y = self.self_attention(y, keys_values, context, dropout_rows=dropout_rows)
        x = self.self_residual.after(x, y, dropout_rows=dropout_rows)
        y = self.source_residual.before(x)
        keys_values = self.source_keys_values(memory)
        y = self.source_attention(y, keys_values, source_context, dropout_rows=dropout_rows)
        x = self.source_residual.after(x, y, dropout_rows=dropout_rows)
        y = self.feed_forward(self.feed_forward_residual.before(x), dropout_rows=dropout_rows)
        return self.feed_forward_residual.after(x, y, dropout_rows=dropout_rows)

    def source_keys_values(self, memory: Float[Array, "B S D"]) -> KeysValues:
        """Returns this layer's keys [B S G d_k] and values [B S G d_v] of the encoder's output."""
        return self.source_attention.keys_values(memory)

    def step(
        self,
        x: Float[Array, "B K D"],
        past: KeyValueStore,
        slots: Int[Array, "B K"],
        context: AttentionContext,
        source: KeyValueStore,
        source_context: AttentionContext,
    ) -> tuple[Float[Array, "B K D"], KeyValueStore]:
        """Returns the output of one new position of each of K hypotheses, and the longer past.

        The same sub-layers as in `__call__`, without dropout. The K hypotheses of a sentence take
        the place of the T queries.
        """
        y = self.self_residual.before(x)
        past = past.append(slots, self.self_attention.keys_values(y, context.query_positions))
        y = self.self_attention.attend_store(y, past, context)
        x = self.self_residual.after(x, y, dropout_rows=None)
        y = self.source_residual.before(x)
        y = self.source_attention.attend_store(y, source, source_context)
        x = self.source_residual.after(x, y, dropout_rows=None)
        y = self.feed_forward(self.feed_forward_residual.before(x), dropout_rows=None)
        return self.feed_forward_residual.after(x, y, dropout_rows=None), past


def attention(
    config: TransformerConfig,
    kernels: Kernels,
    make_relative_scheme: Callable[[], RelativeScheme] = RelativeScheme,
) -> MultiHeadAttention:
    """Returns attention without a relative position scheme, unless one is given."""
    key_width, value_width = config.head_widths
    return MultiHeadAttention(
        num_heads=config.num_heads,
        num_kv_heads=config.kv_heads,
        d_model=config.d_model,
        key_width=key_width,
        value_width=value_width,
        make_relative_scheme=make_relative_scheme,
        use_bias=config.use_bias,
        dropout=config.attention_dropout,
        dtype=jnp.dtype(config.dtype),
        kernels=kernels,
    )


def self_attention(
    config: TransformerConfig, kernels: Kernels, *, bidirectional: bool
) -> MultiHeadAttention:
    """Returns the self-attention of the encoder (`bidirectional`) or of the decoder."""
    key_width, value_width = config.head_widths
    make_relative_scheme = relative_scheme(
        config.positions,
        num_heads=config.num_heads,
        key_width=key_width,
        value_width=value_width,
        max_distance=config.distance_limit,
        num_buckets=config.num_position_buckets,
        bidirectional=bidirectional,
    )
    return attention(config, kernels, make_relative_scheme)


def feed_forward(config: TransformerConfig, kernels: Kernels) -> FeedForward:
    """Returns the feed-forward network of a layer."""
    return make_feed_forward(
        config.activation,
        config.d_ff,
        use_bias=config.use_bias,
        dropout=config.activation_dropout,
        dtype=jnp.dtype(config.dtype),
        kernels=kernels,
    )


def residual(config: TransformerConfig, kernels: Kernels) -> Residual:
    """Returns the residual connection around a sub-layer."""
    wrapper = {"post": Residual, "pre": PreNormResidual}[config.norm]
    return wrapper(norm_maker(config), config.dropout, kernels)


def norm_maker(config: TransformerConfig) -> Callable[[], nn.Module]:
    """Returns a function that makes one norm."""
    norm = {"layer": LayerNorm, "rms": RMSNorm}[config.norm_type]
    return functools.partial(norm, config.norm_epsilon)


def final_norm(config: TransformerConfig) -> nn.Module:
    """Returns the norm after the last layer. Only pre-norm needs one: no sub-layer follows."""
    return {"post": Identity, "pre": norm_maker(config)}[config.norm]()
