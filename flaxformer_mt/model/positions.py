"""Positions (section 3.5): they give a model without recurrence the order of the words.

There are two kinds of schemes:

- Those that add a vector to the embeddings, once at the bottom of each stack (`AddedPositions`).
- Those that work by distance, in each self-attention (`RelativeScheme`, with three hooks that
  change nothing by default).

To add a scheme, write its class here, and add an entry to `ADDED_SCHEMES` or `RELATIVE_SCHEMES` at
the end of this file. Type checkers and command lines take its name from `model.config.Scheme`.
"""

from collections.abc import Callable

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from flaxformer_mt.model.config import Scheme, TransformerConfig
from flaxformer_mt.model.layers import parameter
from flaxformer_mt.model.masks import AttentionContext


def sinusoids(
    length: int, d_model: int, *, half_split: bool = False
) -> Float[np.ndarray, "{length} {d_model}"]:
    """Returns the table of section 3.5, computed in float64 and rounded to float32.

    PE[pos, 2i] = sin(pos / 10000^(2i / d_model)), PE[pos, 2i+1] = cos(the same).

    D must be even. `half_split` puts all sines first, as Marian and Tensor2Tensor do. The paper
    interleaves sines and cosines.
    """
    frequencies = 10000.0 ** (-np.arange(0, d_model, 2) / d_model)  # [D/2]
    angles = np.arange(length)[:, None] * frequencies  # [T D/2]
    table = np.stack([np.sin(angles), np.cos(angles)], axis=1 if half_split else 2)
    return table.reshape(length, d_model).astype(np.float32)  # [T D]


class AddedPositions(nn.Module):
    """Adds a vector for each position to the embeddings; this base class adds nothing."""

    def __call__(
        self, x: Float[Array, "B T D"], positions: Int[Array, "B T"], *, length: int
    ) -> Float[Array, "B T D"]:
        """Returns x + PE[positions]; all positions are below the static bound `length`."""
        return x


class Sinusoids(AddedPositions):
    """The paper's scheme: a fixed table for any length."""

    half_split: bool = False

    def __call__(
        self, x: Float[Array, "B T D"], positions: Int[Array, "B T"], *, length: int
    ) -> Float[Array, "B T D"]:
        table = sinusoids(length, x.shape[-1], half_split=self.half_split)
        return x + jnp.asarray(table, x.dtype)[positions]


class LearnedPositions(AddedPositions):
    """One learned vector for each of the first `max_positions` positions (table 3, row E).

    Raises ValueError if a sequence may be longer.
    """

    max_positions: int

    @nn.compact
    def __call__(
        self, x: Float[Array, "B T D"], positions: Int[Array, "B T"], *, length: int
    ) -> Float[Array, "B T D"]:
        if length > self.max_positions:
            raise ValueError(
                f"The model has learned positions for {self.max_positions} tokens "
                f"(model.max_positions), but the input may have {length}: shorten it, lower "
                "decoding.max_target_length, or train with more positions."
            )
        d_model = x.shape[-1]
        init = nn.initializers.normal(d_model**-0.5)
        shape = (self.max_positions, d_model)
        table = parameter(self, "table", init, shape, ("positions", "embed"))
        return x + table[positions].astype(x.dtype)


class RelativeScheme(nn.Module):
    """The effect of distance on self-attention; this base class changes nothing.

    Attributes:
      config: sizes.
      bidirectional: whether queries see keys to their right (the encoder).
    """

    config: TransformerConfig
    bidirectional: bool = True

    rotates = False
    """Whether `rotate` changes its input."""
    needs_weights = False
    """Whether `add_to_heads` changes its input: then no fused attention kernel can be used."""

    def rotate(
        self, x: Float[Array, "B T N H"], positions: Int[Array, "#B #T"] | None
    ) -> Float[Array, "B T N H"]:
        """Returns queries or keys as they enter equation 1."""
        return x

    def bias(
        self, queries: Float[Array, "B T N H"], context: AttentionContext
    ) -> Float[Array, "#B N T S"] | None:
        """Returns a bias that is added to the logits of equation 1, or None."""
        return None

    def add_to_heads(
        self,
        heads: Float[Array, "B T N W"],
        weights: Float[Array, "B N T S"],
        context: AttentionContext,
    ) -> Float[Array, "B T N W"]:
        """Returns the output of equation 1 after the scheme has added to it."""
        return heads


class RelativePositions(RelativeScheme):
    """A learned vector for each distance, added to keys and values (Shaw et al. 2018).

    Equations 4 and 3 there, with w_K and w_V shared by the heads of a layer:
        e_ij = q_i (k_j + w_K[clip(j - i)])^T / sqrt(d_k)
        z_i  = sum_j alpha_ij (v_j + w_V[clip(j - i)])
    Distances are clipped to `distance_limit` (k in that paper).
    """

    needs_weights = True

    def setup(self) -> None:
        init, axes = nn.initializers.xavier_uniform(), ("distances", "head_width")
        self.num_distances = 2 * self.config.distance_limit + 1
        key_width, value_width = self.config.head_widths
        self.key_table = parameter(self, "keys", init, (self.num_distances, key_width), axes)
        self.value_table = parameter(self, "values", init, (self.num_distances, value_width), axes)

    def bias(
        self, queries: Float[Array, "B T N H"], context: AttentionContext
    ) -> Float[Array, "B N T S"]:
        """Returns q_i w_K[clip(j - i)]^T / sqrt(d_k)."""
        table = self.key_table.astype(queries.dtype)
        by_distance = jnp.einsum(
            "BTNH,CH->BNTC",
            queries * jnp.asarray(queries.shape[-1] ** -0.5, queries.dtype),
            table,
            preferred_element_type=jnp.float32,
        )
        return jnp.take_along_axis(by_distance, self._rows(context)[:, None], axis=-1)

    def add_to_heads(
        self,
        heads: Float[Array, "B T N W"],
        weights: Float[Array, "B N T S"],
        context: AttentionContext,
    ) -> Float[Array, "B T N W"]:
        """Returns z_i: the heads with the second term of equation 3 added."""
        # Keys at one distance share a vector, so their weights are summed first.
        rows = jax.nn.one_hot(self._rows(context), self.num_distances, dtype=heads.dtype)
        rows = jnp.broadcast_to(rows, (weights.shape[0], *rows.shape[1:]))
        by_distance = jnp.einsum("BNTS,BTSC->BTNC", weights.astype(heads.dtype), rows)
        return heads + by_distance @ self.value_table.astype(heads.dtype)

    def _rows(self, context: AttentionContext) -> Int[Array, "#B #T #S"]:
        """Returns the row of the tables for each query and key."""
        limit = self.config.distance_limit
        return jnp.clip(distances(context), -limit, limit) + limit


class BucketedBias(RelativeScheme):
    """A learned number for each head and bucket of distances, added to the logits (T5).

    Raffel et al. 2020, section 2.1. There one table serves all layers of a stack; here each layer
    has its own.
    """

    @nn.compact
    def bias(
        self, queries: Float[Array, "B T N H"], context: AttentionContext
    ) -> Float[Array, "#B N T S"]:
        """Returns the learned number of each head and bucket."""
        config, init = self.config, nn.initializers.normal(0.02)
        shape = (config.num_position_buckets, config.num_heads)
        table = parameter(self, "table", init, shape, ("distances", "heads"))
        rows = distance_buckets(
            distances(context),
            num_buckets=config.num_position_buckets,
            max_distance=config.distance_limit,
            bidirectional=self.bidirectional,
        )
        return jnp.moveaxis(table[rows], -1, 1)  # [B T S N] -> [B N T S]


class Rotary(RelativeScheme):
    """Queries and keys rotated by angles that grow with their position (Su et al. 2021, RoFormer).

    The product of a rotated query and a rotated key depends on their distance alone. Dimension i is
    paired with i + H/2 and rotated by pos / 10000^(2i / H), as in GPT-NeoX. The RoFormer paper
    pairs neighbours, which is the same in another order.
    """

    rotates = True

    def rotate(
        self, x: Float[Array, "B T N H"], positions: Int[Array, "#B #T"] | None
    ) -> Float[Array, "B T N H"]:
        """Returns x, rotated by the angles of its positions."""
        assert positions is not None
        width = x.shape[-1]
        frequencies = 10000.0 ** (-np.arange(0, width, 2) / width)  # [H/2]
        angles = positions[:, :, None, None] * jnp.asarray(frequencies, jnp.float32)
        sine, cosine = jnp.sin(angles), jnp.cos(angles)  # [B T 1 H/2]
        left, right = jnp.split(x.astype(jnp.float32), 2, axis=-1)
        rotated = [left * cosine - right * sine, right * cosine + left * sine]
        return jnp.concatenate(rotated, axis=-1).astype(x.dtype)


def distances(context: AttentionContext) -> Int[Array, "#B #T #S"]:
    """Returns j - i for query i and key j: positive if the key is to the right of the query."""
    assert context.query_positions is not None and context.key_positions is not None
    return context.key_positions[:, None, :] - context.query_positions[:, :, None]


def distance_buckets(
    distance: Int[Array, "..."], *, num_buckets: int, max_distance: int, bidirectional: bool
) -> Int[Array, "..."]:
    """Returns the bucket of each distance j - i, as in T5.

    Half of the buckets hold one distance each, from 0 up. The others hold spans that grow
    logarithmically up to `max_distance`; the last one holds all distances beyond. With
    `bidirectional`, keys to the right have buckets of their own. Otherwise they count as distance
    0 (a causal mask hides them).
    """
    offset = jnp.zeros_like(distance)
    if bidirectional:
        num_buckets //= 2
        offset = jnp.where(distance > 0, num_buckets, 0)
        steps = jnp.abs(distance)
    else:
        steps = jnp.maximum(-distance, 0)
    exact = num_buckets // 2
    span = np.log(max_distance / exact)
    growth = jnp.log(jnp.maximum(steps, 1).astype(jnp.float32) / exact) / span
    far = exact + (growth * (num_buckets - exact)).astype(distance.dtype)
    far = jnp.minimum(far, num_buckets - 1)
    return offset + jnp.where(steps < exact, steps, far)


ADDED_SCHEMES: dict[Scheme, Callable[[int], AddedPositions]] = {  # of `max_positions`
    "sinusoidal": lambda _: Sinusoids(),
    "sinusoidal_half_split": lambda _: Sinusoids(half_split=True),
    "learned": LearnedPositions,
    "none": lambda _: AddedPositions(),
}
RELATIVE_SCHEMES: dict[Scheme, type[RelativeScheme]] = {
    "relative": RelativePositions,
    "bucketed": BucketedBias,
    "rotary": Rotary,
}


def make_added_positions(scheme: Scheme, max_positions: int) -> AddedPositions:
    """Returns the module that adds to the embeddings; for a relative scheme it adds nothing."""
    return ADDED_SCHEMES.get(scheme, ADDED_SCHEMES["none"])(max_positions)
