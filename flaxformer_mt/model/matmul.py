"""Products with a matrix of parameters, each in the form that the hardware computes fastest.

A TPU and a GPU are as fast in any form, and round a sum to the dtype of the result before it leaves
the chip: then what chips add up between them is half as large in bfloat16. A CPU's fast kernels
want the rows of the left factor one after another in memory, and give float32. The product of a
linear map and the gradient of its input are like that; the gradient of its matrix, x^T g, is not,
and takes two to three times as long. So there x or g is transposed in memory first, which is cheap.
`benchmarks/README.md` has the numbers.
"""

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float

BLOCK = 8
LONG_SUM, WIDE, FEW_ROWS = 512, 4, 128
"""A CPU is faster at (W^T x^T)^T, 1.2 to 1.3 times for 64 rows of x, where W [K N] makes long sums,
K from 512 on, and no more than 4 K of them. For 160 rows x W is as fast or faster."""
TILE, LONGEST_ALIKE = 64, 2048
"""When a row of x comes out alike, to the bit, in a product with more rows or fewer, on x86 with
AVX-512, W [K N]:

    form          float32                                   bfloat16
    x (W^T)^T     from 2 rows on                            from 2 rows on
    x W           from TILE rows on                         always
    (W^T x^T)^T   rows and N are multiples of TILE          K <= LONGEST_ALIKE, N a multiple of TILE

All three give the same bits then. `fewer_places` in inference/programs.py relies on it."""


class Prepared(NamedTuple):
    """A matrix as `prepared_matmul` wants it; XLA makes no form that a program never reads."""

    kernel: Float[Array, "K N"]
    transposed: Float[Array, "N K"]


def matmul(
    x: Float[Array, "..."],
    kernel: Float[Array, "..."],
    inputs: tuple[int, ...],
    dtype: DTypeLike | None = None,
) -> Float[Array, "..."]:
    """The last dimensions of x, contracted with the dimensions `inputs` of the kernel.

    Args:
      x: [... K], in the dtype of the kernel. K may be several dimensions.
      kernel: [K N] or [N K]; N too may be several dimensions.
      inputs: which dimensions of the kernel are K, ascending: the first or the last ones.
      dtype: of the result; None = that of x.

    Returns:
      [... N], added up in float32.

    Raises:
      ValueError: K is neither the first nor the last of the dimensions of the kernel.
    """
    first, last = tuple(range(len(inputs))), tuple(range(kernel.ndim - len(inputs), kernel.ndim))
    if inputs not in (first, last):  # the gradient would come out in another order
        raise ValueError(
            f"inputs must be the first or the last of the {kernel.ndim} dimensions of the kernel, "
            f"{first} or {last}; got {inputs}."
        )
    return jnp.asarray(_matmul(x, kernel, inputs, jnp.dtype(dtype or x.dtype)))


def prepare(kernel: Float[Array, "K N"]) -> Prepared:
    """W in both forms, before a loop that multiplies with it many times."""
    return Prepared(kernel, kernel.T)


def prepared_matmul(
    x: Float[Array, "... K"], prepared: Prepared, dtype: DTypeLike | None = None
) -> Float[Array, "... N"]:
    """X W in the fastest form that rounds a row alike, however many others there are (see `TILE`).

    Not for training: the gradients of `matmul` are faster. `dtype` as in `matmul`.
    """
    width, outputs = prepared.kernel.shape
    rows = x.reshape(-1, width)
    narrow = x.dtype != jnp.float32
    makes_long_sums = width >= LONG_SUM and outputs <= WIDE * width
    alike = width <= LONGEST_ALIKE if narrow else len(rows) % TILE == 0
    turned_alike = alike and outputs % TILE == 0
    if makes_long_sums and len(rows) <= FEW_ROWS and turned_alike:
        y = _contract(prepared.transposed, rows, (1,), (1,), jnp.dtype(dtype or x.dtype))
        y = jax.lax.optimization_barrier(y)  # or XLA would make x W of it again
        return y.T.reshape(*x.shape[:-1], -1)
    if narrow or len(rows) >= TILE:
        return matmul(x, prepared.kernel, (0,), dtype)
    return matmul(x, prepared.transposed, (1,), dtype)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def _matmul(x: Array, kernel: Array, inputs: tuple[int, ...], dtype: jnp.dtype) -> Array:
    return _contract(x, kernel, tuple(range(x.ndim - len(inputs), x.ndim)), inputs, dtype)


def _forward(
    x: Array, kernel: Array, inputs: tuple[int, ...], dtype: jnp.dtype
) -> tuple[Array, tuple[Array, Array]]:
    return _matmul(x, kernel, inputs, dtype), (x, kernel)


def _backward(
    inputs: tuple[int, ...], dtype: jnp.dtype, seen: tuple[Array, Array], g: Array
) -> tuple[Array, Array]:
    del dtype  # g has it
    x, kernel = seen
    g = g.astype(x.dtype)
    outputs = tuple(axis for axis in range(kernel.ndim) if axis not in inputs)
    of_x = _contract(g, kernel, tuple(range(g.ndim - len(outputs), g.ndim)), outputs, x.dtype)
    first, last = (x, g) if inputs < outputs else (g, x)  # as the kernel has them
    of_kernel = jax.lax.platform_dependent(
        first,
        last,
        cpu=functools.partial(_sum_of_outer_products_on_cpu, leading=x.ndim - len(inputs)),
        default=functools.partial(_sum_of_outer_products, leading=x.ndim - len(inputs)),
    )
    return of_x, of_kernel


_matmul.defvjp(_forward, _backward)


def _contract(
    a: Array, b: Array, of_a: tuple[int, ...], of_b: tuple[int, ...], dtype: jnp.dtype
) -> Array:
    """Sums over the dimensions `of_a` of a and `of_b` of b, in float32; returned in `dtype`."""

    def product(a: Array, b: Array, *, dtype: DTypeLike) -> Array:
        return jax.lax.dot_general(a, b, ((of_a, of_b), ((), ())), preferred_element_type=dtype)

    def product_on_cpu(a: Array, b: Array) -> Array:
        return product(a, b, dtype=jnp.float32).astype(dtype)

    if dtype == jnp.float32:
        return product_on_cpu(a, b)
    return jax.lax.platform_dependent(
        a, b, cpu=product_on_cpu, default=functools.partial(product, dtype=dtype)
    )


def _sum_of_outer_products(a: Array, b: Array, *, leading: int) -> Array:
    """Sums a ⊗ b over the `leading` dimensions, which both have first."""
    summed = tuple(range(leading))
    return _contract(a, b, summed, summed, a.dtype)


def _sum_of_outer_products_on_cpu(a: Array, b: Array, *, leading: int) -> Array:
    """The same, as A^T B or (B^T A)^T, in which only the narrower of both is transposed."""
    shape = a.shape[leading:] + b.shape[leading:]
    rows = math.prod(a.shape[:leading])
    a, b = (x.reshape(rows, -1) for x in (a, b))
    if any(size % BLOCK for size in (rows, a.shape[1], b.shape[1])):
        return _sum_of_outer_products(a, b, leading=1).reshape(shape)
    if a.shape[1] <= b.shape[1]:
        return _contract(transpose_in_memory(a), b, (1,), (0,), b.dtype).reshape(shape)
    return transpose_in_memory(_contract(transpose_in_memory(b), a, (1,), (0,), a.dtype)).reshape(
        shape
    )


def transpose_in_memory(x: Float[Array, "M N"]) -> Float[Array, "N M"]:
    """X^T, M divisible by 8.

    By way of three dimensions, since XLA would make a plain transpose part of the product again,
    and so a slow one.
    """
    rows, columns = x.shape
    blocks = x.reshape(rows // BLOCK, BLOCK, columns)
    return blocks.transpose(2, 0, 1).reshape(columns, rows)
