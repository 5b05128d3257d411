"""Optimisers and learning rate schedules by name, built from Optax.

The default is the paper's: Adam with the inverse-square-root schedule (section 5.3).
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, ArrayLike
from optax.contrib import MuonDimensionNumbers

from flaxformer_mt.model.initialization import Params
from flaxformer_mt.training.config import OptimizerName, ScheduleName, TrainingConfig
from flaxformer_mt.training.linear_maps import num_inputs, path_of


def warm_up(peak: float, warmup_steps: int, after: optax.Schedule) -> optax.Schedule:
    """Returns linear warm-up to `peak`, then `after`, whose step 0 is at the peak.

    Steps count from 0. The first update has the rate peak / warmup_steps, as in the paper, whose
    steps count from 1.
    """
    rise = optax.linear_schedule(peak / warmup_steps, peak, max(1, warmup_steps - 1))
    return optax.join_schedules([rise, after], [warmup_steps - 1])


def inverse_sqrt_schedule(peak: float, warmup_steps: int) -> optax.Schedule:
    """Returns equation 3: linear warm-up to `peak`, then peak * sqrt(warmup_steps / step)."""

    def decay(steps_after_warmup: ArrayLike) -> Array:
        return peak * jnp.sqrt(warmup_steps / (jnp.asarray(steps_after_warmup) + warmup_steps))

    return warm_up(peak, warmup_steps, decay)


def cosine_schedule(peak: float, final: float, warmup_steps: int, num_steps: int) -> optax.Schedule:
    """Returns warm-up, then half a cosine to `final` (Loshchilov and Hutter 2017, equation 5).

    The rate reaches `final` one step after the last, so that no update has a rate of 0.
    """
    length = num_steps - (warmup_steps - 1)
    return warm_up(peak, warmup_steps, optax.cosine_decay_schedule(peak, length, final / peak))


def wsd_schedule(
    peak: float, final: float, warmup_steps: int, decay_steps: int, num_steps: int
) -> optax.Schedule:
    """Returns warm-up, constant rate, linear decay (Hu et al. 2024, MiniCPM, section 4).

    The rate is `peak` until `decay_steps` before the end. Until then a run does not depend on its
    length, so that one checkpoint can start a decay and also a longer run. `final` is as in
    `cosine_schedule`.
    """
    stable = num_steps - decay_steps - (warmup_steps - 1)
    decay = optax.linear_schedule(peak, final, decay_steps, transition_begin=stable)
    return warm_up(peak, warmup_steps, decay)


def make_schedule(config: TrainingConfig, d_model: int) -> optax.Schedule:
    """Returns the learning rate schedule; its default peak is the paper's for this width.

    Raises ValueError if its end is above its peak.
    """
    peak = config.learning_rate or d_model**-0.5 * config.warmup_steps**-0.5
    final, warmup, end = config.final_learning_rate, config.warmup_steps, config.num_steps
    if final > peak:
        raise ValueError(
            f"training.final_learning_rate is {final:g}, more than the peak of {peak:g} of the "
            "learning rate; give a smaller one, or raise training.learning_rate"
        )
    schedules: dict[ScheduleName, Callable[[], optax.Schedule]] = {
        "inverse_sqrt": lambda: inverse_sqrt_schedule(peak, warmup),
        "cosine": lambda: cosine_schedule(peak, final, warmup, end),
        "wsd": lambda: wsd_schedule(peak, final, warmup, config.decay_length, end),
    }
    return schedules[config.schedule]()


def make_optimizer(config: TrainingConfig, d_model: int) -> optax.GradientTransformation:
    """Returns clipping by global norm, then the optimiser, then weight decay.

    The decay is decoupled from the gradient (Loshchilov and Hutter 2019) and multiplied by the
    learning rate, with every optimiser: p -= rate * (update + weight_decay * p).
    """
    schedule = make_schedule(config, d_model)

    def decay(step: ArrayLike) -> Array:
        return -config.weight_decay * jnp.asarray(schedule(step))

    return optax.chain(
        optax.clip_by_global_norm(config.clip_norm) if config.clip_norm else optax.identity(),
        _OPTIMIZERS[config.optimizer](config, schedule),
        # Not optax.identity() without decay: its state would be in every checkpoint.
        *([optax.add_decayed_weights(decay, kernel_mask)] if config.weight_decay else []),
    )


def kernel_mask(params: Params) -> Any:
    """Returns True for each kernel, False for biases, norms, embeddings and position tables."""

    def is_kernel(keys: Any, x: Array) -> bool:
        return num_inputs(path_of(keys), x.ndim) > 0

    return jax.tree_util.tree_map_with_path(is_kernel, params)


def muon_dimensions(params: Params) -> Any:
    """Returns each kernel's matrix dimensions for Muon; None for the parameters of its Adam.

    [D N H] is the matrix D x NH, [N H D] is NH x D. Adam updates the map to the vocabulary, tied
    to the embeddings or not (Jordan et al. 2024).
    """

    def matrix(keys: Any, x: Array) -> MuonDimensionNumbers | None:
        path, num_dims = path_of(keys), x.ndim
        inputs = num_inputs(path, num_dims)
        if not inputs or "output" in path:
            return None
        return MuonDimensionNumbers(tuple(range(inputs)), tuple(range(inputs, num_dims)))

    return jax.tree_util.tree_map_with_path(matrix, params)


def _muon(config: TrainingConfig, schedule: optax.Schedule) -> optax.GradientTransformation:
    """Returns Muon (Jordan et al. 2024): orthogonal momentum of each kernel; Adam for the rest.

    An orthogonal [m, n] has root mean square 1 / sqrt(max(m, n)). It is scaled to 0.2, about that
    of Adam's updates (Liu et al. 2025, section 2.2), so that one learning rate, one for Adam, fits
    both parts.
    """
    return optax.contrib.muon(
        schedule,
        eps=config.adam_eps,
        adam_b1=config.adam_b1,
        adam_b2=config.adam_b2,
        muon_weight_dimension_numbers=muon_dimensions,
        consistent_rms=0.2,
    )


def _adam(config: TrainingConfig, schedule: optax.Schedule) -> optax.GradientTransformation:
    """Returns Adam (Kingma and Ba 2015) with the paper's constants (section 5.3)."""
    return optax.adam(schedule, b1=config.adam_b1, b2=config.adam_b2, eps=config.adam_eps)


_OPTIMIZERS: dict[
    OptimizerName, Callable[[TrainingConfig, optax.Schedule], optax.GradientTransformation]
] = {
    "adam": _adam,
    "adamw": _adam,  # Adam with weight decay
    # Shazeer and Stern 2018: no first moment and a factored second one. Steps are not scaled by the
    # size of the parameter (section 8), so that a rate has the same meaning as elsewhere.
    "adafactor": lambda _, rate: optax.adafactor(rate, multiply_by_parameter_scale=False),
    # Chen et al. 2023: the sign of the momentum. It needs a learning rate 3 to 10 times smaller
    # than Adam's, and a weight decay larger by the same factor (section 5).
    "lion": lambda _, rate: optax.lion(rate, b1=0.9, b2=0.99, weight_decay=0.0),
    "muon": _muon,
}
