"""All that changes in training, in one pytree."""

from typing import Any

import flax.linen as nn
import flax.struct
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Int

from flaxformer_mt.model.transformer import Transformer

Params = Any  # a nested dict of arrays, as Linen makes it


@flax.struct.dataclass
class TrainState:
    """Parameters, optimiser state and randomness after `step` updates.

    Attributes:
      step: updates done.
      params: nested dict of float32 arrays.
      opt_state: of the Optax optimiser.
      key: raw random key; the dropout of step n uses fold_in(key, n), so that it depends on the
        seed and n alone and a resumed run draws what the uninterrupted one would have drawn.
    """

    step: Int[Array, ""]
    params: Params
    opt_state: optax.OptState
    key: Array


def init_params(model: Transformer, key: Array) -> Params:
    """Fresh parameters. Lengths of the dummy batch do not matter: no shape depends on them."""
    one = jnp.ones((1, 1), jnp.int32)
    variables = model.init(key, one, one, one * 0, one * 0, one, one)
    return nn.unbox(variables)["params"]


def init_state(
    model: Transformer,
    optimizer: optax.GradientTransformation,
    seed: int,
    params: Params | None = None,
) -> TrainState:
    """The state before the first step, a function of the seed alone, and of `params` if given."""
    params_key, dropout_key = jax.random.split(jax.random.key(seed))
    start = init_params(model, params_key) if params is None else params
    return TrainState(
        step=jnp.zeros((), jnp.int32),
        params=start,
        opt_state=optimizer.init(start),
        key=jax.random.key_data(dropout_key),
    )
