"""The host has the next update ready for the device, and not a hundred of them."""

import dataclasses

import jax
import jax.numpy as jnp
from tiny_run import CONFIG

from flaxformer_mt import train
from flaxformer_mt.training.loop import AHEAD


@jax.jit
def late(metrics):
    """The same, a tenth of a second later or more."""
    x = jax.lax.fori_loop(0, 5_000_000, lambda _, x: jnp.sin(x), metrics.loss)
    return metrics._replace(loss=metrics.loss + 0.0 * x)


def test_the_device_has_few_updates_before_it(tmp_path, monkeypatch):
    """A signal would have to wait for all of them."""
    done, not_ready = [], []
    train_step_of = train.train_step_of

    def slow(*given):
        step = train_step_of(*given)

        def slow_step(state, batch):
            not_ready.append(sum(not metrics.loss.is_ready() for metrics in done))
            state, metrics = step(state, batch)
            done.append(late(metrics))
            return state, done[-1]

        return slow_step

    monkeypatch.setattr(train, "train_step_of", slow)
    training = dataclasses.replace(
        CONFIG.training, log_every=12, validate_every=0, checkpoint_every=12
    )
    config = dataclasses.replace(CONFIG, training=training)
    assert train.train(config, str(tmp_path), quiet=True) == "complete"
    assert len(not_ready) == 12 and 1 <= max(not_ready) < AHEAD
