"""Schedules against their formulas, optimisers against the update written out, and they learn."""

import math
from typing import get_args

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax.traverse_util import flatten_dict
from tiers import slow_after

from flaxformer_mt.checkpoints.manager import Checkpoints
from flaxformer_mt.config import Config
from flaxformer_mt.model.config import TransformerConfig
from flaxformer_mt.model.initialization import init_params
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.training.config import OptimizerName, ScheduleName, TrainingConfig
from flaxformer_mt.training.optimizer import (
    kernel_mask,
    make_optimizer,
    make_schedule,
    muon_dimensions,
)
from flaxformer_mt.training.state import TrainState

# Every kind of parameter that there is, the widths of heads unequal.
MODEL = Transformer(
    TransformerConfig(
        d_model=16,
        d_ff=32,
        num_heads=2,
        key_width=5,
        value_width=6,
        num_encoder_layers=1,
        num_decoder_layers=1,
        positions="relative",
        tie_embeddings="none",
        output_bias=True,
    ),
    source_vocab_size=12,
    target_vocab_size=12,
    bos_id=2,
)
NAMES = get_args(OptimizerName)


@pytest.fixture(scope="module")
def params():
    return jax.jit(lambda: init_params(MODEL, jax.random.key(0)))()


@jax.jit
@jax.value_and_grad
def loss_and_gradients(params):
    """Copying eight sentences of five tokens."""
    tokens = jax.random.randint(jax.random.key(1), (8, 5), 4, 12)
    positions, segments = jnp.arange(5) + 0 * tokens, jnp.ones_like(tokens)
    batch = (tokens, tokens, positions, positions, segments, segments)
    logits = MODEL.apply({"params": params}, *batch)
    return optax.softmax_cross_entropy_with_integer_labels(logits, tokens).mean()


def optimizer_of(name, **fields):
    config = {"warmup_steps": 1, "learning_rate": 0.01} | fields
    return make_optimizer(TrainingConfig(optimizer=name, **config), d_model=16)


def first_update(optimizer, params, gradient):
    """The first update, and the state after it."""
    return jax.jit(lambda p, g: optimizer.update(g, optimizer.init(p), p))(params, gradient)


def assert_identical(actual, expected):
    assert jax.tree.structure(actual) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


# -------------------------------------------------------------------------------- schedules


def test_schedule_is_equation_3():
    schedule = make_schedule(TrainingConfig(warmup_steps=4000), d_model=512)
    for step in (1, 2, 1000, 3999, 4000, 4001, 16000, 100_000):  # the paper counts from 1
        expected = 512**-0.5 * min(step**-0.5, step * 4000**-1.5)
        np.testing.assert_allclose(schedule(step - 1), expected, rtol=1e-3)


def test_own_peak_is_reached_at_the_end_of_the_warm_up():
    schedule = make_schedule(TrainingConfig(warmup_steps=10, learning_rate=5e-3), d_model=64)
    rates = [float(schedule(step)) for step in range(40)]
    np.testing.assert_allclose(max(rates), 5e-3, rtol=1e-6)
    assert np.argmax(rates) == 9


def rates_of(**fields):
    """The learning rates of a run of 100 steps to 8e-3 in 10, and of the step after the last."""
    config = TrainingConfig(warmup_steps=10, num_steps=100, learning_rate=8e-3, **fields)
    schedule = make_schedule(config, d_model=64)
    return np.array([float(schedule(step)) for step in range(101)])


STEPS = np.arange(101)


@pytest.mark.parametrize("final", [0.0, 1e-3])
def test_cosine_is_its_formula(final):
    rates = rates_of(schedule="cosine", final_learning_rate=final)
    share = np.maximum(STEPS - 9, 0) / 91  # 0 at the peak, 1 after the last step
    decay = final + (8e-3 - final) * (1 + np.cos(np.pi * share)) / 2
    expected = np.where(STEPS < 10, 8e-3 * (STEPS + 1) / 10, decay)
    np.testing.assert_allclose(rates, expected, rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(rates[[0, 9, 100]], [8e-4, 8e-3, final], rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize(("decay_steps", "length"), [(0, 10), (25, 25), (90, 90)])
@pytest.mark.parametrize("final", [0.0, 1e-3])
def test_wsd_is_its_formula(decay_steps, length, final):
    rates = rates_of(schedule="wsd", decay_steps=decay_steps, final_learning_rate=final)
    decay = final + (8e-3 - final) * np.minimum(1, (100 - STEPS) / length)
    expected = np.minimum(8e-3 * (STEPS + 1) / 10, decay)
    expected[:10] = 8e-3 * (STEPS[:10] + 1) / 10
    np.testing.assert_allclose(rates, expected, rtol=1e-5, atol=1e-9)
    assert rates[99] > final  # the last update still moves


@pytest.mark.parametrize("schedule", get_args(ScheduleName))
def test_a_warm_up_of_one_step_is_none(schedule):
    config = TrainingConfig(warmup_steps=1, num_steps=50, learning_rate=8e-3, schedule=schedule)
    np.testing.assert_allclose(make_schedule(config, d_model=64)(0), 8e-3, rtol=1e-6)


def test_an_end_above_the_peak_is_refused():
    config = TrainingConfig(warmup_steps=9, schedule="cosine", final_learning_rate=0.5)
    with pytest.raises(ValueError, match=r"final_learning_rate is 0.5, more than the peak of 0.08"):
        make_schedule(config, d_model=16)  # the paper's peak for this width


# -------------------------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"weight_decay": -1.0, "optimizer": "lion"}, "weight_decay must be at least 0"),
        ({"learning_rate": math.inf}, "learning_rate must be .* finite"),
        ({"weight_decay": 0.1}, "adam, which has none; use adamw"),
        ({"decay_steps": 5}, "belongs to the schedule wsd"),
        ({"final_learning_rate": 1e-5}, "inverse_sqrt, which has no end"),
        ({"schedule": "cosine", "warmup_steps": 1001}, r"\(1001\) must fit in training.num_steps"),
        (
            {"schedule": "wsd", "warmup_steps": 901},
            r"\(901\) and the final decay \(100 steps\) must fit",
        ),
        ({"lora_rank": -1}, "lora_rank must be at least 0"),
        ({"lora_alpha": 8.0}, "lora_rank is 0"),
        ({"lora_rank": 2, "lora_target": ()}, "lora_target is empty"),
        ({"trainable": ("(",)}, "not a regular expression"),
    ],
    ids=str,
)
def test_settings_refused(wrong, message):
    with pytest.raises(ValueError, match=rf"training\..*{message}"):
        TrainingConfig(**wrong)


@pytest.mark.parametrize(
    ("name", "choices"),
    [
        ("optimizer", "'adam' or 'adamw' or 'adafactor' or 'lion' or 'muon'"),
        ("schedule", "'inverse_sqrt' or 'cosine' or 'wsd'"),
    ],
)
def test_an_unknown_name_is_refused(name, choices):
    config = TrainingConfig()
    object.__setattr__(config, name, "sgd")  # bypasses the type checks of the tests
    with pytest.raises(ValueError, match=rf"training\.{name}: expected {choices}, got 'sgd'"):
        config.__post_init__()


# -------------------------------------------------------------------------------- optimisers


def test_first_update_is_adams_with_the_clipped_gradient():
    config = TrainingConfig(warmup_steps=1, learning_rate=0.01, clip_norm=1.0)
    optimizer = make_optimizer(config, d_model=4)
    params = {"w": jnp.array([1.0, 2.0])}
    gradient = {"w": jnp.array([30.0, -40.0])}
    updates, _ = jax.jit(optimizer.update)(gradient, jax.jit(optimizer.init)(params), params)
    # Bias-corrected, the first step of Adam is -rate * g / (|g| + eps): the sign of g.
    np.testing.assert_allclose(updates["w"], [-0.01, 0.01], rtol=1e-5)


def test_the_default_is_the_papers_adam_bit_for_bit():
    """Updates and state are equal, so that runs of earlier versions resume."""
    config = TrainingConfig(warmup_steps=3, learning_rate=0.01)
    expected = optax.chain(
        optax.clip_by_global_norm(1.0),
        optax.adam(make_schedule(config, 4), b1=0.9, b2=0.98, eps=1e-9),
    )
    params = {"kernel": jax.random.normal(jax.random.key(0), (4, 3))}
    results = []
    for optimizer in (make_optimizer(config, 4), expected):
        state = optimizer.init(params)
        for step in range(5):
            gradient = jax.tree.map(lambda p, s=step: jnp.sin(p + s), params)
            updates, state = optimizer.update(gradient, state, params)
        results.append((updates, state))
    assert_identical(*results)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in ("adam", "muon") else [pytest.mark.slow])
        for name in NAMES
    ],
)
def test_each_lowers_the_loss(params, name):
    optimizer = optimizer_of(name, learning_rate={"lion": 0.003}.get(name, 0.01))

    @jax.jit
    def step(params, state, gradients):
        updates, state = optimizer.update(gradients, state, params)
        return optax.apply_updates(params, updates), state

    state, losses = jax.jit(optimizer.init)(params), []
    for _ in range(12):
        loss, gradients = loss_and_gradients(params)
        params, state = step(params, state, gradients)
        losses.append(float(loss))
    assert losses[-1] < 0.75 * losses[0], losses


def test_adafactor_factors_the_kernels_of_attention():
    params = {"decoder_0": {"self_attention": {"query": {"kernel": jnp.zeros((512, 8, 64))}}}}
    state = jax.eval_shape(optimizer_of("adafactor").init, params)
    assert sum(x.size for x in jax.tree.leaves(state)) < 512 * 64


@pytest.mark.parametrize(
    "name", slow_after(2, [name for name in reversed(NAMES) if name != "adam"])
)
def test_weight_decay_changes_only_kernels(params, name):
    """Without a gradient the update is the decay."""
    ones = jax.tree.map(jnp.ones_like, params)
    optimizer = optimizer_of(name, weight_decay=0.1)
    nothing = jax.tree.map(jnp.zeros_like, params)
    updates, _ = first_update(optimizer, ones, nothing)
    for path, update in flatten_dict(updates).items():
        expected = -0.01 * 0.1 if path[-1] == "kernel" else 0.0
        np.testing.assert_allclose(update, expected, rtol=1e-5, err_msg="/".join(path))


def test_the_mask_is_true_for_kernels_only(params):
    mask = flatten_dict(kernel_mask(params))
    assert {path[-1] for path, kept in mask.items() if kept} == {"kernel"}
    assert {path[-1] for path, kept in mask.items() if not kept} == {
        *("bias", "scale", "table", "logits_bias", "keys", "values"),
    }


def test_muon_gets_each_kernel_as_a_matrix(params):
    found = {
        "/".join(path): dimensions and tuple(dimensions)
        for path, dimensions in flatten_dict(muon_dimensions(params)).items()
    }
    assert found["encoder_0/self_attention/query/kernel"] == ((0,), (1, 2))  # [D N H]
    assert found["decoder_0/source_attention/value/kernel"] == ((0,), (1, 2))
    assert found["decoder_0/source_attention/out/kernel"] == ((0, 1), (2,))  # [N H D]
    assert found["encoder_0/feed_forward/in/kernel"] == ((0,), (1,))
    assert found["encoder_0/feed_forward/out/kernel"] == ((0,), (1,))  # [F D]
    assert found["output/kernel"] is None
    assert {name for name, dimensions in found.items() if dimensions} == {
        name for name in found if name.endswith("/kernel") and name != "output/kernel"
    }


def test_muons_update_equals_that_of_the_flattened_matrix(params):
    """[D N H] is D x NH, [N H D] is NH x D; the update has root mean square 0.2 * rate."""
    optimizer = optimizer_of("muon", clip_norm=0.0)
    rng = np.random.default_rng(0)
    gradient = jax.tree.map(lambda p: rng.normal(size=p.shape).astype(np.float32), params)
    updates, _ = first_update(optimizer, params, gradient)
    for name, shape in (("query", (16, 10)), ("out", (12, 16))):
        update = np.asarray(updates["decoder_0"]["self_attention"][name]["kernel"]).reshape(shape)
        matrix = {"kernel": gradient["decoder_0"]["self_attention"][name]["kernel"].reshape(shape)}
        flat, _ = first_update(optimizer, matrix, matrix)
        np.testing.assert_allclose(update, flat["kernel"], rtol=1e-3, atol=1e-6)
        # Newton-Schulz leaves singular values between about 0.7 and 1.2; of an orthogonal matrix
        # they would be 1, and the root mean square that of 1 / sqrt(max(m, n)).
        singular_values = np.linalg.svd(update / (0.01 * 0.2 * max(shape) ** 0.5))[1]
        assert (singular_values > 0.5).all() and (singular_values < 1.3).all(), singular_values


@pytest.mark.parametrize("name", slow_after(1, NAMES))
def test_its_state_survives_a_checkpoint_bit_for_bit(tmp_path, params, name):
    optimizer = optimizer_of(name, **({} if name == "adam" else {"weight_decay": 0.1}))
    _, opt_state = first_update(optimizer, params, jax.tree.map(jnp.sin, params))
    key = jnp.zeros(2, jnp.uint32)
    checkpoints = Checkpoints(tmp_path, keep_last=1, keep_best=0)
    checkpoints.save(
        1,
        TrainState(jnp.int32(1), params, opt_state, key),
        data_state={},
        metrics=None,
        config=Config(),
        tokenizer_fingerprint="abc",
    )
    like = TrainState(jnp.int32(0), params, jax.tree.map(jnp.zeros_like, opt_state), key)
    restored = checkpoints.restore(like).state
    checkpoints.close()
    assert_identical(restored.opt_state, opt_state)
