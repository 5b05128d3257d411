"""Parameters with named dimensions."""

from typing import cast

import flax.linen as nn
from jaxtyping import Array


def parameter(
    module: nn.Module,
    name: str,
    init: nn.initializers.Initializer,
    shape: tuple[int, ...],
    axes: tuple[str, ...],
) -> Array:
    """Returns a float32 parameter of `module`.

    Args:
      module: the module that has the parameter.
      name: its name in the module.
      init: samples the initial values.
      shape: of the parameter.
      axes: a name for each dimension, which the sharding rules map to the device mesh.
    """
    return cast(Array, module.param(name, nn.with_logical_partitioning(init, axes), shape))
