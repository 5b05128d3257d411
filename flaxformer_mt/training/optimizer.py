"""The optimiser and its learning rate, chosen by name: each optimiser is one Optax sentence.

Adam with the inverse-square-root schedule is the paper's (section 5.3), and the default.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, ArrayLike
from optax.contrib import MuonDimensionNumbers

from flaxformer_mt.training.config import OptimizerName, ScheduleName, TrainingConfig
from flaxformer_mt.training.kernels import Params, num_inputs, path_of


def warm_up(peak: float, warmup_steps: int, after: optax.Schedule) -> optax.Schedule:
    """Linear to `peak` in `warmup_steps`; then `after`, which counts from 0 where the peak is.

    `step` counts from 0; the first update runs at peak / warmup_steps, as in the paper, where
    steps count from 1.
    """
    rise = optax.linear_schedule(peak / warmup_steps, peak, max(1, warmup_steps - 1))
    return optax.join_schedules([rise, after], [warmup_steps - 1])


def inverse_sqrt_schedule(peak: float, warmup_steps: int) -> optax.Schedule:
    """Equation 3: linear to `peak` in `warmup_steps`, then peak * sqrt(warmup_steps / step)."""

    def decay(steps_after_warmup: ArrayLike) -> Array:
        return peak * jnp.sqrt(warmup_steps / (jnp.asarray(steps_after_warmup) + warmup_steps))

    return warm_up(peak, warmup_steps, decay)


def cosine_schedule(peak: float, final: float, warmup_steps: int, num_steps: int) -> optax.Schedule:
    """Warm-up, then half a cosine from `peak` to `final` (Loshchilov and Hutter 2017, eq. 5).

    `final` is what the step after the last would have: no update is spent at a rate of 0.
    """
    length = num_steps - (warmup_steps - 1)
    return warm_up(peak, warmup_steps, optax.cosine_decay_schedule(peak, length, final / peak))


def wsd_schedule(
    peak: float, final: float, warmup_steps: int, decay_steps: int, num_steps: int
) -> optax.Schedule:
    """Warm-up, stable, decay (Hu et al. 2024, MiniCPM, section 4): a straight line to the end.

    The rate stays at `peak` until `decay_steps` before the end. Until there a run does not depend
    on its length, so that one checkpoint can be decayed early and trained on as well. `final` as
    in `cosine_schedule`.
    """
    stable = num_steps - decay_steps - (warmup_steps - 1)
    decay = optax.linear_schedule(peak, final, decay_steps, transition_begin=stable)
    return warm_up(peak, warmup_steps, decay)


def make_schedule(config: TrainingConfig, d_model: int) -> optax.Schedule:
    """The learning rate of each step; without a peak of its own the paper's for this width.

    Raises ValueError if it would end higher than its peak.
    """
    peak = config.learning_rate or d_model**-0.5 * config.warmup_steps**-0.5
    final, warmup, end = config.final_learning_rate, config.warmup_steps, config.num_steps
    if final > peak:
        raise ValueError(
            f"training.final_learning_rate is {final:g}, more than the peak of {peak:g} that the "
            "learning rate comes down from; give a smaller one, or raise training.learning_rate"
        )
    schedules: dict[ScheduleName, Callable[[], optax.Schedule]] = {
        "inverse_sqrt": lambda: inverse_sqrt_schedule(peak, warmup),
        "cosine": lambda: cosine_schedule(peak, final, warmup, end),
        "wsd": lambda: wsd_schedule(peak, final, warmup, config.decay_length, end),
    }
    return schedules[config.schedule]()


def make_optimizer(config: TrainingConfig, d_model: int) -> optax.GradientTransformation:
    """Clip by global norm, the optimiser of that name, then weight decay.

    The decay is decoupled from the gradient (Loshchilov and Hutter 2019) and multiplied by the
    learning rate: p -= rate * (update + weight_decay * p), in all optimisers alike.
    """
    schedule = make_schedule(config, d_model)

    def decay(step: ArrayLike) -> Array:
        return -config.weight_decay * jnp.asarray(schedule(step))

    return optax.chain(
        optax.clip_by_global_norm(config.clip_norm) if config.clip_norm else optax.identity(),
        _OPTIMIZERS[config.optimizer](config, schedule),
        # Not optax.identity() where there is none: it would have a place in every checkpoint.
        *([optax.add_decayed_weights(decay, kernel_mask)] if config.weight_decay else []),
    )


def kernel_mask(params: Params) -> Any:
    """True for each kernel; False for biases, norms' scales, embeddings and position tables."""

    def is_kernel(keys: Any, x: Array) -> bool:
        return num_inputs(path_of(keys), x.ndim) > 0

    return jax.tree_util.tree_map_with_path(is_kernel, params)


def muon_dimensions(params: Params) -> Any:
    """Each kernel as a matrix, inputs times outputs; None for what Muon leaves to its Adam.

    [D N H] is the matrix D x NH, [N H D] is NH x D. The map to the vocabulary is no matrix of
    Muon's, tied to the embeddings or not (Jordan et al. 2024).
    """

    def matrix(keys: Any, x: Array) -> MuonDimensionNumbers | None:
        path, num_dims = path_of(keys), x.ndim
        inputs = num_inputs(path, num_dims)
        if not inputs or "output" in path:
            return None
        return MuonDimensionNumbers(tuple(range(inputs)), tuple(range(inputs, num_dims)))

    return jax.tree_util.tree_map_with_path(matrix, params)


def _adam(config: TrainingConfig, schedule: optax.Schedule) -> optax.GradientTransformation:
    """Kingma and Ba 2015, with the paper's constants (section 5.3)."""
    return optax.adam(schedule, b1=config.adam_b1, b2=config.adam_b2, eps=config.adam_eps)


def _adafactor(config: TrainingConfig, schedule: optax.Schedule) -> optax.GradientTransformation:
    """Shazeer and Stern 2018: no first moment, and of the second the means of rows and columns.

    Steps are absolute, not relative to the size of the parameter (section 8 of that paper), so
    that a learning rate means here what it means to the others.
    """
    del config
    return optax.adafactor(schedule, multiply_by_parameter_scale=False)


def _lion(config: TrainingConfig, schedule: optax.Schedule) -> optax.GradientTransformation:
    """Chen et al. 2023: the sign of the momentum, with that paper's constants.

    Every step is a full one: it wants a learning rate 3 to 10 times smaller than Adam's, and a
    weight decay as many times larger (section 5 of that paper).
    """
    del config
    return optax.lion(schedule, b1=0.9, b2=0.99, weight_decay=0.0)


def _muon(config: TrainingConfig, schedule: optax.Schedule) -> optax.GradientTransformation:
    """Jordan et al. 2024: the momentum of each kernel made orthogonal; Adam for all else.

    An orthogonal [m, n] has root mean square 1 / sqrt(max(m, n)). It is brought to 0.2, about what
    Adam's updates have (Liu et al. 2025, section 2.2), so that one learning rate, one that suits
    Adam, serves both parts.
    """
    return optax.contrib.muon(
        schedule,
        eps=config.adam_eps,
        adam_b1=config.adam_b1,
        adam_b2=config.adam_b2,
        muon_weight_dimension_numbers=muon_dimensions,
        consistent_rms=0.2,
    )


_OPTIMIZERS: dict[
    OptimizerName, Callable[[TrainingConfig, optax.Schedule], optax.GradientTransformation]
] = {
    "adam": _adam,
    "adamw": _adam,  # it is Adam with weight decay
    "adafactor": _adafactor,
    "lion": _lion,
    "muon": _muon,
}
