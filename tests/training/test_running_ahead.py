"""The host dispatches the next update in time, but not a hundred of them."""

import dataclasses

import jax
import jax.numpy as jnp
import pytest
from tiny_run import CONFIG

from flaxformer_mt import train
from flaxformer_mt.training.loop import MAX_PENDING

pytestmark = [pytest.mark.slow, pytest.mark.default_compiler]


@jax.jit
def late(metrics):
    """Returns the metrics after at least a tenth of a second."""
    x = jax.lax.fori_loop(0, 5_000_000, lambda _, x: jnp.sin(x), metrics.loss)
    return metrics._replace(loss=metrics.loss + 0.0 * x)


def test_few_updates_are_pending(tmp_path, monkeypatch):
    """A stop after a signal waits for all pending updates."""
    done, not_ready = [], []
    make_train_step = train.make_train_step

    def slow(*given):
        step = make_train_step(*given)

        def slow_step(state, batch):
            not_ready.append(sum(not metrics.loss.is_ready() for metrics in done))
            state, metrics = step(state, batch)
            done.append(late(metrics))
            return state, done[-1]

        return slow_step

    monkeypatch.setattr(train, "make_train_step", slow)
    training = dataclasses.replace(
        CONFIG.training, log_every=12, validate_every=0, checkpoint_every=12
    )
    config = dataclasses.replace(CONFIG, training=training)
    assert train.train(config, str(tmp_path), quiet=True) == "complete"
    assert len(not_ready) == 12 and 1 <= max(not_ready) < MAX_PENDING
