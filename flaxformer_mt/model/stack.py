"""A stack of equal layers: unrolled, scanned or rematerialised, with the same result.

The parameters are the same in all three: one subtree for each layer. So a checkpoint of one serves
the others, and so does decoding, which always runs layer by layer.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from flaxformer_mt.model.dropout import DropoutRows

LayerLoop = Literal["unrolled", "scan"]
Remat = Literal["none", "full", "dots"]

# What the forward pass keeps for the backward pass; the rest is computed again.
_KEPT: dict[Remat, Callable[..., Any]] = {
    "full": jax.checkpoint_policies.nothing_saveable,
    "dots": jax.checkpoint_policies.dots_saveable,
}


@runtime_checkable
class RunLayers(Protocol):
    """`(layers, x, *context, dropout_rows)` -> x after all layers; each gets `context`."""

    def __call__(
        self,
        layers: Sequence[nn.Module],
        x: Float[Array, "B T D"],
        *context: Any,
        dropout_rows: DropoutRows,
    ) -> Float[Array, "B T D"]:
        """Returns the output of the last layer."""
        ...


def choose_run(layer_loop: LayerLoop, remat: Remat) -> RunLayers:
    """Returns the function that runs the layers as the config says."""
    if layer_loop == "unrolled" and remat == "none":
        return run_unrolled
    run = _run_scan if layer_loop == "scan" else _run_recomputing

    def run_pure(
        layers: Sequence[nn.Module],
        x: Float[Array, "B T D"],
        *context: Any,
        dropout_rows: DropoutRows,
    ) -> Float[Array, "B T D"]:
        if layers[0].is_initializing():  # parameters are made layer by layer
            return run_unrolled(layers, x, *context, dropout_rows=dropout_rows)
        params = [layer.variables["params"] for layer in layers]
        keys = None
        if dropout_rows is not None:
            keys = [layer.make_rng("dropout") for layer in layers]
        # Without a parent module the layer is a pure function of its parameters.
        layer = layers[0].clone(parent=None, name=None)

        def apply(x: Array, params: Any, key: Array | None) -> Array:
            rngs = None if key is None else {"dropout": key}
            y = layer.apply({"params": params}, x, *context, dropout_rows=dropout_rows, rngs=rngs)
            return jnp.asarray(y)

        apply = jax.checkpoint(apply, policy=_KEPT[remat]) if remat in _KEPT else apply
        return run(apply, x, params, keys)

    return run_pure


def run_unrolled(
    layers: Sequence[nn.Module],
    x: Float[Array, "B T D"],
    *context: Any,
    dropout_rows: DropoutRows,
) -> Float[Array, "B T D"]:
    """Runs one layer after the other: the fastest program, and the longest compilation."""
    for layer in layers:
        x = layer(x, *context, dropout_rows=dropout_rows)
    return x


def _run_recomputing(
    apply: Callable[..., Array], x: Array, params: list[Any], keys: list[Array] | None
) -> Array:
    """Runs like `run_unrolled`; the backward pass computes parts of the forward pass again."""
    for of_layer, key in zip(params, keys or [None] * len(params), strict=True):
        x = apply(x, of_layer, key)
    return x


def _run_scan(
    apply: Callable[..., Array], x: Array, params: list[Any], keys: list[Array] | None
) -> Array:
    """Runs a loop on the device: the program contains one layer for any number of layers."""
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *params)
    key_stack = None if keys is None else jnp.stack(keys)

    def body(x: Array, of_layer: tuple[Any, Array | None]) -> tuple[Array, None]:
        return apply(x, *of_layer), None

    return jax.lax.scan(body, x, (stacked, key_stack))[0]
