"""Kernels for TPUs: flash attention for long rows, embeddings, dropout bits."""

from jaxtyping import Array, Float, Int

from flaxformer_mt.kernels.hashed_dropout import dropout
from flaxformer_mt.kernels.product import product
from flaxformer_mt.kernels.tpu.attention import attend
from flaxformer_mt.model.kernels import Kernels


def embed(table: Float[Array, "V D"], tokens: Int[Array, "B T"]) -> Float[Array, "B T D"]:
    """Returns the vectors of the tokens (see `model.kernels.embed`).

    The gradient has the dtype of the table before devices add up their gradients. So in bfloat16
    they send half as many bytes as with the reference, which sums in float32.
    """
    return table[tokens]


KERNELS = Kernels("tpu", attend=attend, embed=embed, product=product, dropout=dropout)
