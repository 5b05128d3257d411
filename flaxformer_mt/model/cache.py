"""What the decoder remembers between two tokens: an explicit pytree, given and returned."""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

from flaxformer_mt.model.attention import KeysValues

FIRST_PAGE = 16
Pages = tuple[KeysValues, ...]


class Source(NamedTuple):
    """What the decoder knows of B sources."""

    layers: tuple[KeysValues, ...]
    """For each decoder layer keys [B G H S] and values [B G S H], projected once."""
    mask: Bool[Array, "B 1 1 S"]
    """True at real positions."""


@flax.struct.dataclass
class Cache:
    """State of decoding B sentences with K hypotheses each.

    Keys and values stay where they were written. When the search lets a hypothesis go on from
    another one, only `ancestors` changes: small numbers that say where the past of each hypothesis
    stands, from which comes the mask of self-attention.

    Keys and values are separate arrays, one pair a layer: a stacked array would be copied at
    every token, where XLA updates these in place. They may be divided into pages, of which those
    that nothing was written into yet are not read: then a token costs what the past has, and not
    what there is room for.

    Attributes:
      index: position of the next token of each sentence.
      ancestors: the place among the K in which the token at each position of each hypothesis was
        written.
      past: for each decoder layer the tokens so far: pages of keys [B G H K C] and values
        [B G K C H], which have T positions together.
      source: for each decoder layer pages of the keys [B G H C] and values [B G C H] of the
        source, which have S positions together.
      source_mask: True at real source positions.
    """

    index: Int[Array, " B"]
    ancestors: Int[Array, "B K T"]
    past: tuple[Pages, ...]
    source: tuple[Pages, ...]
    source_mask: Bool[Array, "B 1 1 S"]

    def select(self, parents: Int[Array, "B K"]) -> "Cache":
        """Lets hypothesis k of sentence b go on from what hypothesis parents[b, k] has read."""
        ancestors = jnp.take_along_axis(self.ancestors, parents[..., None], axis=1)
        return self.replace(ancestors=ancestors)  # pyright: ignore[reportAttributeAccessIssue]

    def restart(self, places: Int[Array, " n"], source: Source) -> "Cache":
        """In these places of the B (B = in none) other sentences, which have written nothing.

        The source may be shorter than there is room for.
        """
        room, length = self.source_mask.shape[-1], source.mask.shape[-1]
        pages = [page.keys.shape[-1] for page in self.source[0]]

        def put(x: Array, new: Array) -> Array:
            return x.at[(places, *map(slice, new.shape[1:]))].set(new, mode="drop")

        def put_layer(old: Pages, new: KeysValues) -> Pages:
            both = itertools.zip_longest(old, divide(new, pages))
            return tuple(x if y is None else jax.tree.map(put, x, y) for x, y in both)

        mask = jnp.pad(source.mask, [(0, 0)] * 3 + [(0, room - length)])
        return self.replace(  # pyright: ignore[reportAttributeAccessIssue]
            index=self.index.at[places].set(0, mode="drop"),
            source=tuple(map(put_layer, self.source, source.layers)),
            source_mask=put(self.source_mask, mask),
        )

    def after(self, past: tuple[Pages, ...]) -> "Cache":
        """With one more token of each hypothesis in `past`, in the hypothesis' own place."""
        own = jnp.arange(self.ancestors.shape[1])[:, None]  # [K 1]
        here = jnp.arange(self.ancestors.shape[2]) == self.index[:, None]  # [B T]
        ancestors = jnp.where(here[:, None], own, self.ancestors)
        return self.replace(index=self.index + 1, ancestors=ancestors, past=past)  # pyright: ignore[reportAttributeAccessIssue]

    def mask(self) -> Bool[Array, "B 1 K S"]:
        """Where each hypothesis looks, of S = K * T tokens of the past of all, and K new ones.

        The tokens come page by page, and in each hypothesis by hypothesis.
        """
        batch, beams, length = self.ancestors.shape
        places = jnp.arange(beams)[:, None]  # [K 1]
        own = self.ancestors[:, :, None, :] == places  # [B K K T]
        written = jnp.arange(length) < self.index[:, None]  # [B T]
        past = own & written[:, None, None]
        new = jnp.broadcast_to(jnp.eye(beams, dtype=bool), (batch, beams, beams))
        seen = [past[..., page].reshape(batch, beams, -1) for page in self._pages()]
        return jnp.concatenate([*seen, new], axis=-1)[:, None]

    def positions(self) -> Int[Array, "B S"]:
        """Where in their sentences the tokens of `mask` stand."""
        batch, beams, length = self.ancestors.shape
        past = [jnp.tile(jnp.arange(length)[page], (batch, beams)) for page in self._pages()]
        new = jnp.broadcast_to(self.index[:, None], (batch, beams))
        return jnp.concatenate([*past, new], axis=1)

    def _pages(self) -> list[slice]:
        """The positions of each page."""
        lengths = [page.keys.shape[-1] for page in self.past[0]]
        ends = np.cumsum(lengths)
        return [slice(end - length, end) for end, length in zip(ends, lengths, strict=True)]


def start_cache(
    source: Source, *, beam_size: int, max_target_length: int, frugal: bool = False
) -> Cache:
    """The cache before the first token: the past empty; `frugal` divides all into pages."""
    batch, groups, width, length = source.layers[0].keys.shape
    value_width = source.layers[0].values.shape[-1]
    dtype = source.layers[0].keys.dtype
    past = tuple(
        KeysValues(
            jnp.zeros((batch, groups, width, beam_size, size), dtype),
            jnp.zeros((batch, groups, beam_size, size, value_width), dtype),
        )
        for size in (page_lengths(max_target_length) if frugal else [max_target_length])
    )
    source_pages = page_lengths(length) if frugal else [length]
    return Cache(
        index=jnp.zeros(batch, jnp.int32),
        ancestors=jnp.zeros((batch, beam_size, max_target_length), jnp.int32),
        past=tuple(past for _ in source.layers),  # of each layer its pages
        source=tuple(divide(of_layer, source_pages) for of_layer in source.layers),
        source_mask=source.mask,
    )


def divide(whole: KeysValues, lengths: Sequence[int]) -> Pages:
    """Keys [B G H S] and values [B G S H] as pages of so many positions, as far as S goes."""
    ends = np.minimum(np.cumsum([0, *lengths]), whole.keys.shape[-1]).tolist()
    return tuple(
        KeysValues(whole.keys[..., start:end], whole.values[:, :, start:end])
        for start, end in itertools.pairwise(ends)
        if start < end
    )


def page_lengths(length: int) -> list[int]:
    """16, 16, 32, 64, ...: pages for so many positions, of which the last may be shorter."""
    ends = [0, FIRST_PAGE]
    while ends[-1] < length:
        ends.append(2 * ends[-1])
    return np.diff(np.minimum(ends, length)).tolist()
