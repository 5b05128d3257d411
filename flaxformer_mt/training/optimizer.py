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
from flaxformer_mt.training.adapting import num_inputs, path_of
from flaxformer_mt.training.config import OptimizerName, ScheduleName, TrainingConfig


def make_schedule(config: TrainingConfig, d_model: int) -> optax.Schedule:
    """Returns the learning rate of each step: linear warm-up to the peak, then a decay.

    Steps count from 0. The default peak is the paper's for this width. The first update has the
    rate peak / warmup_steps, as in the paper, which counts from 1. "cosine" and "wsd" reach the
    final rate one step after the last, so that no update has a rate of 0. Raises ValueError if the
    final rate is above the peak.
    """
    peak = config.learning_rate or d_model**-0.5 * config.warmup_steps**-0.5
    final, warmup = config.final_learning_rate, config.warmup_steps
    if final > peak:
        raise ValueError(
            f"training.final_learning_rate is {final:g}, more than the peak of {peak:g} of the "
            "learning rate; give a smaller one, or raise training.learning_rate"
        )
    length = config.num_steps - (warmup - 1)  # from the peak to the step after the last

    def inverse_sqrt(steps_after_warmup: ArrayLike) -> Array:
        return peak * jnp.sqrt(warmup / (jnp.asarray(steps_after_warmup) + warmup))

    decays: dict[ScheduleName, Callable[[], optax.Schedule]] = {
        "inverse_sqrt": lambda: inverse_sqrt,  # equation 3
        # Loshchilov and Hutter 2017, equation 5.
        "cosine": lambda: optax.cosine_decay_schedule(peak, length, final / peak),
        # Hu et al. 2024, MiniCPM, section 4: constant, then linear. Until the decay a run does not
        # depend on its length, so that one checkpoint can start a decay and also a longer run.
        "wsd": lambda: optax.linear_schedule(
            peak, final, config.decay_length, transition_begin=length - config.decay_length
        ),
    }
    rise = optax.linear_schedule(peak / warmup, peak, max(1, warmup - 1))
    return optax.join_schedules([rise, decays[config.schedule]()], [warmup - 1])


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
    """Returns the matrix dimensions of each kernel for Muon; None for parameters that Adam updates.

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

    An orthogonal [m, n] has root mean square 1 / sqrt(max(m, n)). It is scaled to 0.2, which is
    about the root mean square of Adam's updates (Liu et al. 2025, section 2.2). So one learning
    rate, chosen for Adam, fits both parts.
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
    # An attention kernel [D N H] is factored over D and H.
    "adafactor": lambda _, rate: optax.adafactor(
        rate, min_dim_size_to_factor=32, multiply_by_parameter_scale=False
    ),
    # Chen et al. 2023: the sign of the momentum. It needs a learning rate 3 to 10 times smaller
    # than Adam's, and a weight decay larger by the same factor (section 5).
    "lion": lambda _, rate: optax.lion(rate, b1=0.9, b2=0.99, weight_decay=0.0),
    "muon": _muon,
}
