"""Fresh parameters of a model, and their shapes."""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array

from flaxformer_mt.model.transformer import Transformer

Params = Any  # a nested dict of arrays, as Linen makes it


def boxed_params(model: Transformer, key: Array) -> Params:
    """Returns fresh parameters, each boxed with the names of its logical axes.

    The dummy batch has one token, because no parameter's shape depends on the lengths.
    """
    one = jnp.ones((1, 1), jnp.int32)
    return model.init(key, one, one, one * 0, one * 0, one, one)["params"]


def init_params(model: Transformer, key: Array) -> Params:
    """Returns fresh parameters."""
    return nn.unbox(boxed_params(model, key))


def param_shapes(model: Transformer) -> Params:
    """Returns the shape and type of each parameter; nothing is computed."""
    return jax.eval_shape(lambda: init_params(model, jax.random.key(0)))
