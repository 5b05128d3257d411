"""Multi-head attention (section 3.2).

Axis letters: B batch, S source (key) length, T target (query) length, D model width, N heads,
H head width. Heads stand before length ([B N T H]) so that every product below is a batch of
plain matrix products over (T, S), with no transpose between them.
"""

from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float, Int

from flaxformer_mt.model.dropout import Dropout
from flaxformer_mt.model.layers import Linear


class KeysValues(NamedTuple):
    """What one attention layer has to know of the positions that are looked at."""

    keys: Float[Array, "... S H"]
    values: Float[Array, "... S H"]


def attention_weights(
    queries: Float[Array, "B N T H"],
    keys: Float[Array, "B N S H"],
    mask: Bool[Array, "#B 1 #T S"],
) -> Float[Array, "B N T S"]:
    """softmax(Q K^T / sqrt(d_k)) of equation 1, in float32; masked keys weigh exactly 0.

    A query that may look at nothing (padding) gets equal weights over all keys: finite numbers
    that no other position ever reads.
    """
    queries = queries * jnp.asarray(queries.shape[-1] ** -0.5, queries.dtype)
    scores = jnp.einsum("BNTH,BNSH->BNTS", queries, keys, preferred_element_type=jnp.float32)
    return jax.nn.softmax(jnp.where(mask, scores, jnp.finfo(jnp.float32).min), axis=-1)


class MultiHeadAttention(nn.Module):
    """MultiHead(Q, K, V) = Concat(head_1, ..., head_N) W^O (section 3.2.2).

    Self-attention projects queries, keys and values from the same x; source attention takes keys
    and values that were projected from the encoder's output, once per sentence.
    """

    num_heads: int
    d_model: int
    dropout: float = 0.0
    dtype: DTypeLike = jnp.float32

    def setup(self) -> None:
        head_width = self.d_model // self.num_heads
        split = (self.d_model, self.num_heads, head_width)
        axes = ("embed", "heads", "head_width")
        self.query = Linear(split, axes, dtype=self.dtype)
        self.key = Linear(split, axes, dtype=self.dtype)
        self.value = Linear(split, axes, dtype=self.dtype)
        self.out = Linear(
            (self.num_heads, head_width, self.d_model),
            ("heads", "head_width", "embed"),
            num_inputs=2,
            dtype=self.dtype,
        )
        self.drop = Dropout(self.dropout)

    def keys_values(self, x: Float[Array, "B S D"]) -> KeysValues:
        """X W^K and x W^V of every head: each [B N S H]."""
        return KeysValues(self.key(x).swapaxes(1, 2), self.value(x).swapaxes(1, 2))

    def __call__(
        self,
        x: Float[Array, "B T D"],
        keys_values: KeysValues,
        mask: Bool[Array, "#B 1 #T S"],
        *,
        deterministic: bool,
    ) -> Float[Array, "B T D"]:
        """Each position of x looks at the keys that its mask allows (equation 1)."""
        queries = self.query(x).swapaxes(1, 2)  # [B N T H]
        weights = attention_weights(queries, keys_values.keys, mask)  # [B N T S]
        self.sow("intermediates", "weights", weights)
        weights = self.drop(weights, deterministic=deterministic).astype(self.dtype)
        heads = jnp.einsum("BNTS,BNSH->BNTH", weights, keys_values.values)
        return self.out(heads.swapaxes(1, 2))  # [B T D]

    def step(
        self, x: Float[Array, "B K D"], past: KeysValues, index: Int[Array, ""]
    ) -> tuple[Float[Array, "B K D"], KeysValues]:
        """Self-attention of the one new token of each hypothesis over itself and its past.

        Args:
          x: the new token of each of the K hypotheses of each sentence.
          past: keys and values [B K N T H], filled in positions 0..index-1.
          index: position of the new token.

        Returns:
          The output and `past` with position `index` filled in.
        """
        new = KeysValues(self.key(x), self.value(x))  # [B K N H]
        past = KeysValues(*(write(old, one, index) for old, one in zip(past, new, strict=True)))
        batch, beams, heads, length, width = past.keys.shape
        rows = (batch * beams, heads)
        visible = (jnp.arange(length) <= index)[None, None, None, :]  # [1 1 1 T]
        queries = self.query(x).reshape(*rows, 1, width)  # [B*K N 1 H]
        weights = attention_weights(queries, past.keys.reshape(*rows, length, width), visible)
        values = past.values.reshape(*rows, length, width)
        y = jnp.einsum("BNTS,BNSH->BNTH", weights.astype(self.dtype), values)  # [B*K N 1 H]
        return self.out(y.reshape(batch, beams, heads, width)), past  # [B K D]


def write(
    buffer: Float[Array, "B K N T H"], new: Float[Array, "B K N H"], index: Int[Array, ""]
) -> Float[Array, "B K N T H"]:
    """`buffer` with `new` at position `index`; XLA does it in place inside a loop."""
    return jax.lax.dynamic_update_slice_in_dim(buffer, new[:, :, :, None, :], index, axis=3)
