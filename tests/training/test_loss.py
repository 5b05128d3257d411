"""The losses against their definitions: a dense smoothed target, and two KL divergences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from flaxformer_mt.training.loss import cross_entropy, symmetric_kl


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.4])
def test_equals_the_dense_definition(rng, smoothing):
    logits = rng.normal(size=(2, 3, 7)).astype(np.float32)
    targets = rng.integers(0, 7, (2, 3))
    mask = np.array([[True, True, False], [True, False, False]])
    dense = (1 - smoothing) * np.eye(7)[targets] + smoothing / 7
    log_probs = np.asarray(jax.nn.log_softmax(logits), np.float64)
    expected = -np.sum(dense * log_probs, axis=-1)[mask].sum()
    plain = -log_probs[mask, targets[mask]].sum()
    ours = jax.jit(cross_entropy, static_argnames="label_smoothing")(
        logits, targets, mask, label_smoothing=smoothing
    )
    np.testing.assert_allclose(ours, (expected, plain), rtol=1e-5)


def test_padding_has_no_gradient(rng):
    logits = jnp.asarray(rng.normal(size=(1, 3, 7)), jnp.float32)
    mask = jnp.array([[True, True, False]])

    def loss(logits):
        return cross_entropy(logits, jnp.zeros((1, 3), int), mask, label_smoothing=0.1)[0]

    gradient = jax.jit(jax.grad(loss))(logits)
    assert jnp.all(gradient[:, 2] == 0)
    assert jnp.all(gradient[:, :2] != 0)


def test_symmetric_kl_equals_the_two_divergences(rng):
    logits, others = (rng.normal(size=(2, 3, 7)).astype(np.float32) for _ in range(2))
    mask = np.array([[True, True, False], [True, False, False]])
    p, q = (np.exp(x.astype(np.float64)) for x in (logits, others))
    p, q = p / p.sum(-1, keepdims=True), q / q.sum(-1, keepdims=True)
    both = (p * np.log(p / q)).sum(-1) + (q * np.log(q / p)).sum(-1)
    ours = jax.jit(symmetric_kl)(logits, others + 2.0, mask)  # softmax ignores the 2
    np.testing.assert_allclose(ours, both[mask].sum(), rtol=1e-5)
