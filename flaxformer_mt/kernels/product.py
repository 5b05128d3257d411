"""Products with parameters whose gradients are computed in a chosen form.

JAX derives the gradient of x W by itself. Two choices make it faster: the dtype of the gradient of
W, and on a CPU the form of the product that computes it.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from flaxformer_mt.model.kernels import Product

Axes = tuple[int, ...]
Contract = Callable[[Array, Array, Axes, Axes, DTypeLike], Array]
"""(a, b, axes of a, axes of b, dtype) -> the sum of a * b over these axes."""
SumOfOuterProducts = Callable[[Array, Array, int], Array]
"""(a, b, leading) -> the sum of a ⊗ b over their first `leading` dimensions."""


def contract(a: Array, b: Array, axes_a: Axes, axes_b: Axes, dtype: DTypeLike) -> Array:
    """Returns the sum of a * b over these axes, rounded to `dtype` by the product itself."""
    contracted = ((axes_a, axes_b), ((), ()))
    return jax.lax.dot_general(a, b, contracted, preferred_element_type=dtype)


def sum_of_outer_products(a: Array, b: Array, leading: int) -> Array:
    """Returns the sum of a ⊗ b over their first `leading` dimensions."""
    summed = tuple(range(leading))
    return contract(a, b, summed, summed, a.dtype)


def make_product(contract: Contract, sum_of_outer_products: SumOfOuterProducts) -> Product:
    """Returns x W (as `model.kernels.product`), computed by the given functions.

    The product raises ValueError if its inputs are neither the first nor the last dimensions of W.
    """

    @functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3))
    def multiply(x: Array, kernel: Array, inputs: Axes, dtype: DTypeLike) -> Array:
        return contract(x, kernel, tuple(range(x.ndim - len(inputs), x.ndim)), inputs, dtype)

    def forward(
        x: Array, kernel: Array, inputs: Axes, dtype: DTypeLike
    ) -> tuple[Array, tuple[Array, Array]]:
        return multiply(x, kernel, inputs, dtype), (x, kernel)

    def backward(
        inputs: Axes, dtype: DTypeLike, factors: tuple[Array, Array], g: Array
    ) -> tuple[Array, Array]:
        del dtype  # g has it
        x, kernel = factors
        g = g.astype(x.dtype)  # the float32 gradient of logits too
        outputs = tuple(axis for axis in range(kernel.ndim) if axis not in inputs)
        dx = contract(g, kernel, tuple(range(g.ndim - len(outputs), g.ndim)), outputs, x.dtype)
        first, last = (x, g) if inputs < outputs else (g, x)  # as the dimensions of W
        return dx, sum_of_outer_products(first, last, x.ndim - len(inputs))

    multiply.defvjp(forward, backward)

    def product(
        x: Float[Array, "..."], kernel: Float[Array, "..."], inputs: Axes, dtype: DTypeLike
    ) -> Float[Array, "..."]:
        first = tuple(range(len(inputs)))
        last = tuple(range(kernel.ndim - len(inputs), kernel.ndim))
        if inputs not in (first, last):  # else the gradient has its dimensions in another order
            raise ValueError(
                f"inputs must be the first or the last of the {kernel.ndim} dimensions of the "
                f"kernel, {first} or {last}, got {inputs}."
            )
        return jnp.asarray(multiply(x, kernel, inputs, dtype))

    return product


product = make_product(contract, sum_of_outer_products)
"""x W for GPUs and TPUs. The gradient of W has the dtype of x before devices add up their
gradients, so with bfloat16 they send half as many bytes."""
