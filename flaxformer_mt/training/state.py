"""The training state: everything that an update changes, as one pytree."""

from collections.abc import Callable
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh

from flaxformer_mt.model.initialization import Params, boxed_params, init_params
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.runtime.sharding import state_shardings
from flaxformer_mt.training.adapting import TRAIN_ALL, Adaptation

Leaf = Any  # an array; in trees that mirror a state, its shape or its sharding


@flax.struct.dataclass
class TrainState:
    """Parameters, optimiser state and random key after `step` updates.

    Attributes:
      step: int32 scalar; updates done, including skipped ones.
      params: nested dict of float32 arrays: the model's parameters, or the tree that
        `training.adapting` makes of them.
      opt_state: of the Optax optimiser.
      key: raw random key. The dropout of step n uses fold_in(key, n), so that it depends on the
        seed and n only, and a resumed run gives the same masks as an uninterrupted one.
      ema: exponential moving average of the trained `params`; None without one.
    """

    step: Leaf
    params: Params
    opt_state: optax.OptState
    key: Leaf
    ema: Params | None = None


def init_state(
    model: Transformer,
    optimizer: optax.GradientTransformation,
    seed: int,
    params: Params | None = None,
    *,
    adaptation: Adaptation = TRAIN_ALL,
    with_ema: bool = False,
) -> TrainState:
    """Returns the state before the first step, which depends on `seed` and `params` only.

    Args:
      model: to train.
      optimizer: of `make_optimizer`.
      seed: of the parameters and of dropout.
      params: the start; fresh parameters if None.
      adaptation: which parameters are trained.
      with_ema: whether the state has an exponential moving average.
    """
    params_key, dropout_key = jax.random.split(jax.random.key(seed))
    start = init_params(model, params_key) if params is None else params
    tree = adaptation.start(start, params_key)
    trained, _ = adaptation.split(tree)
    return TrainState(
        step=jnp.zeros((), jnp.int32),
        params=tree,
        opt_state=optimizer.init(trained),
        key=jax.random.key_data(dropout_key),
        ema=jax.tree.map(jnp.copy, trained) if with_ema else None,
    )


def has_separate_eval_params(state: TrainState, adaptation: Adaptation) -> bool:
    """Returns whether `eval_params` differ from the parameters in training."""
    return state.ema is not None or adaptation.merges


def eval_params(state: TrainState, adaptation: Adaptation) -> Params:
    """Returns the parameters for validation and translation, in the model's own tree.

    They are the moving average, if the state has one, with merged adapters.
    """
    if state.ema is None:
        return adaptation.merge(state.params)
    _, frozen = adaptation.split(state.params)
    return adaptation.merge(adaptation.join(state.ema, frozen))


def abstract_state(
    make: Callable[[], TrainState],
    model: Transformer,
    adaptation: Adaptation,
    mesh: Mesh,
) -> TrainState:
    """Returns shape, type and sharding of each array of the state that `make` returns."""
    key = jax.random.key(0)
    boxed = jax.eval_shape(lambda: adaptation.start(boxed_params(model, key), key))
    shapes = jax.eval_shape(make)
    return jax.tree.map(
        lambda x, sharding: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding),
        shapes,
        state_shardings(shapes, boxed, mesh),
    )
