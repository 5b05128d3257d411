"""What the decoder remembers between two tokens: an explicit pytree, given and returned."""

import flax.struct
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from flaxformer_mt.model.attention import KeysValues


@flax.struct.dataclass
class Cache:
    """State of decoding B sentences with K hypotheses each.

    Keys and values are separate arrays, one pair a layer: a stacked array would be copied at
    every token, where XLA updates these in place.

    Attributes:
      index: position of the next token, the same for all rows.
      past: for each decoder layer the keys and values [B K G T H] of the tokens so far.
      source: for each decoder layer the keys and values [B G S H] of the source, projected once.
      source_mask: True at real source positions.
    """

    index: Int[Array, ""]
    past: tuple[KeysValues, ...]
    source: tuple[KeysValues, ...]
    source_mask: Bool[Array, "B 1 1 S"]

    def select(self, parents: Int[Array, "B K"]) -> "Cache":
        """Lets hypothesis k of sentence b go on from what hypothesis parents[b, k] has read.

        The source is the same for all hypotheses of a sentence and stays as it is.
        """

        def gather(x: Array) -> Array:
            return jnp.take_along_axis(x, parents[:, :, None, None, None], axis=1)

        return self.replace(past=jax.tree.map(gather, self.past))  # pyright: ignore[reportAttributeAccessIssue]
