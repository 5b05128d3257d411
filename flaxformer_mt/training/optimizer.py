"""Adam with the inverse-square-root schedule (section 5.3), as one Optax sentence."""

import jax.numpy as jnp
import optax
from jaxtyping import Array, ArrayLike

from flaxformer_mt.training.config import TrainingConfig


def inverse_sqrt_schedule(peak: float, warmup_steps: int) -> optax.Schedule:
    """Equation 3: linear to `peak` in `warmup_steps`, then peak * sqrt(warmup_steps / step).

    `step` counts from 0; the first update runs at peak / warmup_steps, as in the paper, where
    steps count from 1.
    """
    warmup = optax.linear_schedule(peak / warmup_steps, peak, max(1, warmup_steps - 1))

    def decay(steps_after_warmup: ArrayLike) -> Array:
        return peak * jnp.sqrt(warmup_steps / (jnp.asarray(steps_after_warmup) + warmup_steps))

    return optax.join_schedules([warmup, decay], [warmup_steps - 1])


def make_schedule(config: TrainingConfig, d_model: int) -> optax.Schedule:
    """The learning rate of each step; without a peak of its own the paper's for this width."""
    paper = d_model**-0.5 * config.warmup_steps**-0.5
    return inverse_sqrt_schedule(config.learning_rate or paper, config.warmup_steps)


def make_optimizer(config: TrainingConfig, d_model: int) -> optax.GradientTransformation:
    """Clip by global norm, then Adam."""
    clip = optax.clip_by_global_norm(config.clip_norm) if config.clip_norm else optax.identity()
    return optax.chain(
        clip,
        optax.adam(
            make_schedule(config, d_model),
            b1=config.adam_b1,
            b2=config.adam_b2,
            eps=config.adam_eps,
        ),
    )
