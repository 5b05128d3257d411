"""Scores by definition."""

import jax.numpy as jnp
import numpy as np
from toy_models import log_softmax

from flaxformer_mt.search.scoring import penalty, token_log_probs


def test_penalty_is_equation_14():
    lengths = jnp.array([1, 7, 19])
    np.testing.assert_allclose(penalty(lengths, 1.0), [1.0, 2.0, 4.0])
    np.testing.assert_allclose(penalty(lengths, 0.5), [1.0, 2**0.5, 2.0], rtol=1e-6)
    np.testing.assert_allclose(penalty(lengths, 0.0), [1.0, 1.0, 1.0])


def test_scores_ignore_padding():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(2, 4, 9)).astype(np.float32)
    targets = rng.integers(9, size=(2, 4))
    lengths = np.array([4, 2])
    mask = np.arange(4) < lengths[:, None]
    log_probs = token_log_probs(jnp.asarray(logits), jnp.asarray(targets), jnp.asarray(mask))
    expected = np.take_along_axis(log_softmax(logits), targets[..., None], axis=-1)[..., 0] * mask
    np.testing.assert_allclose(log_probs, expected, atol=1e-6)
    scores = log_probs.sum(-1) / penalty(jnp.asarray(lengths), 0.7)
    np.testing.assert_allclose(scores, expected.sum(-1) / ((5 + lengths) / 6) ** 0.7, rtol=1e-6)
