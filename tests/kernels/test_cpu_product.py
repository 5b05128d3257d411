"""`matmul` is a plain contraction, forwards and backwards, in whatever form it is computed."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from flaxformer_mt.model.matmul import (
    FEW_ROWS,
    LONG_SUM,
    WIDE,
    matmul,
    prepare,
    prepared_matmul,
    transpose_in_memory,
)

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
    ours = tuple(range(x.ndim - len(inputs), x.ndim))
    return jax.lax.dot_general(
        x, kernel, ((ours, inputs), ((), ())), preferred_element_type=jnp.float32
    )


def value_and_gradients(product, x, kernel, inputs, g):
    y, pull = jax.vjp(lambda x, kernel: product(x, kernel, inputs), x, kernel)
    return y, *pull(g)


@pytest.mark.parametrize(
    ("dtype", "result"),
    [(jnp.float32, None), (jnp.bfloat16, None), (jnp.bfloat16, jnp.float32)],
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
    ours = functools.partial(matmul, dtype=result)
    found = jax.jit(lambda *args: value_and_gradients(ours, *args[:2], inputs, args[2]))(
        x, kernel, g.astype(result or dtype)
    )
    wanted = value_and_gradients(plain, *wide, inputs, g)
    assert [part.dtype for part in found] == [result or dtype, dtype, dtype]
    for of_ours, of_plain in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(of_ours.astype(jnp.float32), of_plain)


def test_a_transpose_in_memory_is_a_transpose():
    x = jnp.arange(16.0 * 5).reshape(16, 5)
    np.testing.assert_array_equal(transpose_in_memory(x), x.T)


@pytest.mark.parametrize("x_shape, kernel_shape, inputs", SHAPES[:6])
def test_on_a_cpu_no_product_reads_its_left_factor_by_columns(x_shape, kernel_shape, inputs):
    """The slow form: `lhs_contracting_dims={0}`."""
    x, kernel = jnp.ones(x_shape), jnp.ones(kernel_shape)
    g = jnp.ones(plain(x, kernel, inputs).shape)

    def compiled(product):
        step = jax.jit(lambda x, kernel, g: value_and_gradients(product, x, kernel, inputs, g)[1:])
        return step.lower(x, kernel, g).compile().as_text()

    assert "lhs_contracting_dims={0}" not in compiled(matmul)


def test_elsewhere_the_gradient_is_one_product():
    """No transpose is put in the way of a TPU or GPU."""
    x, kernel = jnp.ones((4, 6, 16)), jnp.ones((16, 32))
    gradient = jax.jit(jax.grad(lambda kernel: matmul(x, kernel, (0,)).sum()))
    for_tpu = gradient.trace(kernel).lower(lowering_platforms=("tpu",)).as_text()
    for_cpu = gradient.trace(kernel).lower(lowering_platforms=("cpu",)).as_text()
    assert "stablehlo.transpose" in for_cpu and "stablehlo.transpose" not in for_tpu


@pytest.mark.parametrize("rows", [1, 2, 16, 64, FEW_ROWS, FEW_ROWS + 1, 320])
@pytest.mark.parametrize("shape", [(256, 384), (LONG_SUM, 384), (LONG_SUM, WIDE * LONG_SUM + 1)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_of_a_prepared_kernel_it_is_the_same_and_no_row_knows_its_place(rows, shape, dtype, rng):
    x = jnp.asarray(rng.normal(size=(rows, 1, shape[0])), dtype)
    kernel = jnp.asarray(rng.normal(size=shape), dtype)
    ready = prepare(kernel)
    found = jax.jit(prepared_matmul)(x, ready)
    expected = x.astype(jnp.float32) @ kernel.astype(jnp.float32)
    assert found.dtype == x.dtype and found.shape == (rows, 1, shape[1])
    exact = 1e-5 if dtype == "float32" else 2**-7
    np.testing.assert_allclose(found.astype(jnp.float32), expected, rtol=exact, atol=50 * exact)
    for _ in range(3):
        order = rng.permutation(rows)
        moved = jax.jit(prepared_matmul)(x[order], ready)
        np.testing.assert_array_equal(moved, found[order])


@pytest.mark.parametrize(
    "shape",
    [
        *[(64, 64), (256, 1024), (LONG_SUM, 384), (256, 8000), (2048, 512), (4096, 1024)],
        *[(333, 77), (LONG_SUM, 1000), (1200, 300), (260, 1030)],
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_no_bit_of_a_row_depends_on_how_many_others_there_are(shape, dtype, rng, rounds_alike):
    """But for a row that is alone."""
    if not rounds_alike:
        pytest.skip("measured with jax 0.10.2 on x86 with AVX-512 alone")
    x = jnp.asarray(rng.normal(size=(320, shape[0])), dtype)
    ready = prepare(jnp.asarray(rng.normal(size=shape), dtype))
    of_all = jax.jit(prepared_matmul)(x, ready)
    for rows in (2, 5, 16, 20, 48, 63, 64, 80, FEW_ROWS, 160):
        np.testing.assert_array_equal(jax.jit(prepared_matmul)(x[:rows], ready), of_all[:rows])


@pytest.mark.parametrize("inputs", [(1,), (0, 2)])
def test_a_kernel_has_its_inputs_first_or_last(inputs):
    x = jnp.ones((3, *[4] * len(inputs)))
    with pytest.raises(ValueError, match="the first or the last of the 3 dimensions"):
        matmul(x, jnp.ones((4, 4, 4)), inputs)
