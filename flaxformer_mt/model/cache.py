"""The state of the decoder between two tokens: a pytree that each step takes and returns."""

import dataclasses
from typing import NamedTuple

import flax.struct
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from flaxformer_mt.model.attention import KeysValues
from flaxformer_mt.model.kernels import Kernels, KeyValueStore
from flaxformer_mt.model.masks import AttentionContext, local_window_mask


class Source(NamedTuple):
    """The decoder's input from B source sentences."""

    layers: tuple[KeysValues, ...]
    """Keys [B S G H] and values [B S G W] of the encoder's output for each decoder layer."""
    mask: Bool[Array, "B S"]
    """True at real source positions."""


@flax.struct.dataclass
class Cache:
    """The state of decoding B sentences with K hypotheses each.

    The hypotheses of a sentence share C = K * T slots for keys and values. Keys and values stay in
    the slot where they were written. When a beam search continues a hypothesis from another one,
    only `seen` changes: it says which slots hold the past of each hypothesis. So a prefix that
    hypotheses have in common is stored and read once. A slot that no hypothesis sees any more is
    used again.

    Attributes:
      index: position of the next token of each sentence.
      seen: which slots each hypothesis may attend to.
      positions: position in the sentence of the token in each slot.
      past: keys and values of the tokens so far, for each decoder layer.
      source: keys and values of the source, for each decoder layer.
      source_mask: True at real source positions.
    """

    index: Int[Array, " B"]
    seen: Bool[Array, "B K C"]
    positions: Int[Array, "B C"]
    past: tuple[KeyValueStore, ...]
    source: tuple[KeyValueStore, ...]
    source_mask: Bool[Array, "B S"]

    @property
    def length(self) -> int:
        """T, the largest number of tokens of a hypothesis."""
        _, beams, slots = self.seen.shape
        return slots // beams

    def select(self, parents: Int[Array, "B K"]) -> "Cache":
        """Returns the cache in which hypothesis k continues hypothesis `parents[b, k]`."""
        seen = jnp.take_along_axis(self.seen, parents[..., None], axis=1)
        return dataclasses.replace(self, seen=seen)

    def replace_rows(self, rows: Int[Array, " n"], source: Source) -> "Cache":
        """Returns the cache with new sentences, without tokens yet, in the given rows.

        Args:
          rows: their row numbers; row number B means that the sentence is dropped.
          source: of these n sentences, no longer than the S of this cache.
        """
        missing = self.source_mask.shape[1] - source.mask.shape[1]
        mask = jnp.pad(source.mask, [(0, 0), (0, missing)])
        layers = zip(self.source, source.layers, strict=True)
        return dataclasses.replace(
            self,
            index=self.index.at[rows].set(0, mode="drop"),
            seen=self.seen.at[rows].set(False, mode="drop"),
            source=tuple(store.replace_rows(rows, new) for store, new in layers),
            source_mask=self.source_mask.at[rows].set(mask, mode="drop"),
        )

    def free_slots(self) -> Int[Array, "B K"]:
        """Returns the first slots that no hypothesis sees: for the next token of each hypothesis.

        If too few are left (in a finished sentence), the number is C, which is no slot.
        """
        _, beams, slots = self.seen.shape
        numbers = jnp.arange(slots)

        def take_first(free: Bool[Array, "B C"], _: None) -> tuple[Array, Int[Array, " B"]]:
            first = jnp.where(free, numbers, slots).min(axis=1)
            return free & (numbers != first[:, None]), first

        used = self.seen.any(axis=1)
        _, found = jax.lax.scan(take_first, ~used, length=beams, unroll=True)  # [K B]
        return found.T

    def with_new_tokens(self, slots: Int[Array, "B K"], *, local_window: int = 0) -> "Cache":
        """Returns the cache in which each hypothesis sees its new token, to be stored at `slots`.

        A slot outside the local window of the newest token is never visible again.
        """
        own = jnp.arange(self.seen.shape[2]) == slots[..., None]  # [B K C]
        positions = jnp.where(own.any(axis=1), self.index[:, None], self.positions)
        seen = self.seen | own
        if local_window:
            seen = seen & local_window_mask(self.index[:, None], positions, local_window)[:, 0]
        return dataclasses.replace(self, seen=seen, positions=positions)

    def context(self) -> AttentionContext:
        """Returns which slots each hypothesis attends to."""
        return AttentionContext(
            self.seen[:, None],
            query_positions=jnp.broadcast_to(self.index[:, None], self.seen.shape[:2]),
            key_positions=self.positions,
        )


def empty_cache(
    source: Source, kernels: Kernels, *, batch: int, beam_size: int, max_target_length: int
) -> Cache:
    """Returns a cache of B = `batch` empty rows, for K = `beam_size` and T = `max_target_length`.

    Only the shapes and dtypes of `source` are read.
    """
    slots = beam_size * max_target_length
    length = source.mask.shape[1]
    return Cache(
        index=jnp.zeros(batch, jnp.int32),
        seen=jnp.zeros((batch, beam_size, slots), bool),
        positions=jnp.zeros((batch, slots), jnp.int32),
        past=tuple(kernels.store.empty(batch, slots, layer, beam_size) for layer in source.layers),
        source=tuple(kernels.store.empty(batch, length, layer, 1) for layer in source.layers),
        source_mask=jnp.zeros((batch, length), bool),
    )
