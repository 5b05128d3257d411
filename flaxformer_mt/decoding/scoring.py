"""What a translation is worth: its log-probability, divided by a penalty for its length."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int


def penalty(lengths: Int[Array, "..."], alpha: float | Float[Array, ""]) -> Float[Array, "..."]:
    """GNMT length penalty ((5 + length) / 6) ** alpha (Wu et al. 2016, equation 14).

    `lengths` count tokens, EOS included. A score is log-probability / penalty: alpha 0 compares
    plain log-probabilities, which favours short translations; a larger alpha favours longer ones.
    """
    return ((5.0 + lengths) / 6.0) ** jnp.asarray(alpha, jnp.float32)


def token_log_probs(
    logits: Float[Array, "B T V"], targets: Int[Array, "B T"], mask: Bool[Array, "B T"]
) -> Float[Array, "B T"]:
    """Log-probability of every target token, teacher-forced; 0 where `mask` is False (padding)."""
    log_probs = jax.nn.log_softmax(logits.astype(jnp.float32))
    chosen = jnp.take_along_axis(log_probs, targets[..., None], axis=-1)[..., 0]  # [B T]
    return jnp.where(mask, chosen, 0.0)


def sentence_scores(
    log_probs: Float[Array, "B T"], lengths: Int[Array, " B"], alpha: float | Float[Array, ""]
) -> Float[Array, " B"]:
    """The score that the searches report: summed log-probability / length penalty."""
    return log_probs.sum(-1) / penalty(lengths, alpha)
