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
from flaxformer_mt.model.masks import View

FIRST_PAGE = 16
LARGEST_PAGE = 32 * 2**20
"""Bytes of keys or values in a page, on a device: what malloc keeps for the next search."""
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

    Keys and values stay where they were written, in one of the S = K * T slots of the sentence,
    which all its hypotheses share. When the search lets a hypothesis go on from another one, only
    `seen` changes: which slots hold the past of each hypothesis. A token that no hypothesis looks
    at any more leaves its slot to a new one. What hypotheses have in common stands there once: so
    in a beam search little more is in use than one hypothesis takes, and it lies at the beginning.

    Keys and values are separate arrays, one pair a layer: a stacked array would be copied at
    every token, where XLA updates these in place. They may be divided into pages, of which those
    that hold nothing are not read: then a token costs what the past has, and not what there is
    room for.

    Attributes:
      index: position of the next token of each sentence.
      seen: which slots hold the past of each hypothesis, as far as it may still look at it.
      positions: where in the sentence the token of each slot stands.
      past: for each decoder layer the tokens so far: pages of keys [B G H C] and values
        [B G C H], which have S slots together.
      source: for each decoder layer pages of the keys [B G H C] and values [B G C H] of the
        source, which have its positions together.
      source_mask: True at real source positions.
    """

    index: Int[Array, " B"]
    seen: Bool[Array, "B K S"]
    positions: Int[Array, "B S"]
    past: tuple[Pages, ...]
    source: tuple[Pages, ...]
    source_mask: Bool[Array, "B 1 1 _"]

    @property
    def length(self) -> int:
        """T, the most tokens that a hypothesis can have."""
        _, beams, slots = self.seen.shape
        return slots // beams

    def select(self, parents: Int[Array, "B K"]) -> "Cache":
        """Lets hypothesis k of sentence b go on from what hypothesis parents[b, k] has read."""
        seen = jnp.take_along_axis(self.seen, parents[..., None], axis=1)
        return self.replace(seen=seen)  # pyright: ignore[reportAttributeAccessIssue]

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
            seen=self.seen.at[places].set(False, mode="drop"),
            source=tuple(map(put_layer, self.source, source.layers)),
            source_mask=put(self.source_mask, mask),
        )

    def free_slots(self) -> Int[Array, "B K"]:
        """Where the next token of each hypothesis is written: the first slots that nobody sees.

        S, which is none, where too few are left: in a sentence that is done.
        """
        _, beams, slots = self.seen.shape
        numbers = jnp.arange(slots, dtype=jnp.float32)
        least, _ = jax.lax.top_k(-jnp.where(self.seen.any(axis=1), slots, numbers), beams)
        return -least.astype(jnp.int32)

    def after(self, slots: Int[Array, "B K"], past: tuple[Pages, ...], view: View) -> "Cache":
        """With one more token of each hypothesis in `past`, in these slots.

        What the new tokens do not see, by `view`, none that follows will: the neighbourhood goes on
        with them.
        """
        own = jnp.arange(self.seen.shape[2]) == slots[..., None]  # [B K S]
        seen = view.mask[:, 0, :, slots.shape[1] :]  # after the K new tokens themselves
        return self.replace(  # pyright: ignore[reportAttributeAccessIssue]
            index=self.index + 1,
            seen=seen | own,
            positions=jnp.where(own.any(axis=1), self.index[:, None], self.positions),
            past=past,
        )

    def view(self) -> View:
        """Where each hypothesis looks, of the K new tokens and the S of the past."""
        batch, beams, _ = self.seen.shape
        new = jnp.broadcast_to(jnp.eye(beams, dtype=bool), (batch, beams, beams))
        here = jnp.broadcast_to(self.index[:, None], (batch, beams))
        return View(
            jnp.concatenate([new, self.seen], axis=-1)[:, None],
            query_positions=here,
            key_positions=jnp.concatenate([here, self.positions], axis=1),
        )


def start_cache(
    source: Source, *, beam_size: int, max_target_length: int, frugal: bool = False
) -> Cache:
    """The cache before the first token: the past empty; `frugal` divides all into pages.

    They hold 16 tokens, or four times as many of several hypotheses, as many again, and then twice
    as many each time, as long as they are no larger than `LARGEST_PAGE`.
    """
    batch, groups, width, length = source.layers[0].keys.shape
    value_width = source.layers[0].values.shape[-1]
    dtype = source.layers[0].keys.dtype
    slots = beam_size * max_target_length
    # Several hypotheses fill a page sooner, and their products are fastest with whole 64s.
    first = FIRST_PAGE if beam_size == 1 else 4 * FIRST_PAGE
    nothing = KeysValues(
        jnp.zeros((batch, groups, width, slots), dtype),
        jnp.zeros((batch, groups, slots, value_width), dtype),
    )
    of_position = batch * groups * max(width, value_width) * dtype.itemsize
    longest = max(first, 2 ** ((LARGEST_PAGE // of_position).bit_length() - 1))

    def pages(whole: KeysValues, first: int = FIRST_PAGE) -> Pages:
        length = whole.keys.shape[-1]
        return divide(whole, page_lengths(length, first, longest) if frugal else [length])

    return Cache(
        index=jnp.zeros(batch, jnp.int32),
        seen=jnp.zeros((batch, beam_size, slots), bool),
        positions=jnp.zeros((batch, slots), jnp.int32),
        past=tuple(pages(nothing, first) for _ in source.layers),
        source=tuple(map(pages, source.layers)),
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


def page_lengths(length: int, first: int, longest: int) -> list[int]:
    """Pages that hold so many together: `first`, as many again, and then twice as many each time,
    up to `longest`."""
    ends = [0, first]
    while ends[-1] < length:
        ends.append(ends[-1] + min(ends[-1], longest))
    return np.diff(np.minimum(ends, length)).tolist()
