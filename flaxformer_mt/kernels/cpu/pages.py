"""Keys and values in pages, so that a CPU computes nothing for slots that are not in use.

A cache has room for the longest translation, but most of it is empty most of the time. Here the
cache consists of pages of growing length. Pages that no hypothesis of the batch sees are skipped
(conditionals cost nothing on XLA:CPU).

Results do not depend on the other sentences of a batch: a skipped page would have added exactly 0.
"""

import itertools
from collections.abc import Sequence

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from flaxformer_mt.model.attention import MASKED, KeysValues, masked_softmax
from flaxformer_mt.model.kernels import KeyValueStore
from flaxformer_mt.model.masks import AttentionContext

FIRST_PAGE = 16
"""Slots of the first page; four times as many with several hypotheses, which fill it sooner."""


@flax.struct.dataclass
class Pages(KeyValueStore):
    """Slots in pages of 16, 16, 32, 64, ... slots (times 4 with several beams).

    Keys are stored transposed, as the product Q K^T reads them. All are float32: XLA:CPU would
    convert pages in bfloat16 at every token.
    """

    keys: tuple[Float[Array, "B G H _"], ...]  # pyrefly: ignore (another form)
    values: tuple[Float[Array, "B G _ W"], ...]  # pyrefly: ignore

    @classmethod
    def empty(cls, batch: int, slots: int, like: KeysValues, beam_size: int) -> "Pages":
        """Returns zeros."""
        groups, key_width = like.keys.shape[2:]
        value_width = like.values.shape[-1]
        lengths = page_lengths(slots, FIRST_PAGE if beam_size == 1 else 4 * FIRST_PAGE)
        return cls(
            tuple(jnp.zeros((batch, groups, key_width, n), jnp.float32) for n in lengths),
            tuple(jnp.zeros((batch, groups, n, value_width), jnp.float32) for n in lengths),
        )

    def replace_rows(self, rows: Int[Array, " n"], new: KeysValues) -> "Pages":
        """Returns the store with `new` in the first slots of these rows."""
        new_keys = new.keys.transpose(0, 2, 3, 1).astype(jnp.float32)  # [n G H S]
        new_values = new.values.swapaxes(1, 2).astype(jnp.float32)  # [n G S W]
        length = new_values.shape[2]
        keys, values = list(self.keys), list(self.values)
        for page, (start, end) in enumerate(self._spans()):
            if start < length:
                part = slice(start, min(end, length))
                size = part.stop - start
                keys[page] = keys[page].at[rows, :, :, :size].set(new_keys[..., part], mode="drop")
                values[page] = (
                    values[page].at[rows, :, :size].set(new_values[:, :, part], mode="drop")
                )
        return Pages(tuple(keys), tuple(values))

    def append(self, slots: Int[Array, "B K"], new: KeysValues) -> "Pages":
        """Returns the store with `new` in these slots."""
        rows = jnp.arange(slots.shape[0])[:, None]
        new_keys, new_values = (x.astype(jnp.float32) for x in new)  # [B K G H], [B K G W]
        options = {"unique_indices": True, "mode": "drop"}
        keys, values = [], []
        pages = zip(self._spans(), self.keys, self.values, strict=True)
        for (start, end), old_keys, old_values in pages:
            # A slot of another page becomes a number beyond the end, a different one for each slot.
            beyond = end - start + jnp.arange(slots.shape[1])
            here = jnp.where((slots >= start) & (slots < end), slots - start, beyond)
            keys.append(old_keys.at[rows, :, :, here].set(new_keys, **options))
            values.append(old_values.at[rows, :, here].set(new_values, **options))
        return Pages(tuple(keys), tuple(values))

    def attend(
        self,
        queries: Float[Array, "B K N H"],
        context: AttentionContext,
        bias: Float[Array, "#B N K C"] | None = None,
    ) -> Float[Array, "B K N W"]:
        """Returns equation 1 over the slots of the pages that some query sees."""
        batch, length, heads, width = queries.shape
        groups = self.keys[0].shape[1]
        scaled = queries.astype(jnp.float32) * width**-0.5
        rows = scaled.swapaxes(1, 2).reshape(batch, groups, -1, width)  # [B G R*K H]
        spans = self._spans()
        is_used = [context.mask[..., start:end].any() for start, end in spans]
        logits = [
            _matmul_if(used, rows, keys, MASKED)
            for used, keys in zip(is_used, self.keys, strict=True)
        ]
        logits = jnp.concatenate(logits, axis=-1).reshape(batch, heads, length, -1)
        weights = masked_softmax(logits if bias is None else logits + bias, context.mask)
        weights = weights.reshape(batch, groups, -1, weights.shape[-1])  # [B G R*K C]
        sums = [
            _matmul_if(used, weights[..., start:end], values, 0.0)
            for used, (start, end), values in zip(is_used, spans, self.values, strict=True)
        ]
        return sum(sums[1:], sums[0]).reshape(batch, heads, length, -1).swapaxes(1, 2)

    def whole(self) -> KeysValues:
        """Returns all slots."""
        keys, values = jnp.concatenate(self.keys, -1), jnp.concatenate(self.values, 2)
        return KeysValues(keys.transpose(0, 3, 1, 2), values.swapaxes(1, 2))

    def _spans(self) -> list[tuple[int, int]]:
        """Returns the first slot of each page and the one after its last."""
        ends = itertools.accumulate((x.shape[-1] for x in self.keys), initial=0)
        return list(itertools.pairwise(ends))


def _matmul_if(used: Bool[Array, ""], a: Array, b: Array, otherwise: float) -> Array:
    """Returns a @ b if the page is used, else an array of `otherwise`."""
    shape = jax.eval_shape(jnp.matmul, a, b).shape
    return jax.lax.cond(used, jnp.matmul, lambda *_: jnp.full(shape, otherwise, jnp.float32), a, b)


def page_lengths(slots: int, first: int) -> Sequence[int]:
    """Returns the lengths of the pages: `first`, as many again, then twice as many each time."""
    ends = [0, first]
    while ends[-1] < slots:
        ends.append(2 * ends[-1])
    return np.diff(np.minimum(ends, slots)).tolist()
