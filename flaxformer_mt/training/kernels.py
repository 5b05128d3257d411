"""Which parameters are matrices of linear maps, and which of their dimensions are the inputs.

Told by a parameter's path, its names from the root of the tree (see `model.layers.Linear`).
"""

import math
from collections.abc import Sequence
from typing import Any

import jax

Params = Any  # a nested dict of arrays, as Linen makes it
ParameterPath = tuple[str, ...]


def path_of(keys: Sequence[jax.tree_util.KeyEntry]) -> ParameterPath:
    """A path of `jax.tree_util` as names: ("decoder_0", "self_attention", "out", "kernel")."""
    return tuple(jax.tree_util.keystr((key,), simple=True) for key in keys)


def num_inputs(path: Sequence[str], num_dims: int) -> int:
    """How many of a kernel's leading dimensions are its inputs; the others are its outputs.

    1 for query, key, value [D N H], feed-forward [D F] and [F D], output [D V]; 2 for the map
    from the heads back to the model's width [N H D]. Of the adapters of a kernel (see
    `training.adapting`), a [inputs r] has one output and b [r outputs] one input.

    Args:
      path: the parameter's names.
      num_dims: of the parameter.

    Returns:
      0 for what is no kernel: biases, scales, embeddings and other tables.
    """
    match tuple(path):
        case (*_, "kernel", "a") | (*_, "out", "kernel"):
            return num_dims - 1
        case (*_, "kernel") | (*_, "kernel", "b"):
            return 1
    return 0


def matrix_shape(path: Sequence[str], shape: Sequence[int]) -> tuple[int, int]:
    """(inputs, outputs) of a kernel as the matrix that it is."""
    inputs = num_inputs(path, len(shape))
    return math.prod(shape[:inputs]), math.prod(shape[inputs:])
