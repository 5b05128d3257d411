"""Label-smoothed cross-entropy (section 5.4), and R-Drop's divergence."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int


def cross_entropy(
    logits: Float[Array, "B T V"],
    targets: Int[Array, "B T"],
    mask: Bool[Array, "B T"],
    *,
    label_smoothing: float,
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Returns the smoothed and the plain loss, in nats, summed over the real target tokens.

    The smoothed target gives 1 - eps to the right token and eps / V to every token. Its
    cross-entropy needs no [B T V] target:

        loss = log Z - (1 - eps) * logit[right] - eps * mean(logits),  Z = sum(exp(logits))

    `mask` is True at real tokens. Divide both sums by the number of tokens of the global batch for
    the mean.
    """
    log_z = jax.nn.logsumexp(logits, axis=-1)  # [B T]
    right = jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]  # [B T]
    mean = jnp.mean(logits, axis=-1)  # [B T]
    smoothed = log_z - (1 - label_smoothing) * right - label_smoothing * mean
    plain = log_z - right
    return jnp.sum(smoothed, where=mask), jnp.sum(plain, where=mask)


def symmetric_kl(
    logits: Float[Array, "B T V"], others: Float[Array, "B T V"], mask: Bool[Array, "B T"]
) -> Float[Array, ""]:
    """Returns KL(p || q) + KL(q || p), in nats, summed over the real tokens (Liang et al. 2021).

    With the softmaxes p and q of the logits a and b, this is the sum of (p - q) * (log p - log q)
    over the vocabulary. It equals the sum of (p - q) * (a - b), because log p = a - log Z and
    p - q sums to 0.
    """
    p, q = jax.nn.softmax(logits), jax.nn.softmax(others)
    both = jnp.sum((p - q) * (logits - others), axis=-1)  # [B T]
    return jnp.sum(both, where=mask)
