"""The choice of kernels and search sizes for a device, and what a model gets from the kernels."""

import dataclasses
import importlib
from collections.abc import Collection
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array

from flaxformer_mt.kernels.search_sizes import SearchSizes
from flaxformer_mt.model.config import KernelChoice, TransformerConfig
from flaxformer_mt.model.initialization import Params, param_shapes
from flaxformer_mt.model.kernels import REFERENCE, Kernels
from flaxformer_mt.model.positions import RELATIVE_SCHEMES, RelativeScheme
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.runtime.sharding import BATCH_AXES, num_shards

_OPERATIONS = ("attend", "embed", "product", "dropout", "store")
"""The fields of `Kernels` that training and translating share."""


def choose_kernels(choice: KernelChoice, platform: str) -> Kernels:
    """Returns the kernels of a choice; "auto" means those for the platform.

    `platform` is "cpu", "gpu" or "tpu", as `jax.default_backend()` gives it. Returns the reference
    if the platform has no kernels, if their package is missing, or if "tpu" is chosen without a
    TPU. Raises ValueError if kernels that are chosen by name are not installed.
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


def choose_search_sizes(platform: str) -> SearchSizes:
    """Returns the sizes for a platform; the defaults if its package has none, or is missing."""
    try:
        module = importlib.import_module(f"flaxformer_mt.kernels.{platform}")
    except ModuleNotFoundError:
        return SearchSizes()
    return getattr(module, "SEARCH_SIZES", SearchSizes())


def describe_kernels(
    config: TransformerConfig,
    kernels: Kernels,
    lengths: Collection[tuple[int, int]],
    mesh: Mesh,
) -> str:
    """Returns one line: which operations are the kernels' own, and what the reference computes.

    `lengths` are those of source and target in each batch shape, which `mesh` splits.
    """
    own = [name for name in _OPERATIONS if getattr(kernels, name) is not getattr(REFERENCE, name)]
    if not own:
        return "reference"
    line = f"{kernels.name}: {', '.join(own)}"
    if "attend" not in own:
        return line
    refusals, served = _refusals(config, kernels, lengths, mesh)
    if not refusals:
        return line
    extent = "some of attend" if served else "attend"
    return f"{line}; {extent} falls back to the reference ({'; '.join(refusals)})"


def _refusals(
    config: TransformerConfig, kernels: Kernels, lengths: Collection[tuple[int, int]], mesh: Mesh
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
    rows = num_shards(mesh)

    def like(x: jax.ShapeDtypeStruct, *axes: tuple[str, ...]) -> jax.ShapeDtypeStruct:
        sharding = NamedSharding(mesh, PartitionSpec(*axes))
        return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding)

    def forward(params: Params, batch: tuple[Array, ...]) -> Any:
        noise = {"dropout_rows": jnp.zeros(rows, jnp.int32), "rngs": {"dropout": jax.random.key(0)}}
        return model.apply({"params": params}, *batch, **noise)

    params = jax.tree.map(like, param_shapes(model.clone(kernels=REFERENCE)))
    for length_pair in lengths:
        source, target = (
            like(jax.ShapeDtypeStruct((rows, n), jnp.int32), BATCH_AXES) for n in length_pair
        )
        jax.eval_shape(forward, params, (source, target) * 3)  # tokens, positions, segments
    if config.attention_dropout:
        refusals["attention_dropout needs the weights"] = None
    elif RELATIVE_SCHEMES.get(config.positions, RelativeScheme).needs_weights:
        refusals[f"positions={config.positions} needs the weights"] = None
    return refusals, served > 0
