"""An update is the same on one device and eight, depends on (seed, step) only, and learns."""

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from flaxformer_mt.data.batching.batch import Batch, BatchShape, Example, pad_batch
from flaxformer_mt.model.config import TransformerConfig
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.runtime.sharding import BatchPlacement, MeshConfig, make_mesh, process_rows
from flaxformer_mt.training.adapting import TRAIN_ALL
from flaxformer_mt.training.config import TrainingConfig
from flaxformer_mt.training.optimizer import make_optimizer
from flaxformer_mt.training.state import TrainState, abstract_state, init_state
from flaxformer_mt.training.step import Metrics, make_eval_step, make_loss, make_train_step

MODEL = Transformer(
    TransformerConfig(d_model=16, d_ff=32, num_encoder_layers=1, num_decoder_layers=1), 12, 12, 2
)
STILL = MODEL.clone(config=dataclasses.replace(MODEL.config, dropout=0.0))
"""Without dropout, whose random numbers take half of the compilation."""
ONE = MeshConfig()
OPTIMIZER = make_optimizer(TrainingConfig(warmup_steps=10, learning_rate=0.01), d_model=16)


def batch_of(rng: np.random.Generator, rows: int = 8) -> Batch:
    """A batch of copying tasks with different lengths; the last row is padding."""

    def tokens(length: int) -> np.ndarray:
        return np.append(rng.integers(4, 12, length - 1), 3).astype(np.int32)

    examples = [Example(x := tokens(rng.integers(2, 7)), x) for _ in range(rows - 1)]
    return pad_batch(examples, BatchShape(rows, 6, 6))


def whole(batch: Batch) -> Batch:
    """The batch as one micro-batch [1 B T]."""
    return jax.tree.map(lambda x: jnp.asarray(x)[None], batch)


@functools.cache
def compiled_start():
    return jax.jit(functools.partial(init_state, MODEL, OPTIMIZER, 0))


def fresh(optimizer: optax.GradientTransformation = OPTIMIZER) -> TrainState:
    """The state before the first step, on one device."""
    state = compiled_start()()
    return dataclasses.replace(state, opt_state=optimizer.init(state.params))


@functools.cache
def programs(
    mesh_config: MeshConfig,
    num_devices: int,
    optimizer: optax.GradientTransformation,
    model: Transformer,
    **options,
):
    """Returns (mesh, function that makes a state, training step), for the first `num_devices`."""
    mesh = make_mesh(mesh_config, jax.devices()[:num_devices])
    make = functools.partial(init_state, model, optimizer, 0, with_ema="ema_decay" in options)
    like = abstract_state(make, model, TRAIN_ALL, mesh)
    start = jax.jit(make, out_shardings=jax.tree.map(lambda x: x.sharding, like))
    return mesh, start, make_train_step(model, optimizer, TrainingConfig(**options))


def run(
    batches: list[Batch],
    mesh_config: MeshConfig = ONE,
    *,
    num_devices: int = 1,
    optimizer: optax.GradientTransformation = OPTIMIZER,
    model: Transformer = MODEL,
    change: Callable[[TrainState], TrainState] = lambda state: state,
    **options: float,
) -> tuple[TrainState, list[Metrics]]:
    """Trains on the first `num_devices`, from the changed first state."""
    mesh, start, step = programs(mesh_config, num_devices, optimizer, model, **options)
    shape = BatchShape(*batches[0].inputs.shape, batches[0].targets.shape[1])
    rows_of = process_rows(mesh, mesh_config.tokens_per_device)
    placement = BatchPlacement(mesh, rows_of, (shape,))
    state, metrics = change(start()), []
    for batch in batches:
        rows = rows_of(shape)
        local = Batch(*(np.pad(x, ((0, len(rows) - len(x)), (0, 0)))[rows] for x in batch))
        state, of_step = step(state, placement(local))
        metrics.append(of_step)
    return state, metrics


@functools.cache
def run_with_sgd(
    num_devices: int, config: MeshConfig, r_drop: float
) -> tuple[TrainState, list[Metrics]]:
    """The same four updates, partitioned. Adam would scale rounding errors up to full steps."""
    rng = np.random.default_rng(0)
    batches = [batch_of(rng) for _ in range(4)]
    options = {"r_drop": r_drop} if r_drop else {}
    optimizer = optax.sgd(0.5, momentum=0.5)
    return run(batches, config, num_devices=num_devices, optimizer=optimizer, **options)


FAST = ("fsdp 2, tensor 2, 2 micro-batches",)
PARTITIONS = {
    "8 devices": (8, MeshConfig()),
    "8 micro-batches": (1, MeshConfig(tokens_per_device=6)),
    "2 devices x 4 micro-batches": (2, MeshConfig(tokens_per_device=6)),
    "3 devices, a row empty": (3, MeshConfig()),
    "fsdp 8": (8, MeshConfig(fsdp=8)),
    "tensor 4": (4, MeshConfig(tensor=4)),
    "data 2, fsdp 2, tensor 2": (8, MeshConfig(fsdp=2, tensor=2)),
    "fsdp 2, tensor 2, 2 micro-batches": (4, MeshConfig(fsdp=2, tensor=2, tokens_per_device=12)),
}


@pytest.mark.skipif(len(jax.devices()) < 8, reason="needs 8 devices")
@pytest.mark.parametrize(
    "r_drop", [0.0, pytest.param(1.0, marks=pytest.mark.slow)], ids=["plain", "r_drop"]
)
@pytest.mark.parametrize(
    "name",
    [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in PARTITIONS],
)
def test_the_run_does_not_depend_on_the_partition(name, r_drop):
    """Also with dropout, whose masks depend on the row's number in the whole batch."""
    one, one_metrics = run_with_sgd(1, ONE, r_drop)
    other, other_metrics = run_with_sgd(*PARTITIONS[name], r_drop)
    np.testing.assert_allclose(
        *([float(x.loss) for x in metrics] for metrics in (other_metrics, one_metrics)), rtol=1e-5
    )
    for a, b in zip(jax.tree.leaves(other.params), jax.tree.leaves(one.params), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


@pytest.mark.skipif(len(jax.devices()) < 8, reason="needs 8 devices")
def test_parameters_and_moments_have_the_sharding_of_the_mesh():
    state, _ = run_with_sgd(*PARTITIONS[FAST[0]], 0.0)  # as in the test before
    (moments,) = (
        x.trace
        for x in jax.tree.leaves(state.opt_state, is_leaf=lambda x: hasattr(x, "trace"))
        if hasattr(x, "trace")
    )
    for tree in (state.params, moments):
        kernel = tree["encoder_0"]["feed_forward"]["in"]["kernel"]
        assert kernel.shape == (16, 32)
        assert kernel.sharding.shard_shape(kernel.shape) == (8, 16)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_run_bit_for_bit(rng):
    batches = [batch_of(rng) for _ in range(3)]
    first, _ = run(batches, num_devices=2)
    programs.cache_clear()  # so that it is also traced and compiled again
    second, _ = run(batches, num_devices=2)
    for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True):
        np.testing.assert_array_equal(a, b)


def test_dropout_changes_from_step_to_step(rng):
    """At learning rate 0 only dropout can change the loss."""
    optimizer = optax.set_to_zero()
    state = fresh(optimizer)
    step = make_train_step(MODEL, optimizer, TrainingConfig(label_smoothing=0.0))
    batch = whole(batch_of(rng))
    state, first = step(state, batch)
    state, second = step(state, batch)
    assert first.loss != second.loss


@pytest.mark.slow
def test_it_learns_to_copy(rng):
    _, metrics = run([batch_of(rng) for _ in range(150)], model=STILL, ema_decay=0.15)
    losses = [float(x.loss) for x in metrics]
    assert np.mean(losses[-15:]) < 0.6 * losses[0]


def test_padding_does_not_count(rng):
    batch = batch_of(rng)
    state = fresh()
    evaluate = make_eval_step(MODEL)
    metrics = evaluate(state.params, whole(batch))
    assert metrics.target_tokens == np.count_nonzero(batch.targets_segment_ids)
    garbled = batch._replace(targets=np.where(batch.targets_segment_ids, batch.targets, 7))
    np.testing.assert_allclose(evaluate(state.params, whole(garbled)).loss, metrics.loss, rtol=1e-6)


def test_gradient_is_that_of_the_whole_batch(rng):
    """The loss is a mean over all tokens, not a mean of the micro-batches' means."""
    batch = batch_of(rng)
    params = fresh().params

    @jax.jit
    def loss(batch: Batch):
        rows, tokens = jnp.arange(len(batch.inputs)), jnp.count_nonzero(batch.targets_segment_ids)
        sums = make_loss(MODEL, label_smoothing=0.1)(params, batch, rows, None)
        return sums.loss / tokens, tokens

    whole, _ = loss(batch)
    (one, n), (other, m) = (
        loss(Batch(*(x[half] for x in batch))) for half in (slice(4), slice(4, 8))
    )
    assert n != m
    np.testing.assert_allclose(whole, (one * n + other * m) / (n + m), rtol=1e-5)


def test_nonfinite_values_never_enter_the_parameters(rng):
    """The step still counts, so that the next batches are those of any other run."""
    kept = []

    def break_a_table(state: TrainState) -> TrainState:
        table = jax.tree.map(lambda x: x + jnp.inf, state.params["target_embedding"])
        state = dataclasses.replace(state, params={**state.params, "target_embedding": table})
        kept.append(jax.tree.map(np.asarray, state))
        return state

    after, (metrics,) = run([batch_of(rng)], model=STILL, change=break_a_table, ema_decay=0.15)
    (before,) = kept
    assert metrics.skipped == 1 and after.step == 1
    for x, y in zip(jax.tree.leaves(after), jax.tree.leaves(before), strict=True):
        counts = np.issubdtype(x.dtype, np.signedinteger)  # the schedule follows the step
        np.testing.assert_array_equal(x, y + 1 if counts else y)


def test_an_overflowing_update_does_not_enter_the_parameters(rng):
    """Only the overflowing numbers stay; the others change."""
    # Gradients above 0.01 overflow.
    too_large = optax.stateless(lambda g, _: jax.tree.map(lambda x: jnp.exp(1e4 * x), g))
    state = fresh(too_large)
    before = jax.tree.map(np.asarray, state.params)
    step = make_train_step(STILL, too_large, TrainingConfig())
    after, metrics = step(state, whole(batch_of(rng)))
    assert metrics.skipped == 0
    leaves = list(zip(jax.tree.leaves(after.params), jax.tree.leaves(before), strict=True))
    assert all(np.isfinite(new).all() for new, _ in leaves)
    assert any((new == old).any() and (new != old).any() for new, old in leaves)


def test_the_average_follows_the_parameters(rng):
    """The average equals its definition, from the parameters of each step."""
    batches = [batch_of(rng) for _ in range(3)]
    states = [run(batches[:n], model=STILL, ema_decay=0.15)[0] for n in range(1, 4)]
    average = fresh().params["encoder_0"]
    for n, state in enumerate(states):
        decay = min(0.15, (1 + n) / (10 + n))
        average = jax.tree.map(
            lambda old, new, d=decay: d * old + (1 - d) * new, average, state.params["encoder_0"]
        )
    for x, y in zip(
        jax.tree.leaves(states[-1].ema["encoder_0"]), jax.tree.leaves(average), strict=True
    ):
        np.testing.assert_allclose(x, y, atol=1e-6)


def test_r_drop_penalises_the_difference_of_two_passes(rng):
    """Without dropout both passes are equal and the penalty is 0; with dropout it is positive."""
    batch, key = jax.tree.map(jnp.asarray, batch_of(rng)), jax.random.key(1)
    params, rows = fresh().params, jnp.arange(8)
    losses = [make_loss(STILL, r_drop=r)(params, batch, rows, key).loss for r in (0.0, 5.0)]
    np.testing.assert_allclose(*losses, rtol=1e-6)
    sums = [make_loss(MODEL, r_drop=r)(params, batch, rows, key) for r in (1.0, 2.0, 3.0)]
    added = np.diff([float(s.loss) for s in sums])
    assert added[0] > 0.1
    np.testing.assert_allclose(added[1], added[0], rtol=1e-4)
