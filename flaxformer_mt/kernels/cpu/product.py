"""Products with parameters, each in the form that XLA:CPU computes fastest.

XLA:CPU is fast where the rows of the left factor are contiguous in memory, and where it returns
float32. The product x W and the gradient of x are like that. The gradient of W, x^T g, is not, and
takes two to three times as long. So one of its factors is transposed in memory first, which is
cheap. `benchmarks/ablations.md` has the numbers.
"""

import functools
import math

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float

BLOCK = 8


def product(
    x: Float[Array, "..."], kernel: Float[Array, "..."], inputs: tuple[int, ...], dtype: DTypeLike
) -> Float[Array, "..."]:
    """Returns x W, as `model.kernels.product`.

    Raises:
      ValueError: the inputs are neither the first nor the last dimensions of W.
    """
    first = tuple(range(len(inputs)))
    last = tuple(range(kernel.ndim - len(inputs), kernel.ndim))
    if inputs not in (first, last):  # the gradient would have its dimensions in another order
        raise ValueError(
            f"inputs must be the first or the last of the {kernel.ndim} dimensions of the kernel, "
            f"{first} or {last}, got {inputs}."
        )
    return jnp.asarray(_product(x, kernel, inputs, dtype))


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def _product(x: Array, kernel: Array, inputs: tuple[int, ...], dtype: DTypeLike) -> Array:
    return _contract(x, kernel, tuple(range(x.ndim - len(inputs), x.ndim)), inputs, dtype)


def _forward(
    x: Array, kernel: Array, inputs: tuple[int, ...], dtype: DTypeLike
) -> tuple[Array, tuple[Array, Array]]:
    return _product(x, kernel, inputs, dtype), (x, kernel)


def _backward(
    inputs: tuple[int, ...], dtype: DTypeLike, factors: tuple[Array, Array], g: Array
) -> tuple[Array, Array]:
    del dtype  # that of g
    x, kernel = factors
    g = g.astype(x.dtype)
    outputs = tuple(axis for axis in range(kernel.ndim) if axis not in inputs)
    dx = _contract(g, kernel, tuple(range(g.ndim - len(outputs), g.ndim)), outputs, x.dtype)
    left, right = (x, g) if inputs < outputs else (g, x)  # in the order of the kernel's dimensions
    return dx, _sum_of_outer_products(left, right, leading=x.ndim - len(inputs))


_product.defvjp(_forward, _backward)


def _contract(
    a: Array, b: Array, axes_a: tuple[int, ...], axes_b: tuple[int, ...], dtype: DTypeLike
) -> Array:
    """Returns the sum of a * b over these axes, computed in float32 and rounded to `dtype`."""
    contracted = ((axes_a, axes_b), ((), ()))
    return jax.lax.dot_general(a, b, contracted, preferred_element_type=jnp.float32).astype(dtype)


def _sum_of_outer_products(a: Array, b: Array, *, leading: int) -> Array:
    """Returns the sum of a ⊗ b over their `leading` dimensions, as A^T B or (B^T A)^T.

    Only the narrower factor is transposed.
    """
    shape = a.shape[leading:] + b.shape[leading:]
    rows = math.prod(a.shape[:leading])
    a, b = (x.reshape(rows, -1) for x in (a, b))
    if any(size % BLOCK for size in (rows, a.shape[1], b.shape[1])):
        return _contract(a, b, (0,), (0,), a.dtype).reshape(shape)
    if a.shape[1] <= b.shape[1]:
        return _contract(transpose_in_memory(a), b, (1,), (0,), b.dtype).reshape(shape)
    turned = _contract(transpose_in_memory(b), a, (1,), (0,), a.dtype)
    return transpose_in_memory(turned).reshape(shape)


def transpose_in_memory(x: Float[Array, "M N"]) -> Float[Array, "N M"]:
    """Returns x^T; M must be divisible by 8.

    It goes by way of three dimensions. XLA would make a plain transpose part of the product again,
    which is the slow form.
    """
    rows, columns = x.shape
    blocks = x.reshape(rows // BLOCK, BLOCK, columns)
    return blocks.transpose(2, 0, 1).reshape(columns, rows)
