"""The attention kernels for TPUs and GPUs equal the reference, or refuse and let it take over.

No TPU and no GPU is needed. Pallas interprets the TPU kernel on the CPU. Both kernels are compiled
for their devices where the compiler is installed (the extras [tpu] and [gpu-compiler]).
"""

import functools
import importlib.util
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attention_cases import TWO_SENTENCES, heads_and_gradients, make_segments, random_heads
from jax.experimental.pallas import tpu as pallas_tpu
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from tiers import slow_after

from flaxformer_mt.inspection.flops import jaxpr_flops
from flaxformer_mt.kernels.gpu import attend as cudnn
from flaxformer_mt.kernels.tpu import attend as flash_if_long
from flaxformer_mt.model.attention import attend as reference
from flaxformer_mt.model.kernels import Kernels
from flaxformer_mt.model.masks import attention_context
from flaxformer_mt.planning.hardware import open_topology

flash = functools.partial(flash_if_long, min_length=128)


@pytest.mark.parametrize("causal", slow_after(1, [True, False]))
@pytest.mark.parametrize(
    ("dtype", "tolerance"), slow_after(1, [(jnp.float32, 2e-5), (jnp.bfloat16, 3e-2)])
)
def test_flash_attention_is_the_reference_on_packed_rows(dtype, tolerance, causal):
    segments = make_segments(128, TWO_SENTENCES)
    heads = random_heads(dtype=dtype)
    with pallas_tpu.force_tpu_interpret_mode():
        found = heads_and_gradients(flash, heads, segments, segments, causal)
    exact = [x.astype(jnp.float32) for x in heads]
    wanted = heads_and_gradients(reference, exact, segments, segments, causal)
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours.dtype == dtype
        np.testing.assert_allclose(ours.astype(jnp.float32), theirs, rtol=tolerance, atol=tolerance)


def test_flash_attention_over_several_blocks_and_a_row_of_padding():
    """Source attention: other lengths of queries and keys, and a row without any sentence."""
    queries = make_segments(128, TWO_SENTENCES, ())
    keys = make_segments(256, (1,) * 90 + (2,) * 140, ())
    heads = random_heads(batch=2, heads=1, source_length=256)
    with pallas_tpu.force_tpu_interpret_mode():
        found = heads_and_gradients(flash, heads, queries, keys, False)
    wanted = heads_and_gradients(reference, heads, queries, keys, False)
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-5)


def test_flash_attention_keeps_packed_sentences_apart():
    segments = make_segments(128, TWO_SENTENCES)
    context = attention_context(segments, segments, causal=True)
    queries, keys, values = random_heads()
    with pallas_tpu.force_tpu_interpret_mode():
        before = flash(queries, keys, values, context)
        after = flash(queries, keys.at[0, 10].add(3.0), values.at[0, 10].add(3.0), context)
    np.testing.assert_array_equal(before[0, 50:110], after[0, 50:110])
    np.testing.assert_array_equal(before[0, :10], after[0, :10])
    assert (before[0, 10:50] != after[0, 10:50]).any()


def grouped(heads):
    queries, keys, values = heads
    return queries, keys[:, :, :1], values[:, :, :1]


def narrow_values(heads):
    queries, keys, values = heads
    return queries, keys, values[..., :32]


def refusal(attend, heads, bias=None, local_window=0):
    """Returns the kernel's message, and checks that the reference computes the result."""
    segments = jnp.ones(heads[0].shape[:2], jnp.int32)
    positions = jnp.arange(segments.shape[1])[None]
    context = attention_context(
        segments, segments, positions, positions, causal=True, local_window=local_window
    )
    with pytest.raises(NotImplementedError) as caught:
        attend(*heads, context, bias)
    found = jax.jit(Kernels("test", attend=attend).attention)(*heads, context, bias)
    np.testing.assert_array_equal(found, jax.jit(reference)(*heads, context, bias))
    return str(caught.value)


@pytest.mark.parametrize(
    ("heads", "more", "reason"),
    [
        (random_heads(length=127), {}, "divide by 128"),
        (random_heads(length=64), {}, "at least 128"),
        (grouped(random_heads()), {}, "grouped"),
        (narrow_values(random_heads()), {}, "value_width"),
        (random_heads(), {"bias": jnp.ones((1, 2, 128, 128))}, "bias"),
        (random_heads(), {"local_window": 8}, "window"),
    ],
)
def test_flash_attention_refuses_and_the_reference_takes_over(heads, more, reason):
    assert reason in refusal(flash, heads, **more)


def test_flash_attention_is_for_long_rows():
    assert "at least 1024" in refusal(flash_if_long, random_heads(heads=1))


@pytest.mark.parametrize(
    ("heads", "more", "reason"),
    [
        (random_heads(length=64), {}, "float32"),
        (random_heads(length=62, dtype=jnp.bfloat16), {}, "at least 64"),
        (narrow_values(random_heads(dtype=jnp.bfloat16)), {}, "value_width"),
        (random_heads(dtype=jnp.bfloat16), {"bias": jnp.ones((1, 2, 128, 128))}, "bias"),
    ],
)
def test_cudnn_attention_refuses_and_the_reference_takes_over(heads, more, reason):
    assert reason in refusal(cudnn, heads, **more)


PACKED = ((1, 1, 1, 2, 2, 2, 2), (1,) * 9, (), (1, 2, 3, 3))
"""Segments of two sentences, one that fills a row of 9, none, and three short ones."""
DTYPES = pytest.mark.parametrize(
    ("dtype", "tolerance"), [(jnp.float32, 2e-6), (jnp.bfloat16, 3e-2)]
)
as_for_cudnn = functools.partial(cudnn, min_length=2, implementation="xla")
"""The masks, the padding and the gradients of the kernel for GPUs, on a CPU."""


@DTYPES
@pytest.mark.parametrize("key_heads", [4, 2, 1])
@pytest.mark.parametrize(
    ("length", "source_length", "causal"),
    [(9, 9, True), (9, 12, False), (10, 10, True), (10, 11, False), (9, 9, False)],
)
def test_masks_and_padding_for_cudnn_are_those_of_the_reference(
    length, source_length, causal, key_heads, dtype, tolerance
):
    """Packed rows of odd and even lengths, one without any sentence."""
    queries, keys = (make_segments(n, *PACKED) for n in (length, source_length))
    heads = random_heads(4, length, 4, 8, dtype, source_length, key_heads)
    found = heads_and_gradients(as_for_cudnn, heads, queries, keys, causal)
    exact = [x.astype(jnp.float32) for x in heads]
    wanted = heads_and_gradients(reference, exact, queries, keys, causal)
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours.dtype == dtype
        np.testing.assert_allclose(ours.astype(jnp.float32), theirs, rtol=tolerance, atol=tolerance)


@DTYPES
def test_for_cudnn_packed_sentences_stay_apart(dtype, tolerance):
    del tolerance  # equal bits
    segments = make_segments(9, PACKED[0])
    context = attention_context(segments, segments, causal=True)
    queries, keys, values = random_heads(length=9, dtype=dtype)
    attend = jax.jit(as_for_cudnn)
    before = attend(queries, keys, values, context)
    after = attend(queries, keys.at[0, 1].add(3.0), values.at[0, 1].add(3.0), context)
    np.testing.assert_array_equal(before[0, 3:7], after[0, 3:7])
    np.testing.assert_array_equal(before[0, :1], after[0, :1])
    assert (before[0, 1:3] != after[0, 1:3]).any()


@DTYPES
def test_for_cudnn_a_fully_masked_query_is_finite(dtype, tolerance):
    """So are its gradients. With an even length it attends uniformly, as in the reference."""
    queries, keys = make_segments(6, (1,) * 6, (1,) * 6), make_segments(8, (), (1,) * 8)
    context = attention_context(queries, keys)
    heads = random_heads(2, 6, dtype=dtype, source_length=8)
    found, pull = jax.vjp(lambda *heads: as_for_cudnn(*heads, context), *heads)
    exact = [x.astype(jnp.float32) for x in heads]
    wanted = reference(*exact, context)
    np.testing.assert_allclose(found.astype(jnp.float32), wanted, rtol=tolerance, atol=tolerance)
    assert all(jnp.isfinite(x).all() for x in pull(jnp.ones_like(found)))


def test_without_cudnn_the_reference_takes_over(monkeypatch):
    def missing(*args, **kwargs):
        raise RuntimeError("cuDNN is not detected.")

    monkeypatch.setattr(jax.nn, "dot_product_attention", missing)
    assert "not detected" in refusal(cudnn, random_heads(length=64, dtype=jnp.bfloat16))


def test_rows_or_heads_that_do_not_divide_by_the_mesh_are_refused():
    mesh = Mesh(np.array(jax.devices()[:4]).reshape(2, 2), ("data", "tensor"))
    segments = jnp.ones((3, 128), jnp.int32)
    everywhere = NamedSharding(mesh, PartitionSpec())
    heads = (jax.device_put(x, everywhere) for x in random_heads(batch=3))
    with pytest.raises(NotImplementedError, match="rows that divide by 2"):
        jax.jit(flash)(*heads, attention_context(segments, segments))


def test_key_heads_that_do_not_divide_by_the_mesh_are_refused():
    mesh = Mesh(np.array(jax.devices()[:4]).reshape(2, 2), ("data", "tensor"))
    context = attention_context(*[jnp.ones((2, 64), jnp.int32)] * 2)
    heads = random_heads(length=64, dtype=jnp.bfloat16)
    heads = [heads[0], *(x[:, :, :1] for x in heads[1:])]
    placed = (jax.device_put(x, NamedSharding(mesh, PartitionSpec())) for x in heads)
    with pytest.raises(NotImplementedError, match="number of key heads"):
        jax.jit(cudnn)(*placed, context)


@pytest.mark.parametrize("devices", [1, 4])
def test_the_operations_of_flash_attention_are_counted(devices):
    """Nine products of the size of Q K^T, on any number of devices.

    All three kernels compute Q K^T; one the output, two dp, and one each dv, dk and dq.
    """
    mesh = Mesh(np.array(jax.devices()[:devices]).reshape(devices, 1), ("data", "tensor"))
    everywhere = NamedSharding(mesh, PartitionSpec())
    heads = [
        jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=everywhere) for x in random_heads(batch=4)
    ]
    segments = jnp.ones((4, 128), jnp.int32)
    program = functools.partial(heads_and_gradients, flash)
    traced = jax.jit(program, static_argnums=3).trace(heads, segments, segments, True)
    products = jaxpr_flops(traced.jaxpr) / (2 * 4 * 2 * 128 * 128 * 64)
    assert 9 < products < 9.5


def compiled_text(attend, topology, mesh_shape, shape, key_heads=None):
    """Returns the program of heads and gradients on packed rows, compiled for a topology."""
    hardware = open_topology(topology)
    mesh = Mesh(np.array(hardware.devices).reshape(mesh_shape), ("data", "tensor"))
    batch, length, heads, width = shape

    def arguments(count):
        sharding = NamedSharding(mesh, PartitionSpec("data", None, "tensor"))
        size = (batch, length, count, width)
        return jax.ShapeDtypeStruct(size, jnp.bfloat16, sharding=sharding)

    def program(segments, *heads):
        return heads_and_gradients(attend, heads, segments, segments, True)

    segments = jax.ShapeDtypeStruct(
        (batch, length), jnp.int32, sharding=NamedSharding(mesh, PartitionSpec("data"))
    )
    counts = (heads, key_heads or heads, key_heads or heads)
    lowered = jax.jit(program).lower(segments, *map(arguments, counts))
    return lowered.compile(compiler_options=hardware.compiler_options or None).as_text()


COLLECTIVES = r"all-gather|all-reduce|all-to-all|collective-permute"


@pytest.mark.slow
@pytest.mark.default_compiler
@pytest.mark.skipif(
    importlib.util.find_spec("jax_cuda13_plugin") is None,
    reason="jax_cuda13_plugin is not installed: pip install -e '.[gpu-compiler]'",
)
@pytest.mark.parametrize("key_heads", [4, 2], ids=["full", "grouped"])
@pytest.mark.parametrize(("topology", "mesh"), [("h100:1", (1, 1)), ("h100:4", (2, 2))])
def test_cudnn_attention_compiles_for_a_gpu(topology, mesh, key_heads):
    text = compiled_text(cudnn, topology, mesh, (2, 64, 4, 64), key_heads)
    assert {"__cudnn$fmhaScaleBiasSoftmax", "__cudnn$fmhaScaleBiasSoftmaxBackward"} == set(
        re.findall(r"__cudnn\$\w+", text)
    )
    assert not re.findall(COLLECTIVES, text)


@pytest.mark.slow
@pytest.mark.default_compiler
@pytest.mark.skipif(
    importlib.util.find_spec("libtpu") is None,
    reason="libtpu is not installed: pip install -e '.[tpu]'",
)
@pytest.mark.parametrize(("topology", "mesh"), [("v5e:1x1", (1, 1)), ("v5e:2x4", (4, 2))])
def test_flash_attention_compiles_for_a_tpu(topology, mesh):
    text = compiled_text(flash, topology, mesh, (4, 128, 2, 64))
    assert text.count('custom_call_target="tpu_custom_call"') == 3  # forward, dk and dv, dq
    assert not re.findall(COLLECTIVES, text)
