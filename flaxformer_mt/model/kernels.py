"""The interface for hardware: the operations for which a device may have its own implementation.

`Kernels` is a frozen record of functions, a static field of `Transformer`. Its defaults are the
reference: they follow the paper, in plain JAX, on every device. The sets for CPU, GPU
and TPU are in `flaxformer_mt.kernels`; each replaces some of the functions, and is tested against
the reference.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float, Int

from flaxformer_mt.model import attention
from flaxformer_mt.model.attention import KeysValues
from flaxformer_mt.model.masks import AttentionContext

Attend = Callable[..., Array]
"""Equation 1, called as `attention.attend`. It raises NotImplementedError where it cannot compute
a case."""
Embed = Callable[[Array, Array], Array]
"""Vectors of tokens, called as `embed`."""
Product = Callable[[Array, Array, tuple[int, ...], DTypeLike], Array]
"""x W, called as `product`."""
Drop = Callable[[Array, float, Array, Array], Array]
"""Dropout, called as `dropout`."""
DropoutRows = Int[Array, " B"] | None
"""The number of each row in the whole batch; None switches dropout off, as in translation."""


@flax.struct.dataclass
class KeyValueStore:
    """The keys and values of one layer while translating, in C slots for each sentence.

    A subclass may store them in another form.
    """

    keys: Float[Array, "B C G H"]
    values: Float[Array, "B C G W"]

    @classmethod
    def empty(cls, batch: int, slots: int, like: KeysValues, beam_size: int) -> "KeyValueStore":
        """Returns an empty store for `beam_size` hypotheses; heads, widths, dtype as in `like`."""
        del beam_size
        return cls(*(jnp.zeros((batch, slots, *x.shape[2:]), x.dtype) for x in like))

    def replace_rows(self, rows: Int[Array, " n"], new: KeysValues) -> "KeyValueStore":
        """Returns the store with `new` in the first slots of the sentences `rows`.

        Rows beyond the last are dropped.
        """
        length = new.keys.shape[1]
        return KeyValueStore(
            self.keys.at[rows, :length].set(new.keys, mode="drop"),
            self.values.at[rows, :length].set(new.values, mode="drop"),
        )

    def append(self, slots: Int[Array, "B K"], new: KeysValues) -> "KeyValueStore":
        """Returns the store with the K new tokens of each sentence in the given slots."""
        rows = jnp.arange(slots.shape[0])[:, None]
        return KeyValueStore(
            self.keys.at[rows, slots].set(new.keys, mode="drop"),
            self.values.at[rows, slots].set(new.values, mode="drop"),
        )

    def attend(
        self,
        queries: Float[Array, "B K N H"],
        context: AttentionContext,
        bias: Float[Array, "#B N K C"] | None = None,
    ) -> Float[Array, "B K N W"]:
        """Returns equation 1 over the slots."""
        return attention.attend(queries, self.keys, self.values, context, bias)

    def whole(self) -> KeysValues:
        """Returns keys [B C G H] and values [B C G W] of all slots."""
        return KeysValues(self.keys, self.values)


def embed(table: Float[Array, "V D"], tokens: Int[Array, "B T"]) -> Float[Array, "B T D"]:
    """Returns the vectors of the tokens: rows of the table.

    The gradient of a row is a sum over all its tokens. It is computed in float32, because a long
    sum in bfloat16 loses small terms.
    """
    exact = jnp.promote_types(table.dtype, jnp.float32)
    return table.astype(exact)[tokens].astype(table.dtype)


def product(
    x: Float[Array, "..."], kernel: Float[Array, "..."], inputs: tuple[int, ...], dtype: DTypeLike
) -> Float[Array, "..."]:
    """Returns x W: the last dimensions of x contracted with the dimensions `inputs` of W.

    Args:
      x: [... K]; K may be several dimensions.
      kernel: W [K N] or [N K]; N too may be several dimensions.
      inputs: which dimensions of W are K.
      dtype: of the result.
    """
    last = tuple(range(x.ndim - len(inputs), x.ndim))
    contracted = ((last, inputs), ((), ()))
    return jax.lax.dot_general(x, kernel, contracted, preferred_element_type=dtype)


def dropout(
    x: Float[Array, "B ..."], rate: float, key: Array, rows: Int[Array, " B"]
) -> Float[Array, "B ..."]:
    """Returns x with elements set to 0 with probability `rate`, the others times 1 / (1 - rate).

    Section 5.4. `rows` are the numbers of the rows of x in the whole batch. The mask of a row
    depends on the key and on the row's number alone. So the result does not depend on how a batch
    is divided among devices and micro-batches.
    """

    def keep_row(row: Int[Array, ""]) -> Array:
        return jax.random.bernoulli(jax.random.fold_in(key, row), 1.0 - rate, x.shape[1:])

    return jnp.where(jax.vmap(keep_row)(rows), x / (1.0 - rate), 0).astype(x.dtype)


def _identity(x: Any) -> str:
    """Returns the full name of a function or class of this package or of JAX; else its repr."""
    package = (getattr(x, "__module__", None) or "").split(".")[0]
    is_ours = callable(x) and package in (__name__.split(".")[0], "jax")
    return f"{x.__module__}.{x.__qualname__}" if is_ours else repr(x)


@dataclasses.dataclass(frozen=True)
class Kernels:
    """The implementations of the operations for one device; the defaults are the reference."""

    name: str = "reference"
    attend: Attend = attention.attend
    embed: Embed = embed
    product: Product = product
    dropout: Drop = dropout
    store: type[KeyValueStore] = KeyValueStore
    top_k: Callable[[Array, int], Sequence[Array]] = jax.lax.top_k
    """The k largest elements of each row and their indices; for a search."""

    def __repr__(self) -> str:
        """Returns the name and the names of the functions, for the trace cache.

        It is the same in every process, unless a function is defined outside this package.
        """
        return f"Kernels({', '.join(map(_identity, vars(self).values()))})"

    def attention(
        self,
        queries: Float[Array, "B T N H"],
        keys: Float[Array, "B S G H"],
        values: Float[Array, "B S G W"],
        context: AttentionContext,
        bias: Float[Array, "#B N T S"] | None = None,
    ) -> Float[Array, "B T N W"]:
        """Returns equation 1, by the reference if this set's kernel does not support the case."""
        try:
            return self.attend(queries, keys, values, context, bias)
        except NotImplementedError:
            return attention.attend(queries, keys, values, context, bias)


REFERENCE = Kernels()
