"""What the decoder remembers between two tokens: an explicit pytree, given and returned."""

import flax.struct
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from flaxformer_mt.model.attention import KeysValues


@flax.struct.dataclass
class Cache:
    """State of decoding B sentences with K hypotheses each.

    Keys and values stay where they were written. When the search lets a hypothesis go on from
    another one, only `ancestors` changes: small numbers that say where the past of each hypothesis
    stands, from which comes the mask of self-attention.

    Keys and values are separate arrays, one pair a layer: a stacked array would be copied at
    every token, where XLA updates these in place.

    Attributes:
      index: position of the next token of each sentence.
      ancestors: the place among the K in which the token at each position of each hypothesis was
        written.
      past: for each decoder layer the keys and values [B G K T H] of the tokens so far.
      source: for each decoder layer the keys and values [B G S H] of the source, projected once.
      source_mask: True at real source positions.
    """

    index: Int[Array, " B"]
    ancestors: Int[Array, "B K T"]
    past: tuple[KeysValues, ...]
    source: tuple[KeysValues, ...]
    source_mask: Bool[Array, "B 1 1 S"]

    def select(self, parents: Int[Array, "B K"]) -> "Cache":
        """Lets hypothesis k of sentence b go on from what hypothesis parents[b, k] has read."""
        ancestors = jnp.take_along_axis(self.ancestors, parents[..., None], axis=1)
        return self.replace(ancestors=ancestors)  # pyright: ignore[reportAttributeAccessIssue]

    def restart(
        self,
        new: Bool[Array, " B"],
        source: tuple[KeysValues, ...],
        source_mask: Bool[Array, "B 1 1 S"],
    ) -> "Cache":
        """Where `new`, another sentence takes the place, that has this source and no past yet."""

        def choose(ours: Array, old: Array) -> Array:
            return jnp.where(new.reshape(-1, *[1] * (old.ndim - 1)), ours, old)

        sources = jax.tree.map(choose, (source, source_mask), (self.source, self.source_mask))
        index = jnp.where(new, 0, self.index)
        return self.replace(index=index, source=sources[0], source_mask=sources[1])  # pyright: ignore[reportAttributeAccessIssue]

    def after(self, past: tuple[KeysValues, ...]) -> "Cache":
        """With one more token of each hypothesis in `past`, in the hypothesis' own place."""
        own = jnp.arange(self.ancestors.shape[1])[:, None]  # [K 1]
        here = jnp.arange(self.ancestors.shape[2]) == self.index[:, None]  # [B T]
        ancestors = jnp.where(here[:, None], own, self.ancestors)
        return self.replace(index=self.index + 1, ancestors=ancestors, past=past)  # pyright: ignore[reportAttributeAccessIssue]

    def mask(self) -> Bool[Array, "B 1 K S"]:
        """Where each hypothesis looks, of S = K * T tokens of the past of all, and K new ones."""
        batch, beams, length = self.ancestors.shape
        places = jnp.arange(beams)[:, None]  # [K 1]
        own = self.ancestors[:, :, None, :] == places  # [B K K T]
        written = jnp.arange(length) < self.index[:, None]  # [B T]
        past = (own & written[:, None, None]).reshape(batch, 1, beams, beams * length)
        new = jnp.broadcast_to(jnp.eye(beams, dtype=bool), (batch, 1, beams, beams))
        return jnp.concatenate([past, new], axis=-1)
