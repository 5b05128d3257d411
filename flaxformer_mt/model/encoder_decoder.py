"""One layer of the encoder, one of the decoder (section 3.1, figure 1), and what they are made of.

The order of sub-layers is told in the two classes. Which kind each part is, the config decides in
the functions below them, and nowhere else.
"""

import functools
from collections.abc import Callable

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from flaxformer_mt.model.attention import KeysValues, MultiHeadAttention
from flaxformer_mt.model.config import TransformerConfig
from flaxformer_mt.model.dropout import DropoutRows
from flaxformer_mt.model.layers import (
    FeedForward,
    Identity,
    LayerNorm,
    PreNormResidual,
    Residual,
    RMSNorm,
    make_feed_forward,
)
from flaxformer_mt.model.masks import View
from flaxformer_mt.model.relations import Relation, relation_maker


class EncoderLayer(nn.Module):
    """Self-attention, then the feed-forward network (section 3.1)."""

    config: TransformerConfig

    def setup(self) -> None:
        self.self_attention = self_attention(self.config, bidirectional=True)
        self.attention_residual = residual(self.config)
        self.feed_forward = feed_forward(self.config)
        self.feed_forward_residual = residual(self.config)

    def __call__(
        self, x: Float[Array, "B S D"], view: View, *, dropout_rows: DropoutRows
    ) -> Float[Array, "B S D"]:
        y = self.attention_residual.before(x)
        keys_values = self.self_attention.keys_values(y, view.key_positions)
        y = self.self_attention(y, keys_values, view=view, dropout_rows=dropout_rows)
        x = self.attention_residual.after(x, y, dropout_rows=dropout_rows)
        y = self.feed_forward(self.feed_forward_residual.before(x), dropout_rows=dropout_rows)
        return self.feed_forward_residual.after(x, y, dropout_rows=dropout_rows)


class DecoderLayer(nn.Module):
    """Self-attention to the left, attention to the source, feed-forward network (section 3.1)."""

    config: TransformerConfig

    def setup(self) -> None:
        self.self_attention = self_attention(self.config, bidirectional=False)
        self.self_residual = residual(self.config)
        self.source_attention = attention(self.config)
        self.source_residual = residual(self.config)
        self.feed_forward = feed_forward(self.config)
        self.feed_forward_residual = residual(self.config)

    def __call__(
        self,
        x: Float[Array, "B T D"],
        view: View,
        memory: Float[Array, "B S D"],
        source_view: View,
        *,
        dropout_rows: DropoutRows,
    ) -> Float[Array, "B T D"]:
        """All T positions at once (training)."""
        y = self.self_residual.before(x)
        keys_values = self.self_attention.keys_values(y, view.key_positions)
        y = self.self_attention(y, keys_values, view=view, dropout_rows=dropout_rows)
        x = self.self_residual.after(x, y, dropout_rows=dropout_rows)
        source = (self.source_keys_values(memory),)
        return self._read_source(x, source, source_view, dropout_rows=dropout_rows)

    def source_keys_values(self, memory: Float[Array, "B S D"]) -> KeysValues:
        """This layer's keys and values of the encoder's output: [B G S d_k], [B G S d_v]."""
        return self.source_attention.keys_values(memory)

    def step(
        self,
        x: Float[Array, "B K D"],
        past: tuple[KeysValues, ...],
        slots: Int[Array, "B K"],
        view: View,
        source: tuple[KeysValues, ...],
        source_view: View,
    ) -> tuple[Float[Array, "B K D"], tuple[KeysValues, ...]]:
        """One new position of each of K hypotheses (translation); returns the longer past."""
        y, past = self.self_attention.step(self.self_residual.before(x), past, slots, view)
        x = self.self_residual.after(x, y, dropout_rows=None)
        # The K hypotheses of a sentence stand where the T queries stood: all look at one source.
        return self._read_source(x, source, source_view, dropout_rows=None), past

    def _read_source(
        self,
        x: Float[Array, "B T D"],
        source: tuple[KeysValues, ...],
        source_view: View,
        *,
        dropout_rows: DropoutRows,
    ) -> Float[Array, "B T D"]:
        y = self.source_residual.before(x)
        y = self.source_attention(y, *source, view=source_view, dropout_rows=dropout_rows)
        x = self.source_residual.after(x, y, dropout_rows=dropout_rows)
        y = self.feed_forward(self.feed_forward_residual.before(x), dropout_rows=dropout_rows)
        return self.feed_forward_residual.after(x, y, dropout_rows=dropout_rows)


def attention(
    config: TransformerConfig, make_relation: Callable[[], Relation] = Relation
) -> MultiHeadAttention:
    """Attention in which order plays no part but by `make_relation`: that to the source."""
    key_width, value_width = config.head_widths
    return MultiHeadAttention(
        num_heads=config.num_heads,
        num_kv_heads=config.kv_heads,
        d_model=config.d_model,
        key_width=key_width,
        value_width=value_width,
        make_relation=make_relation,
        use_bias=config.use_bias,
        dropout=config.attention_dropout,
        dtype=jnp.dtype(config.dtype),
    )


def self_attention(config: TransformerConfig, *, bidirectional: bool) -> MultiHeadAttention:
    """Attention of a sentence to itself; `bidirectional` in the encoder."""
    key_width, value_width = config.head_widths
    make_relation = relation_maker(
        config.positions,
        num_heads=config.num_heads,
        key_width=key_width,
        value_width=value_width,
        max_distance=config.distance_limit,
        num_buckets=config.num_position_buckets,
        bidirectional=bidirectional,
    )
    return attention(config, make_relation)


def feed_forward(config: TransformerConfig) -> FeedForward:
    """The feed-forward network of a layer."""
    return make_feed_forward(
        config.activation,
        config.d_ff,
        use_bias=config.use_bias,
        dropout=config.activation_dropout,
        dtype=jnp.dtype(config.dtype),
    )


def residual(config: TransformerConfig) -> Residual:
    """What is wrapped around each sub-layer."""
    wrapper = {"post": Residual, "pre": PreNormResidual}[config.norm]
    return wrapper(norm_maker(config), config.dropout)


def norm_maker(config: TransformerConfig) -> Callable[[], nn.Module]:
    """Makes one normalisation."""
    norm = {"layer": LayerNorm, "rms": RMSNorm}[config.norm_type]
    return functools.partial(norm, config.norm_epsilon)


def final_norm(config: TransformerConfig) -> nn.Module:
    """After the last layer: in pre-norm the last sums have no sub-layer after them to do it."""
    return {"post": Identity, "pre": norm_maker(config)}[config.norm]()
