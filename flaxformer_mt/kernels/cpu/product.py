"""Products with parameters, each in the form that XLA:CPU computes fastest.

XLA:CPU is fast where the rows of the left factor are contiguous in memory, and where it returns
float32. The product x W and the gradient of x are like that. The gradient of W, x^T g, is not, and
takes two to three times as long. So one of its factors is transposed in memory first, which is
cheap. `benchmarks/tried.md` has the numbers.
"""

import math

import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from flaxformer_mt.kernels.product import Axes, contract, make_product

BLOCK = 8


def contract_in_float32(a: Array, b: Array, axes_a: Axes, axes_b: Axes, dtype: DTypeLike) -> Array:
    """Returns the sum of a * b over these axes, computed in float32 and then rounded."""
    return contract(a, b, axes_a, axes_b, jnp.float32).astype(dtype)


def sum_of_outer_products(a: Array, b: Array, leading: int) -> Array:
    """Returns the sum of a ⊗ b over their first dimensions, as A^T B or (B^T A)^T.

    Only the narrower factor is transposed.
    """
    shape = a.shape[leading:] + b.shape[leading:]
    rows = math.prod(a.shape[:leading])
    a, b = (x.reshape(rows, -1) for x in (a, b))
    if any(size % BLOCK for size in (rows, a.shape[1], b.shape[1])):
        return contract_in_float32(a, b, (0,), (0,), a.dtype).reshape(shape)
    if a.shape[1] <= b.shape[1]:
        y = contract_in_float32(transpose_in_memory(a), b, (1,), (0,), b.dtype)
        return y.reshape(shape)
    y = contract_in_float32(transpose_in_memory(b), a, (1,), (0,), a.dtype)
    return transpose_in_memory(y).reshape(shape)


def transpose_in_memory(x: Float[Array, "M N"]) -> Float[Array, "N M"]:
    """Returns x^T; M must be divisible by 8.

    It transposes an array of three dimensions. XLA would fuse a plain transpose into the product,
    and the product would be slow again.
    """
    rows, columns = x.shape
    blocks = x.reshape(rows // BLOCK, BLOCK, columns)
    return blocks.transpose(2, 0, 1).reshape(columns, rows)


product = make_product(contract_in_float32, sum_of_outer_products)
"""x W for CPUs."""
