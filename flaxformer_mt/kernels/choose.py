"""The choice of kernels for a device, and what a model gets from them."""

import dataclasses
import importlib
from collections.abc import Collection
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from flaxformer_mt.model.config import KernelChoice, TransformerConfig
from flaxformer_mt.model.kernels import REFERENCE, Kernels
from flaxformer_mt.model.transformer import Transformer


def choose_kernels(choice: KernelChoice, platform: str) -> Kernels:
    """Returns the kernels of a choice; "auto" means those for the platform.

    A platform without kernels, or whose package is missing, gets the reference.

    Args:
      choice: the field `model.kernels` of a config.
      platform: "cpu", "gpu" or "tpu", as `jax.default_backend()` gives it.

    Raises:
      ValueError: the chosen kernels are not installed.
    """
    name = platform if choice == "auto" else choice
    if name == "reference":
        return REFERENCE
    try:
        return importlib.import_module(f"flaxformer_mt.kernels.{name}").KERNELS
    except ModuleNotFoundError as error:
        if choice == "auto":
            return REFERENCE
        raise ValueError(
            f"model.kernels={choice} needs the package flaxformer_mt.kernels.{name}, which is not "
            f'here: use "auto" or "reference".'
        ) from error


def describe_kernels(
    config: TransformerConfig,
    kernels: Kernels,
    lengths: Collection[tuple[int, int]] = ((128, 128), (1024, 1024)),
) -> str:
    """Returns one line: which operations are the kernels' own, and what the reference computes.

    Args:
      config: of the model.
      kernels: of the model.
      lengths: of source and target in each batch shape.
    """
    names = [field.name for field in dataclasses.fields(Kernels) if field.name != "name"]
    own = [name for name in names if getattr(kernels, name) is not getattr(REFERENCE, name)]
    if not own:
        return "kernels     reference"
    line = f"kernels     {kernels.name}: {', '.join(own)}"
    refusals, served = _refusals(config, kernels, lengths) if "attend" in own else ({}, True)
    if not refusals:
        return line
    extent = "some of attend" if served else "attend"
    return f"{line}; {extent} falls back to the reference ({'; '.join(refusals)})"


def _refusals(
    config: TransformerConfig, kernels: Kernels, lengths: Collection[tuple[int, int]]
) -> tuple[dict[str, None], bool]:
    """Returns why the kernel refuses attention in this model, and whether it computes any.

    It traces a training step of one layer of encoder and decoder, and computes nothing.
    """
    refusals: dict[str, None] = {}  # a set that keeps its order
    served = 0

    def attend(*args) -> Array:
        nonlocal served
        try:
            result = kernels.attend(*args)
        except NotImplementedError as error:
            refusals[str(error)] = None
            raise
        served += 1
        return result

    one_layer = dataclasses.replace(
        config, num_encoder_layers=1, num_decoder_layers=1, layer_loop="unrolled", remat="none"
    )
    model = Transformer(one_layer, 8, 8, 0, dataclasses.replace(kernels, attend=attend))
    for source, target in lengths:
        _trace(model, source, target)
    if config.attention_dropout:
        refusals["attention_dropout needs the weights"] = None
    elif config.positions == "relative":
        refusals["positions=relative needs the weights"] = None
    return refusals, served > 0


def _trace(model: Transformer, source_length: int, target_length: int) -> None:
    """Traces a training step's forward pass over one row of these lengths."""
    source, target = (jnp.zeros((1, n), jnp.int32) for n in (source_length, target_length))
    batch = (source, target) * 3  # tokens, positions, segments
    rows = jnp.zeros(1, jnp.int32)

    def forward(key: Array) -> Any:
        params = model.init(key, *batch)
        return model.apply(params, *batch, dropout_rows=rows, rngs={"dropout": key})

    jax.eval_shape(forward, jax.random.key(0))
