"""Why scores are divided by sqrt(d_k) (section 3.2.1): the softmax saturates without it.

    python examples/scaled_scores.py

Queries and keys are independent standard normal numbers, with the mean 0 and the variance 1 of
footnote 4 of the paper. Their product has variance d_k. The table has, for each d_k, with and
without the division: the standard deviation of the scores, the mean of the largest weight among 16
keys, and the gradient: the Frobenius norm of d weights / d scores, divided by that of uniform
weights.
"""

import jax
import jax.numpy as jnp
import numpy as np

from flaxformer_mt.model.attention import attention_logits
from small_runs import show

KEYS = 16


def jacobian_norm(scores: jax.Array) -> jax.Array:
    """Returns |d softmax(scores) / d scores|, the Frobenius norm, for each row [T S]."""
    jacobian = jax.vmap(jax.jacobian(jax.nn.softmax))(scores)  # [T S S]
    return jnp.sqrt(jnp.square(jacobian).sum((1, 2)))


def measure(d_k: int, *, scaled: bool, queries: int = 2000) -> tuple[float, float, float]:
    """Returns the deviation of the scores, the largest weight, and the gradient that passes."""
    rng = np.random.default_rng(d_k)
    q = jnp.asarray(rng.normal(size=(1, queries, 1, d_k)), jnp.float32)
    k = jnp.asarray(rng.normal(size=(1, KEYS, 1, d_k)), jnp.float32)
    scores = attention_logits(q, k)[0, 0]  # [T S]
    scores = scores if scaled else scores * d_k**0.5
    uniform = jacobian_norm(jnp.zeros((1, KEYS)))[0]
    passed = jacobian_norm(scores) / uniform
    largest = jax.nn.softmax(scores).max(-1)
    return float(scores.std()), float(largest.mean()), float(jnp.median(passed))


def main() -> None:
    """Prints the table."""
    rows = []
    for d_k in (4, 16, 64, 256, 1024):
        with_division, without = measure(d_k, scaled=True), measure(d_k, scaled=False)
        rows.append(
            (str(d_k), *(x for pair in zip(without, with_division, strict=True) for x in pair))
        )
    header = ("deviation", "divided", "largest weight", "divided", "gradient", "divided")
    show(("d_k", *header), rows)


if __name__ == "__main__":
    main()
