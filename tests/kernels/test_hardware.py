"""On a real GPU or TPU, kernels equal the reference on the CPU, and updates repeat.

    FLAXFORMER_MT_TEST_PLATFORMS=cuda,cpu python -m pytest tests/kernels/test_hardware.py

On other machines these tests are skipped.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attention_cases import TWO_SENTENCES, heads_and_gradients, make_segments, random_heads

from flaxformer_mt.data.batching.batch import Batch, BatchShape, Example, pad_batch
from flaxformer_mt.kernels.choose import choose_kernels
from flaxformer_mt.model.config import TransformerConfig
from flaxformer_mt.model.initialization import init_params
from flaxformer_mt.model.kernels import REFERENCE
from flaxformer_mt.model.masks import attention_context
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.training.config import TrainingConfig
from flaxformer_mt.training.optimizer import make_optimizer
from flaxformer_mt.training.state import init_state
from flaxformer_mt.training.step import make_loss, make_train_step

PLATFORM = jax.default_backend()
pytestmark = pytest.mark.skipif(PLATFORM == "cpu", reason="needs a GPU or a TPU")
KERNELS = choose_kernels("auto", PLATFORM)
VOCAB = 64


def on_cpu(function, *args):
    """Returns the result on the CPU, with all floating-point arguments in float32."""
    cpu = jax.devices("cpu")[0]

    def exact(x):
        x = jax.device_put(x, cpu)
        return x.astype(jnp.float32) if jnp.issubdtype(x.dtype, jnp.floating) else x

    with jax.default_device(cpu):
        return function(*jax.tree.map(exact, args))


def distance(found, wanted):
    """Returns the norm of the difference, relative to the norm of what is wanted."""
    found, wanted = (np.asarray(x, np.float32) for x in (found, wanted))
    assert np.isfinite(found).all()
    return np.linalg.norm(found - wanted) / np.linalg.norm(wanted)


@pytest.mark.skipif(PLATFORM != "gpu", reason="cuDNN is for GPUs")
@pytest.mark.parametrize("causal", [False, True], ids=["all", "causal"])
@pytest.mark.parametrize("key_heads", [4, 2], ids=["full", "grouped"])
@pytest.mark.parametrize("width", [64, 128])
@pytest.mark.parametrize(("length", "source_length"), [(128, 128), (129, 251), (512, 512), (7, 9)])
def test_cudnn_attention_is_the_reference(length, source_length, width, key_heads, causal):
    """Packed rows, a full row, and a row without any sentence."""
    row = TWO_SENTENCES if length >= 128 else (1, 1, 2)
    source_length = length if causal else source_length
    queries = make_segments(length, row, (1,) * length, ())
    keys = make_segments(source_length, row, (1,) * source_length, ())
    heads = random_heads(3, length, 4, width, jnp.bfloat16, source_length, key_heads)
    attend = functools.partial(KERNELS.attend, min_length=2)
    program = jax.jit(heads_and_gradients, static_argnums=(0, 4))
    found = program(attend, heads, queries, keys, causal)
    wanted = on_cpu(
        functools.partial(heads_and_gradients, REFERENCE.attend, causal=causal),
        heads,
        queries,
        keys,
    )
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours.dtype == jnp.bfloat16
        assert distance(ours, theirs) < 1e-2


@pytest.mark.skipif(PLATFORM != "gpu", reason="cuDNN is for GPUs")
def test_cudnn_attention_keeps_packed_sentences_apart():
    segments = make_segments(128, TWO_SENTENCES)
    context = attention_context(segments, segments, causal=True)
    queries, keys, values = random_heads(dtype=jnp.bfloat16)
    attend = jax.jit(KERNELS.attend)
    before = attend(queries, keys, values, context)
    after = attend(queries, keys.at[0, 10].add(3.0), values.at[0, 10].add(3.0), context)
    np.testing.assert_array_equal(before[0, 50:110], after[0, 50:110])
    np.testing.assert_array_equal(before[0, :10], after[0, :10])
    assert (before[0, 10:50] != after[0, 10:50]).any()


def test_dropout_has_the_same_bits_on_every_device():
    x, rows, key = jnp.ones((5, 7, 64)), jnp.arange(3, 8), jax.random.key(1)
    found = jax.jit(KERNELS.dropout, static_argnums=1)(x, 0.3, key, rows)
    wanted = on_cpu(lambda x, rows: KERNELS.dropout(x, 0.3, jax.random.key(1), rows), x, rows)
    np.testing.assert_array_equal(np.asarray(found) == 0, np.asarray(wanted) == 0)


def test_embeddings_and_their_gradients():
    table = jax.random.normal(jax.random.key(0), (VOCAB, 128)).astype(jnp.bfloat16)
    tokens = jnp.array([[0, 0, 5, 5, 5, 63], [1, 2, 3, 0, 0, 0]])

    def total(embed, table, tokens):
        return (embed(table, tokens).astype(jnp.float32) ** 3).sum()

    found = jax.jit(jax.value_and_grad(functools.partial(total, KERNELS.embed)))(table, tokens)
    exact = jax.value_and_grad(functools.partial(total, REFERENCE.embed))
    for ours, theirs in zip(found, on_cpu(exact, table, tokens), strict=True):
        assert distance(ours, theirs) < 1e-2


def test_products_and_their_gradients():
    x = jax.random.normal(jax.random.key(0), (6, 10, 128)).astype(jnp.bfloat16)
    kernel = jax.random.normal(jax.random.key(1), (128, 4, 32)).astype(jnp.bfloat16)

    def total(product, x, kernel):
        return (product(x, kernel, (0,), jnp.float32) ** 2).sum()

    gradients = jax.jit(jax.value_and_grad(functools.partial(total, KERNELS.product), (0, 1)))
    found = gradients(x, kernel)
    exact = jax.value_and_grad(functools.partial(total, REFERENCE.product), (0, 1))
    for ours, theirs in zip(
        jax.tree.leaves(found), jax.tree.leaves(on_cpu(exact, x, kernel)), strict=True
    ):
        assert distance(ours, theirs) < 1e-2


def make_model(kernels=KERNELS, **changes) -> Transformer:
    layers = {"num_encoder_layers": 1, "num_decoder_layers": 1}
    config = {"d_model": 64, "d_ff": 128, "num_heads": 2, "dropout": 0.0} | layers | changes
    return Transformer(TransformerConfig(**config), VOCAB, VOCAB, 2, kernels)


def make_batch(rows=8, length=32) -> Batch:
    rng = np.random.default_rng(0)

    def tokens():
        return np.append(rng.integers(4, VOCAB, rng.integers(3, length)), 3).astype(np.int32)

    return pad_batch(
        [Example(tokens(), tokens()) for _ in range(rows)], BatchShape(rows, length, length)
    )


VARIANTS = {
    "the paper": {},
    "pre-norm": {"norm": "pre"},
    "rms": {"norm": "pre", "norm_type": "rms"},
    "relative": {"positions": "relative"},
    "bucketed": {"positions": "bucketed"},
    "rotary": {"positions": "rotary"},
    "swiglu": {"activation": "swiglu"},
    "grouped": {"num_kv_heads": 1},
    "widths": {"key_width": 16, "value_width": 64},
    "window": {"local_window": 4},
    "three matrices": {"tie_embeddings": "none"},
    "scan, remat": {"layer_loop": "scan", "remat": "full"},
}


@pytest.mark.parametrize(
    ("variant", "dtype"),
    [*((name, "bfloat16") for name in VARIANTS), ("the paper", "float32"), ("rotary", "float32")],
)
def test_loss_and_gradients_of_every_variant(variant, dtype):
    model = make_model(dtype=dtype, **VARIANTS[variant])
    exact = make_model(REFERENCE, **VARIANTS[variant])
    params = init_params(exact, jax.random.key(0))
    batch = jax.tree.map(jnp.asarray, make_batch(8, 72))

    def gradients(model, params, batch):
        rows = jnp.arange(len(batch.targets))

        def mean(params):
            loss = make_loss(model, label_smoothing=0.1)(params, batch, rows, None).loss
            return loss / jnp.sum(batch.targets_segment_ids != 0)

        return jax.value_and_grad(mean)(params)

    loss, found = jax.jit(functools.partial(gradients, model))(params, batch)
    exact_loss, wanted = on_cpu(jax.jit(functools.partial(gradients, exact)), params, batch)
    tolerance = 3e-2 if dtype == "bfloat16" else 1e-2  # a GPU multiplies float32 in TF32
    assert abs(float(loss) - float(exact_loss)) < tolerance
    flat = [
        np.concatenate([np.asarray(x, np.float32).ravel() for x in jax.tree.leaves(tree)])
        for tree in (found, wanted)
    ]
    assert distance(*flat) < tolerance


@pytest.mark.parametrize(("dtype", "length"), [("bfloat16", 32), ("bfloat16", 96), ("float32", 32)])
def test_updates_repeat_bit_for_bit(dtype, length):
    """So a resumed run equals one that was not interrupted."""
    model = make_model(dtype=dtype, dropout=0.1)
    optimizer = make_optimizer(TrainingConfig(), 64)
    step = make_train_step(model, optimizer, TrainingConfig())
    batch = jax.tree.map(lambda x: jnp.asarray(x)[None], make_batch(64, length))

    def run():
        state = init_state(model, optimizer, 0)
        for _ in range(5):
            state, _ = step(state, batch)
        return jax.device_get(state.params)

    first = run()
    for _ in range(3):
        jax.tree.map(np.testing.assert_array_equal, first, run())
