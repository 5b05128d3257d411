"""The embedding for GPUs equals the reference: vectors, and gradients on one device and several."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from flaxformer_mt.kernels.gpu import embed
from flaxformer_mt.model.kernels import embed as reference

TOKENS = jnp.array([[0, 0, 5, 5, 5, 6], [1, 2, 3, 0, 0, 0], [5, 5, 5, 5, 5, 5], [4, 3, 2, 1, 0, 0]])


@functools.partial(jax.jit, static_argnums=0)
def vectors_and_gradient(embed, table, tokens):
    vectors, pull = jax.vjp(lambda table: embed(table, tokens), table)
    weights = jnp.cos(jnp.arange(vectors.size)).reshape(vectors.shape)
    return vectors, *pull(weights.astype(vectors.dtype))


@pytest.mark.parametrize(("dtype", "tolerance"), [(jnp.float32, 1e-6), (jnp.bfloat16, 2e-2)])
def test_vectors_and_gradients(dtype, tolerance):
    table = jax.random.normal(jax.random.key(0), (8, 16), dtype)
    vectors, gradient = vectors_and_gradient(embed, table, TOKENS)
    wanted, exact = vectors_and_gradient(reference, table.astype(jnp.float32), TOKENS)
    assert vectors.dtype == gradient.dtype == dtype
    np.testing.assert_array_equal(vectors.astype(jnp.float32), wanted)
    np.testing.assert_allclose(gradient.astype(jnp.float32), exact, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("embed", [reference, embed])
def test_many_tokens_of_one_row_are_summed_exactly(embed):
    table, tokens = jnp.ones((4, 1), jnp.bfloat16), jnp.zeros((64, 64), jnp.int32)
    _, pull = jax.vjp(lambda table: embed(table, tokens), table)
    (gradient,) = pull(jnp.full((64, 64, 1), 0.75, jnp.bfloat16))
    assert gradient.dtype == jnp.bfloat16
    assert float(gradient[0, 0]) == 64 * 64 * 0.75


def test_gradients_of_a_table_on_several_devices():
    mesh = Mesh(np.array(jax.devices()[:4]).reshape(2, 2), ("data", "tensor"))
    table = jax.random.normal(jax.random.key(0), (8, 16))
    wanted = vectors_and_gradient(reference, table, TOKENS)
    placed = jax.device_put(table, NamedSharding(mesh, PartitionSpec("tensor", None)))
    tokens = jax.device_put(TOKENS, NamedSharding(mesh, PartitionSpec("data", None)))
    found = vectors_and_gradient(embed, placed, tokens)
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-6)
