"""Order inside of self-attention: what the distance between a query and a key changes.

Heirs of section 3.5 that add nothing to the embeddings. Each attention layer has one `Relation`
with three hooks, which by default change nothing; `MultiHeadAttention` calls all three.
"""

import functools
from collections.abc import Callable
from typing import Literal

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from flaxformer_mt.model.layers import parameter
from flaxformer_mt.model.masks import View

Related = Literal["relative", "bucketed", "rotary"]


class Relation(nn.Module):
    """No order: queries and keys are compared by their contents alone."""

    rotates = False
    """Whether `rotate` changes anything."""

    def rotate(
        self, x: Float[Array, "B N T H"], positions: Int[Array, "#B #T"] | None
    ) -> Float[Array, "B N T H"]:
        """Queries or keys, before they are compared."""
        return x

    def add_to_scores(
        self, scores: Float[Array, "B N T S"], queries: Float[Array, "B N T H"], view: View
    ) -> Float[Array, "B N T S"]:
        """Scores of equation 1, before the softmax; `queries` are divided by sqrt(d_k)."""
        return scores

    def add_to_heads(
        self, heads: Float[Array, "B N T H"], weights: Float[Array, "B N T S"], view: View
    ) -> Float[Array, "B N T H"]:
        """Weighted sums of the values: the output of each head."""
        return heads


def distances(view: View) -> Int[Array, "#B #T #S"]:
    """How far to the right of its query each key stands: j - i."""
    assert view.query_positions is not None and view.key_positions is not None
    return view.key_positions[:, None, :] - view.query_positions[:, :, None]


class RelativePositions(Relation):
    """A learned vector for each distance, added to keys and to values (Shaw et al. 2018).

    Equations 3 and 4 there, with w_K, w_V shared by the heads of a layer:
        e_ij = q_i (k_j + w_K[clip(j - i)])^T / sqrt(d_k)
        z_i  = sum_j alpha_ij (v_j + w_V[clip(j - i)])
    Distances beyond `max_distance` (k in the paper) count as that.
    """

    max_distance: int
    key_width: int
    value_width: int

    def setup(self) -> None:
        init = nn.initializers.xavier_uniform()
        count = 2 * self.max_distance + 1
        axes = ("distances", "head_width")
        self.key_table = parameter(self, "keys", init, (count, self.key_width), axes)
        self.value_table = parameter(self, "values", init, (count, self.value_width), axes)

    def add_to_scores(
        self, scores: Float[Array, "B N T S"], queries: Float[Array, "B N T H"], view: View
    ) -> Float[Array, "B N T S"]:
        table = self.key_table.astype(queries.dtype)
        by_distance = jnp.einsum(
            "BNTH,CH->BNTC", queries, table, preferred_element_type=jnp.float32
        )
        return scores + jnp.take_along_axis(by_distance, self._rows(view)[:, None], axis=-1)

    def add_to_heads(
        self, heads: Float[Array, "B N T H"], weights: Float[Array, "B N T S"], view: View
    ) -> Float[Array, "B N T H"]:
        # The weights that fall on one distance share its vector: sum them first.
        rows = jax.nn.one_hot(self._rows(view), 2 * self.max_distance + 1, dtype=weights.dtype)
        rows = jnp.broadcast_to(rows, (weights.shape[0], *rows.shape[1:]))
        by_distance = jnp.einsum("BNTS,BTSC->BNTC", weights, rows)
        return heads + by_distance @ self.value_table.astype(heads.dtype)

    def _rows(self, view: View) -> Int[Array, "#B #T #S"]:
        """The row of the tables for each distance."""
        return jnp.clip(distances(view), -self.max_distance, self.max_distance) + self.max_distance


class BucketedBias(Relation):
    """A learned number for each head and bucket of distances, added to the scores (T5).

    Raffel et al. 2020, section 2.1. There one table serves all layers of a stack; here each layer
    learns its own.
    """

    num_heads: int
    num_buckets: int
    max_distance: int
    bidirectional: bool

    @nn.compact
    def add_to_scores(
        self, scores: Float[Array, "B N T S"], queries: Float[Array, "B N T H"], view: View
    ) -> Float[Array, "B N T S"]:
        init = nn.initializers.normal(0.02)
        shape = (self.num_buckets, self.num_heads)
        table = parameter(self, "table", init, shape, ("distances", "heads"))
        rows = distance_buckets(
            distances(view),
            num_buckets=self.num_buckets,
            max_distance=self.max_distance,
            bidirectional=self.bidirectional,
        )
        return scores + jnp.moveaxis(table[rows], -1, 1)  # [B T S N] -> [B N T S]


def distance_buckets(
    distance: Int[Array, "..."], *, num_buckets: int, max_distance: int, bidirectional: bool
) -> Int[Array, "..."]:
    """The bucket of each distance j - i, as in T5.

    Half of the buckets hold one distance each, from 0 up; the others hold spans that grow
    logarithmically up to `max_distance`, and the last all beyond. `bidirectional` gives keys to
    the right buckets of their own; otherwise they count as distance 0 (a causal mask hides them).
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


class Rotary(Relation):
    """Queries and keys turned by angles that grow with their position (Su et al. 2021, RoFormer).

    The product of a turned query and a turned key depends on their distance alone. Dimension i is
    paired with i + H/2 and turned by pos / 10000^(2i / H), as in GPT-NeoX; the paper pairs
    neighbours, which is the same in another order.
    """

    rotates = True

    def rotate(
        self, x: Float[Array, "B N T H"], positions: Int[Array, "#B #T"] | None
    ) -> Float[Array, "B N T H"]:
        assert positions is not None
        width = x.shape[-1]
        frequencies = 10000.0 ** (-np.arange(0, width, 2) / width)  # [H/2]
        angles = positions[:, None, :, None] * jnp.asarray(frequencies, jnp.float32)
        sine, cosine = jnp.sin(angles), jnp.cos(angles)  # [B 1 T H/2]
        left, right = jnp.split(x.astype(jnp.float32), 2, axis=-1)
        turned = [left * cosine - right * sine, right * cosine + left * sine]
        return jnp.concatenate(turned, axis=-1).astype(x.dtype)


def relation_maker(
    kind: str,
    *,
    num_heads: int,
    key_width: int,
    value_width: int,
    max_distance: int,
    num_buckets: int,
    bidirectional: bool,
) -> Callable[[], Relation]:
    """Makes the relation of one self-attention layer: none, unless `kind` is one of `Related`."""
    if kind == "relative":
        return functools.partial(RelativePositions, max_distance, key_width, value_width)
    if kind == "bucketed":
        return functools.partial(BucketedBias, num_heads, num_buckets, max_distance, bidirectional)
    return Rotary if kind == "rotary" else Relation
