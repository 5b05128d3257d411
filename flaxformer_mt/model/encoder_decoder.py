"""The encoder layer and the decoder layer (section 3.1, figure 1).

They give the order of the sub-layers. `layers` and `multi_head_attention` have the sub-layers.
"""

import flax.linen as nn
from jaxtyping import Array, Float, Int

from flaxformer_mt.model.attention import KeysValues
from flaxformer_mt.model.config import TransformerConfig
from flaxformer_mt.model.kernels import REFERENCE, DropoutRows, Kernels, KeyValueStore
from flaxformer_mt.model.layers import FeedForward, residual
from flaxformer_mt.model.masks import AttentionContext
from flaxformer_mt.model.multi_head_attention import MultiHeadAttention, self_attention


class EncoderLayer(nn.Module):
    """Self-attention, then the feed-forward network (section 3.1)."""

    config: TransformerConfig
    kernels: Kernels = REFERENCE

    def setup(self) -> None:
        config, kernels = self.config, self.kernels
        self.self_attention = self_attention(config, kernels, bidirectional=True)
        self.attention_residual = residual(config, kernels)
        self.feed_forward = FeedForward(config, kernels)
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
        self.source_attention = MultiHeadAttention(config, kernels)
        self.source_residual = residual(config, kernels)
        self.feed_forward = FeedForward(config, kernels)
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
