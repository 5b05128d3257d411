"""The score of a translation: its log-probability, divided by a length penalty."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from flaxformer_mt.search.config import LengthNormalization


def penalty(
    lengths: Int[Array, "..."],
    alpha: float | Float[Array, ""],
    normalization: LengthNormalization = "gnmt",
) -> Float[Array, "..."]:
    """Returns the length penalty: the score of a translation is log-probability / penalty.

    "gnmt" is ((5 + length) / 6) ** alpha (Wu et al. 2016, equation 14). "average" is length **
    alpha, so that alpha 1 compares the means of the tokens' log-probabilities. `lengths` are in
    tokens, EOS included. Alpha 0 compares plain log-probabilities, which favours short
    translations. A larger alpha favours longer ones.
    """
    if normalization == "average":
        return jnp.maximum(lengths, 1.0) ** jnp.asarray(alpha, jnp.float32)  # an empty row: 1
    return ((5.0 + lengths) / 6.0) ** jnp.asarray(alpha, jnp.float32)


def token_log_probs(
    logits: Float[Array, "B T V"],
    targets: Int[Array, "B T"],
    mask: Bool[Array, "B T"],
    excluded: Bool[Array, " V"] | None = None,
) -> Float[Array, "B T"]:
    """Returns the log-probability of every target token; 0 where `mask` is False (padding).

    With `excluded` tokens (`renormalize` of the search) they are log-probabilities among the other
    tokens. A target that is excluded itself is normalised by the other tokens too.
    """
    logits = logits.astype(jnp.float32)
    if excluded is None:
        log_probs = jax.nn.log_softmax(logits)
    else:
        others = jnp.where(excluded, -jnp.inf, logits)
        log_probs = logits - jax.nn.logsumexp(others, axis=-1, keepdims=True)
    chosen = jnp.take_along_axis(log_probs, targets[..., None], axis=-1)[..., 0]  # [B T]
    return jnp.where(mask, chosen, 0.0)
