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

_OPERATIONS = ("attend", "embed", "product", "dropout", "store")
"""The fields of `Kernels` that training and translating share."""


def choose_kernels(choice: KernelChoice, platform: str) -> Kernels:
    """Returns the kernels of a choice; "auto" means those for the platform.

    `platform` is "cpu", "gpu" or "tpu", as `jax.default_backend()` gives it. A platform without
    kernels, or whose package is missing, gets the reference, and so does another platform than a
    TPU with the kernels "tpu". Raises ValueError if kernels that are chosen by name are not
    installed.
    """
    name = platform if choice == "auto" else choice
    if name == "reference" or (name == "tpu" and platform != "tpu"):
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
    lengths: Collection[tuple[int, int]],
) -> str:
    """Returns one line: which operations are the kernels' own, and what the reference computes.

    `lengths` are those of source and target in each batch shape.
    """
    own = [name for name in _OPERATIONS if getattr(kernels, name) is not getattr(REFERENCE, name)]
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

    def forward(key: Array, batch: tuple[Array, ...]) -> Any:
        noise = {"dropout_rows": jnp.zeros(1, jnp.int32), "rngs": {"dropout": key}}
        return model.apply(model.init(key, *batch), *batch, **noise)

    for length_pair in lengths:
        source, target = (jax.ShapeDtypeStruct((1, n), jnp.int32) for n in length_pair)
        # tokens, positions, segments
        jax.eval_shape(forward, jax.random.key(0), (source, target) * 3)
    if config.attention_dropout:
        refusals["attention_dropout needs the weights"] = None
    elif config.positions == "relative":
        refusals["positions=relative needs the weights"] = None
    return refusals, served > 0
