"""The CPU product equals the reference, values and gradients."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from flaxformer_mt.kernels.cpu.product import product, transpose_in_memory
from flaxformer_mt.model.kernels import product as reference

# x, kernel, which dimensions of the kernel are its inputs
SHAPES = [
    ((4, 6, 16), (16, 32), (0,)),  # a map of the feed-forward network, wider
    ((4, 6, 32), (32, 16), (0,)),  # and narrower
    ((4, 6, 16), (16, 4, 8), (0,)),  # to the heads
    ((4, 6, 4, 8), (4, 8, 16), (0, 1)),  # and back from them
    ((4, 6, 16), (40, 16), (1,)),  # a table of embeddings, as the output
    ((4, 6, 48), (40, 48), (1,)),
    ((3, 5, 7), (7, 11), (0,)),  # nothing is divisible by 8
    ((16, 16), (16, 24), (0,)),
]


def plain(x, kernel, inputs):
    return reference(x, kernel, inputs, jnp.float32)


@functools.partial(jax.jit, static_argnames=("multiply", "inputs"))
def value_and_gradients(multiply, x, kernel, inputs, g):
    y, pull = jax.vjp(lambda x, kernel: multiply(x, kernel, inputs), x, kernel)
    return y, *pull(g)


@pytest.mark.parametrize(
    ("dtype", "result"),
    [
        (jnp.float32, jnp.float32),
        (jnp.bfloat16, jnp.bfloat16),
        (jnp.bfloat16, jnp.float32),
    ],
)
@pytest.mark.parametrize("x_shape, kernel_shape, inputs", SHAPES)
def test_product_and_gradients_are_those_of_a_plain_contraction(
    x_shape, kernel_shape, inputs, dtype, result
):
    keys = jax.random.split(jax.random.key(0), 3)
    # Whole numbers: their products and sums are exact in any order, and in bfloat16 too.
    x, kernel = (
        jax.random.randint(key, shape, -2, 3).astype(dtype)
        for key, shape in zip(keys, (x_shape, kernel_shape), strict=False)
    )
    wide = [value.astype(jnp.float32) for value in (x, kernel)]
    g = jax.random.randint(keys[2], plain(*wide, inputs).shape, -2, 3).astype(jnp.float32)
    ours = functools.partial(product, dtype=result)
    found = value_and_gradients(ours, x, kernel, inputs, g.astype(result))
    wanted = value_and_gradients(plain, *wide, inputs, g)
    assert [part.dtype for part in found] == [result, dtype, dtype]
    for ours_, plain_ in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(ours_.astype(jnp.float32), plain_)


def test_a_transpose_in_memory_is_a_transpose():
    x = jnp.arange(16.0 * 5).reshape(16, 5)
    np.testing.assert_array_equal(transpose_in_memory(x), x.T)


@pytest.mark.slow
@pytest.mark.default_compiler
@pytest.mark.parametrize("x_shape, kernel_shape, inputs", SHAPES[:6])
def test_on_a_cpu_no_product_reads_its_left_factor_by_columns(x_shape, kernel_shape, inputs):
    """The slow form: `lhs_contracting_dims={0}`."""
    x, kernel = jnp.ones(x_shape), jnp.ones(kernel_shape)
    g = jnp.ones(plain(x, kernel, inputs).shape)

    def compiled(multiply):
        multiply = functools.partial(multiply, dtype=jnp.float32)
        step = jax.jit(lambda x, kernel, g: value_and_gradients(multiply, x, kernel, inputs, g)[1:])
        return step.lower(x, kernel, g).compile().as_text()

    assert "lhs_contracting_dims={0}" not in compiled(product)


@pytest.mark.parametrize("inputs", [(1,), (0, 2)])
def test_a_kernel_has_its_inputs_first_or_last(inputs):
    x = jnp.ones((3, *[4] * len(inputs)))
    with pytest.raises(ValueError, match="the first or the last of the 3 dimensions"):
        product(x, jnp.ones((4, 4, 4)), inputs, jnp.float32)
