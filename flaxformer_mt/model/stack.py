"""A stack of equal layers: unrolled, scanned or rematerialised.

All three have the same parameters, one subtree for each layer, and read each other's checkpoints.
Their results are equal up to rounding, but in training, unrolled layers have other dropout masks
than scanned or rematerialised ones. Decoding always runs layer by layer.
"""

from collections.abc import Callable, Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from flaxformer_mt.model.config import LayerLoop, Remat
from flaxformer_mt.model.kernels import DropoutRows

# What the forward pass keeps for the backward pass; the rest is computed again.
_KEPT: dict[Remat, Callable[..., Any]] = {
    "full": jax.checkpoint_policies.nothing_saveable,
    "dots": jax.checkpoint_policies.dots_saveable,
}


RunLayers = Callable[..., Array]
"""(layers, x [B T D], *context, dropout_rows=...) -> x after all layers; each takes `context`."""


def choose_run(layer_loop: LayerLoop, remat: Remat) -> RunLayers:
    """Returns the function that runs the layers as the config says."""
    if layer_loop == "unrolled" and remat == "none":
        return run_unrolled

    def run(
        layers: Sequence[nn.Module],
        x: Float[Array, "B T D"],
        *context: Any,
        dropout_rows: DropoutRows,
    ) -> Float[Array, "B T D"]:
        if layers[0].is_initializing():  # parameters are made layer by layer
            return run_unrolled(layers, x, *context, dropout_rows=dropout_rows)
        # Without a parent module the layer is a pure function of its parameters and random key.
        layer = layers[0].clone(parent=None, name=None)

        def apply(x: Array, of_layer: tuple[Any, dict[str, Array] | None]) -> tuple[Array, None]:
            params, rngs = of_layer
            y = layer.apply({"params": params}, x, *context, dropout_rows=dropout_rows, rngs=rngs)
            return jnp.asarray(y), None

        def rngs(layer: nn.Module) -> dict[str, Array] | None:
            return None if dropout_rows is None else {"dropout": layer.make_rng("dropout")}

        of_layers = [(layer.variables["params"], rngs(layer)) for layer in layers]
        apply = jax.checkpoint(apply, policy=_KEPT[remat]) if remat in _KEPT else apply
        if layer_loop == "scan":  # the program contains one layer for any number of layers
            stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *of_layers)
            return jax.lax.scan(apply, x, stacked)[0]
        for of_layer in of_layers:
            x, _ = apply(x, of_layer)
        return x

    return run


def run_unrolled(
    layers: Sequence[nn.Module], x: Float[Array, "B T D"], *context: Any, dropout_rows: DropoutRows
) -> Float[Array, "B T D"]:
    """Runs one layer after the other: the fastest program, and the longest compilation."""
    for layer in layers:
        x = layer(x, *context, dropout_rows=dropout_rows)
    return x
