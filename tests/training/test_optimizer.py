"""The schedule against equation 3 and the optimiser against the update written out."""

import jax.numpy as jnp
import numpy as np

from flaxformer_mt.training.config import TrainingConfig
from flaxformer_mt.training.optimizer import make_optimizer, make_schedule


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


def test_first_update_is_adams_with_the_clipped_gradient():
    config = TrainingConfig(warmup_steps=1, learning_rate=0.01, clip_norm=1.0)
    optimizer = make_optimizer(config, d_model=4)
    params = {"w": jnp.array([1.0, 2.0])}
    gradient = {"w": jnp.array([30.0, -40.0])}
    updates, _ = optimizer.update(gradient, optimizer.init(params), params)
    # Bias-corrected, the first step of Adam is -rate * g / (|g| + eps): the sign of g.
    np.testing.assert_allclose(updates["w"], [-0.01, 0.01], rtol=1e-5)
