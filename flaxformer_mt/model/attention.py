"""Multi-head attention (section 3.2).

Axis letters: B batch, S source (key) length, T target (query) length, D model width, N heads,
G heads of keys and values, H head width. Heads stand before length ([B N T H]) so that every
product below is a batch of plain matrix products over (T, S), with no transpose between them.
"""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float, Int

from flaxformer_mt.model.dropout import Dropout, DropoutRows
from flaxformer_mt.model.layers import Linear
from flaxformer_mt.model.masks import View
from flaxformer_mt.model.relations import Relation

MASKED = float(jnp.finfo(jnp.float32).min)


class KeysValues(NamedTuple):
    """What one attention layer has to know of the positions that are looked at."""

    keys: Float[Array, "... H S"]
    """K^T, as equation 1 multiplies it: the products of one query row with all keys stand side by
    side, as a CPU wants them."""
    values: Float[Array, "... S W"]

    def astype(self, dtype: DTypeLike) -> "KeysValues":
        """Both, in that dtype."""
        return KeysValues(self.keys.astype(dtype), self.values.astype(dtype))


def compare(
    queries: Float[Array, "B N T H"], keys: Float[Array, "B G H S"]
) -> Float[Array, "B N T S"]:
    """Q K^T of equation 1, in float32. With G < N, N / G query heads share a head of keys."""
    batch, heads, length, width = queries.shape
    groups = keys.shape[1]
    # The query heads of a group stand behind one another as if they were more queries.
    rows = queries.reshape(batch, groups, heads // groups * length, width)
    scores = jnp.einsum("BGTH,BGHS->BGTS", rows, keys, preferred_element_type=jnp.float32)
    return scores.reshape(batch, heads, length, -1)


def masked_softmax(
    scores: Float[Array, "B N T S"], mask: Bool[Array, "#B 1 #T #S"]
) -> Float[Array, "B N T S"]:
    """The softmax of equation 1, in float32; masked keys weigh exactly 0.

    A query that may look at nothing (padding) gets equal weights over all keys: finite numbers
    that no other position ever reads.
    """
    return jax.nn.softmax(jnp.where(mask, scores, MASKED), axis=-1)


def mix(
    weights: Float[Array, "B N T S"], values: Float[Array, "B G S W"]
) -> Float[Array, "B N T W"]:
    """The weighted sums of the values, equation 1's last product; G as in `compare`."""
    batch, heads, length, _ = weights.shape
    groups = values.shape[1]
    rows = weights.reshape(batch, groups, heads // groups * length, -1)
    mixed = jnp.einsum("BGTS,BGSW->BGTW", rows, values)
    return mixed.reshape(batch, heads, length, -1)


class PageRead(NamedTuple):
    """What queries find among S keys and values, some of them all; all but `top` times e^-top."""

    top: Float[Array, "B N T 1"]
    """The largest score of each query."""
    powers: Float[Array, "B N T S"]
    """e^score: the numerators of the softmax."""
    total: Float[Array, "B N T 1"]
    """Their sum."""
    mixed: Float[Array, "B N T W"]
    """The values, weighted with them."""


def read_page(
    scores: Float[Array, "B N T S"],
    values: Float[Array, "B G S W"],
    mask: Bool[Array, "#B 1 #T S"],
) -> PageRead:
    """The softmax of equation 1 and what it weighs, not yet divided by their denominator."""
    top = jnp.where(mask, scores, MASKED).max(axis=-1, keepdims=True)
    powers = jnp.where(mask, jnp.exp(scores - top), 0.0)
    total = sum_of_each(powers)
    return PageRead(top, powers, total, mix(powers.astype(values.dtype), values))


def sum_of_each(x: Float[Array, "*B S"]) -> Float[Array, "*B 1"]:
    """The sum over the last dimension, which on a CPU does not depend on how many others there are.

    There XLA adds up an array of fewer than 4,096 numbers in another order than a larger one. Where
    the second half is added to the first until one number is left the order is fixed, and it is
    faster; on a TPU it would be slower.
    """
    plain = functools.partial(jnp.sum, axis=-1, keepdims=True)
    return jax.lax.platform_dependent(x, cpu=_sum_by_halves, default=plain)


def _sum_by_halves(x: Float[Array, "*B S"]) -> Float[Array, "*B 1"]:
    while (length := x.shape[-1]) > 1:
        half = (length + 1) // 2
        first, second = jnp.split(x, [half], axis=-1)
        x = first + jnp.pad(second, [(0, 0)] * (x.ndim - 1) + [(0, 2 * half - length)])
    return x


def join(one: PageRead, other: PageRead) -> PageRead:
    """What queries find among the keys of both, as FlashAttention joins blocks.

    Dao et al. 2022, section 3.1. Keys that the mask hides change no bit: their share is 0.
    """
    top = jnp.maximum(one.top, other.top)
    share, rest = jnp.exp(one.top - top), jnp.exp(other.top - top)
    powers = jnp.concatenate([share * one.powers, rest * other.powers], axis=-1)
    total = share * one.total + rest * other.total
    mixed = share * one.mixed + rest * other.mixed
    return PageRead(top, powers, total, mixed.astype(one.mixed.dtype))


class MultiHeadAttention(nn.Module):
    """MultiHead(Q, K, V) = Concat(head_1, ..., head_N) W^O (section 3.2.2).

    Self-attention projects queries, keys and values from the same x; source attention takes keys
    and values that were projected from the encoder's output, once per sentence.

    Attributes:
      num_heads: N, of the queries.
      num_kv_heads: G, of keys and values: N in the paper; fewer is grouped-query attention
        (Ainslie et al. 2023), 1 is multi-query attention (Shazeer 2019).
      d_model: D.
      key_width: d_k, of each query and key.
      value_width: d_v, of each value.
      make_relation: makes what distance changes in the comparison (self-attention only).
    """

    num_heads: int
    num_kv_heads: int
    d_model: int
    key_width: int
    value_width: int
    make_relation: Callable[[], Relation] = Relation
    use_bias: bool = True
    dropout: float = 0.0
    dtype: DTypeLike = jnp.float32

    def setup(self) -> None:
        self.relation = self.make_relation()

        def project(heads: int, width: int, axis: str, fixed_bias: bool = False) -> Linear:
            shape = (self.d_model, heads, width)
            axes = ("embed", axis, "head_width")
            # As if W^Q, W^K, W^V were one matrix [D 3D]: half the variance. Post-norm learns far
            # sooner by it: on Multi30k BLEU 24.9, not 10.4, after 2,000 steps.
            return Linear(
                shape,
                axes,
                init_scale=0.5,
                use_bias=self.use_bias,
                fixed_bias=fixed_bias,
                dtype=self.dtype,
            )

        self.query = project(self.num_heads, self.key_width, "heads")
        # A key's bias adds the same to all scores of a query, which softmax does not see. Its
        # gradient would be rounding alone, and Adam makes full steps of that.
        fixed = not self.relation.rotates
        self.key = project(self.num_kv_heads, self.key_width, "kv_heads", fixed)
        self.value = project(self.num_kv_heads, self.value_width, "kv_heads")
        self.out = Linear(
            (self.num_heads, self.value_width, self.d_model),
            ("heads", "head_width", "embed"),
            num_inputs=2,
            use_bias=self.use_bias,
            dtype=self.dtype,
        )
        self.drop = Dropout(self.dropout)

    def keys_values(
        self, x: Float[Array, "B S D"], positions: Int[Array, "#B #S"] | None = None
    ) -> KeysValues:
        """(x W^K)^T and x W^V of every head: [B G d_k S] and [B G S d_v]."""
        keys, values = self.key(x).swapaxes(1, 2), self.value(x).swapaxes(1, 2)
        return KeysValues(self.relation.rotate(keys, positions).swapaxes(2, 3), values)

    def __call__(
        self,
        x: Float[Array, "B T D"],
        whole: KeysValues,
        *more: KeysValues,
        view: View,
        dropout_rows: DropoutRows,
        always: int = 1,
    ) -> Float[Array, "B T D"]:
        """Each position of x looks at the keys that its mask allows (equation 1).

        They may come in several pages, which are S keys together: while translating, where nothing
        is dropped. Those after the first `always` are read only if anybody looks at them.
        """
        queries = self.relation.rotate(self.query(x).swapaxes(1, 2), view.query_positions)
        queries = queries * jnp.asarray(self.key_width**-0.5, queries.dtype)  # [B N T H]
        if more:
            return self._attend_to_pages(queries, (whole, *more), view, always)
        scores = compare(queries, whole.keys)
        scores = self.relation.add_to_scores(scores, queries, view)
        weights = masked_softmax(scores, view.mask)  # [B N T S]
        self.sow("intermediates", "weights", weights)
        weights = self.drop(weights, dropout_rows=dropout_rows).astype(self.dtype)
        heads = self.relation.add_to_heads(mix(weights, whole.values), weights, view)
        return self.out(heads.swapaxes(1, 2))  # [B T D]

    def _attend_to_pages(
        self,
        queries: Float[Array, "B N T H"],
        pages: Sequence[KeysValues],
        view: View,
        always: int,
    ) -> Float[Array, "B T D"]:
        """The same, where keys and values come in pages. A query that sees nothing gets zeros."""
        found = self._read_pages(queries, pages, view, always)
        total = jnp.maximum(found.total, 1.0)  # it is at least e^0, if anything is seen
        weights = found.powers / total
        self.sow("intermediates", "weights", weights)
        weights = weights.astype(self.dtype)
        heads = (found.mixed / total).astype(self.dtype)
        heads = self.relation.add_to_heads(heads, weights, view)
        return self.out(heads.swapaxes(1, 2))

    def _read_pages(
        self,
        queries: Float[Array, "B N T H"],
        pages: Sequence[KeysValues],
        view: View,
        always: int = 1,
    ) -> PageRead:
        """The first `always` pages, and those that follow if anybody looks at them."""
        page, *more = pages
        here, beyond = view.split(page.keys.shape[-1])
        scores = compare(queries, page.keys)
        scores = self.relation.add_to_scores(scores, queries, here)
        found = read_page(scores, page.values, here.mask)
        if not more:
            return found
        if always > 1:
            return join(found, self._read_pages(queries, more, beyond, always - 1))
        ways = MultiHeadAttention._read_pages, MultiHeadAttention._skip_pages
        return join(found, nn.cond(beyond.mask.any(), *ways, self, queries, more, beyond))

    def _skip_pages(
        self, queries: Float[Array, "B N T H"], pages: Sequence[KeysValues], view: View
    ) -> PageRead:
        """What `_read_pages` finds where the mask hides all, with nothing read."""

        def all_are(value: float, width: int) -> Float[Array, "B N T _"]:
            return jnp.full((*queries.shape[:-1], width), value, jnp.float32)

        values = pages[0].values
        nothing = all_are(0.0, values.shape[-1]).astype(values.dtype)
        powers = all_are(0.0, view.mask.shape[-1])
        return PageRead(all_are(MASKED, 1), powers, all_are(0.0, 1), nothing)

    def step(
        self,
        x: Float[Array, "B K D"],
        past: Sequence[KeysValues],
        slots: Int[Array, "B K"],
        view: View,
    ) -> tuple[Float[Array, "B K D"], tuple[KeysValues, ...]]:
        """Self-attention of the one new token of each hypothesis over itself and its past.

        The K hypotheses of a sentence are K queries, and look at the tokens of all of them; the
        mask leaves each its own past.

        Args:
          x: the new token of each of the K hypotheses of each sentence.
          past: pages of keys [B G d_k C] and values [B G C d_v].
          slots: where in the pages, taken as one row, each new token is to stand.
          view: which of the K new tokens and those of the past each new token sees.

        Returns:
          The output and `past` with the new tokens.
        """
        new = self.keys_values(x, view.query_positions)  # [B G H K], [B G K W]
        new = new.astype(past[0].keys.dtype)
        # The new tokens, and the first page of the past, which is seldom empty.
        y = self(x, new, *past, view=view, dropout_rows=None, always=2)
        # XLA writes in place what nobody reads afterwards. It must be told that the reading comes
        # first, by a number that depends on it; or it copies all of the past, at every token.
        after = 0.0 * jnp.isnan(y[0, 0, 0]).astype(new.keys.dtype)  # 0, whatever y is
        new = KeysValues(*(x + after for x in new))
        pages, start = [], 0
        for page in past:
            pages.append(write(page, new, slots - start))
            start += page.keys.shape[-1]
        return y, tuple(pages)


def write(page: KeysValues, new: KeysValues, slots: Int[Array, "B K"]) -> KeysValues:
    """A page with `new` in those of the slots that it has; XLA does it in place inside a loop."""
    rows, length = jnp.arange(len(slots))[:, None], page.keys.shape[-1]
    # Slots of other pages: beyond the end, where nothing is written, and each another one.
    beyond = length + jnp.arange(slots.shape[1])
    slots = jnp.where((slots >= 0) & (slots < length), slots, beyond)
    how = {"unique_indices": True, "mode": "drop"}
    return KeysValues(
        page.keys.at[rows, :, :, slots].set(jnp.moveaxis(new.keys, -1, 1), **how),
        page.values.at[rows, :, slots].set(jnp.moveaxis(new.values, -2, 1), **how),
    )
