"""All that changes in training, in one pytree."""

import functools
from collections.abc import Callable
from typing import Any

import flax.linen as nn
import flax.struct
import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh
from jaxtyping import Array

from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.runtime.sharding import ShardingRules, state_shardings
from flaxformer_mt.training.adapting import TRAIN_ALL, Adaptation
from flaxformer_mt.training.config import TrainingConfig

Params = Any  # a nested dict of arrays, as Linen makes it
Leaf = Any  # an array, or in trees that mirror a state its shape or its place


@flax.struct.dataclass
class TrainState:
    """Parameters, optimiser state and randomness after `step` updates.

    Attributes:
      step: int32 scalar; updates done, those that were skipped among them.
      params: nested dict of float32 arrays: the model's, or what `training.adapting` makes of them.
      opt_state: of the Optax optimiser.
      key: raw random key; the dropout of step n uses fold_in(key, n), so that it depends on the
        seed and n alone and a resumed run draws what the uninterrupted one would have drawn.
      ema: exponential moving average of those of `params` that are trained; None where none is
        kept.
    """

    step: Leaf
    params: Params
    opt_state: optax.OptState
    key: Leaf
    ema: Params | None = None


def boxed_params(model: Transformer, key: Array) -> Params:
    """Fresh parameters, each boxed with its logical axes.

    Lengths of the dummy batch do not matter: no shape depends on them.
    """
    one = jnp.ones((1, 1), jnp.int32)
    return model.init(key, one, one, one * 0, one * 0, one, one)["params"]


def init_params(model: Transformer, key: Array) -> Params:
    """Fresh parameters."""
    return nn.unbox(boxed_params(model, key))


def init_state(
    model: Transformer,
    optimizer: optax.GradientTransformation,
    seed: int,
    params: Params | None = None,
    *,
    adaptation: Adaptation = TRAIN_ALL,
    with_ema: bool = False,
) -> TrainState:
    """The state before the first step, a function of the seed alone, and of `params` if given."""
    params_key, dropout_key = jax.random.split(jax.random.key(seed))
    start = init_params(model, params_key) if params is None else params
    tree = adaptation.start(start, params_key)
    trained, _ = adaptation.divide(tree)
    return TrainState(
        step=jnp.zeros((), jnp.int32),
        params=tree,
        opt_state=optimizer.init(trained),
        key=jax.random.key_data(dropout_key),
        ema=jax.tree.map(jnp.copy, trained) if with_ema else None,
    )


def state_maker(
    config: TrainingConfig,
    model: Transformer,
    optimizer: optax.GradientTransformation,
    adaptation: Adaptation,
    seed: int,
) -> Callable[..., TrainState]:
    """`init_state` with the settings of a config; `params` is left to give."""
    return functools.partial(
        init_state, model, optimizer, seed, adaptation=adaptation, with_ema=config.ema_decay > 0
    )


def has_separate_eval_params(state: TrainState, adaptation: Adaptation) -> bool:
    """Whether `published` are others than those in training."""
    return state.ema is not None or adaptation.merges


def published(state: TrainState, adaptation: Adaptation) -> Params:
    """The parameters that are validated and that translate: an ordinary model's.

    The average where one is kept, adapters merged; where neither is, those in training themselves.
    """
    if state.ema is None:
        return adaptation.merge(state.params)
    _, frozen = adaptation.divide(state.params)
    return adaptation.merge(adaptation.join(state.ema, frozen))


def place(
    make: Callable[[], TrainState],
    model: Transformer,
    adaptation: Adaptation,
    mesh: Mesh,
    rules: ShardingRules,
) -> TrainState:
    """The shapes of the state that `make` gives, with the place of each array on the mesh.

    Raises:
      ValueError: the rules do not fit; see `sharding.state_shardings`.
    """
    key = jax.random.key(0)
    boxed = jax.eval_shape(lambda: adaptation.start(boxed_params(model, key), key))
    shapes = jax.eval_shape(make)
    return jax.tree.map(
        lambda x, sharding: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding),
        shapes,
        state_shardings(shapes, boxed, mesh, rules),
    )
