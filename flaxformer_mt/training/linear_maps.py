"""Says which parameters are matrices of linear maps, and which of their dimensions are inputs.

The parameter's path decides: its names from the root of the tree (see `model.layers.Linear`).
"""

import math
from collections.abc import Sequence

import jax

ParameterPath = tuple[str, ...]


def path_of(keys: Sequence[jax.tree_util.KeyEntry]) -> ParameterPath:
    """Returns a path of `jax.tree_util` as names, such as ("decoder_0", "out", "kernel")."""
    return tuple(jax.tree_util.keystr((key,), simple=True) for key in keys)


def num_inputs(path: Sequence[str], num_dims: int) -> int:
    """Returns how many leading dimensions of a kernel are inputs; the others are outputs.

    One for query, key, value [D N H], feed-forward [D F] and [F D], output [D V]; two for the map
    from the heads to the model width [N H D]. Of the adapters of a kernel (see
    `training.adapting`), a [inputs r] has one output and b [r outputs] one input. 0 for parameters
    that are no kernels: biases, scales, embeddings and other tables.
    """
    match tuple(path):
        case (*_, "kernel", "a") | (*_, "out", "kernel"):
            return num_dims - 1
        case (*_, "kernel") | (*_, "kernel", "b"):
            return 1
    return 0


def matrix_shape(path: Sequence[str], shape: Sequence[int]) -> tuple[int, int]:
    """Returns (inputs, outputs) of a kernel as a matrix."""
    inputs = num_inputs(path, len(shape))
    return math.prod(shape[:inputs]), math.prod(shape[inputs:])
