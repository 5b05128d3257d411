"""Which of our parameters fills which array of a CTranslate2 model, and how it lies there.

One table for all variants: a row whose parameters a model does not have is left out, and `fill`
refuses to leave a parameter over. Our kernels are [inputs... outputs...] with the heads apart
([D N H], [N H D]); CTranslate2's weights are [outputs inputs].
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from flaxformer_mt.model.config import TransformerConfig

Convert = Callable[[np.ndarray], np.ndarray]


class Row(NamedTuple):
    """One array of a CTranslate2 spec, and the parameters of ours that it is made of.

    Attributes:
      place: its path in the spec; numbers are places in lists.
      names: of our parameters; several stand one above the other.
      convert: from our layout to CTranslate2's, for each.
    """

    place: str
    names: tuple[str, ...]
    convert: Convert = np.asarray


def matrix(num_inputs: int) -> Convert:
    """A kernel whose first `num_inputs` axes are contracted, as [outputs inputs]."""

    def convert(kernel: np.ndarray) -> np.ndarray:
        return kernel.reshape(math.prod(kernel.shape[:num_inputs]), -1).T

    return convert


def linear(place: str, *modules: str, num_inputs: int = 1) -> tuple[Row, Row]:
    """Linear maps of one input, fused: the outputs of one after those of the other."""
    kernels = tuple(f"{module}/kernel" for module in modules)
    biases = tuple(f"{module}/bias" for module in modules)
    return (
        Row(f"{place}/weight", kernels, matrix(num_inputs)),
        Row(f"{place}/bias", biases, np.ravel),
    )


def norm(place: str, module: str) -> tuple[Row, Row]:
    """A normalisation; RMSNorm has no bias."""
    return Row(f"{place}/gamma", (f"{module}/scale",)), Row(f"{place}/beta", (f"{module}/bias",))


SELF_ATTENTION = (
    *linear(
        "self_attention/linear/0",
        "self_attention/query",
        "self_attention/key",
        "self_attention/value",
    ),
    *linear("self_attention/linear/1", "self_attention/out", num_inputs=2),
    Row("self_attention/relative_position_keys", ("self_attention/relation/keys",)),
    Row("self_attention/relative_position_values", ("self_attention/relation/values",)),
    Row("self_attention/relative_attention_bias", ("self_attention/relation/table",)),
)
FEED_FORWARD = (
    *linear("ffn/linear_0", "feed_forward/in"),
    *linear("ffn/linear_1", "feed_forward/out"),
    *norm("ffn/layer_norm", "feed_forward_residual/layer_norm"),
)
# The gate has the activation, which CTranslate2 gives to linear_0.
GATED_FEED_FORWARD = (
    *linear("ffn/linear_0", "feed_forward/gate"),
    *linear("ffn/linear_0_noact", "feed_forward/in"),
    *FEED_FORWARD[2:],
)
ENCODER_LAYER = (
    *SELF_ATTENTION,
    *norm("self_attention/layer_norm", "attention_residual/layer_norm"),
)
DECODER_LAYER = (
    *SELF_ATTENTION,
    *norm("self_attention/layer_norm", "self_residual/layer_norm"),
    *linear("attention/linear/0", "source_attention/query"),
    *linear("attention/linear/1", "source_attention/key", "source_attention/value"),
    *linear("attention/linear/2", "source_attention/out", num_inputs=2),
    *norm("attention/layer_norm", "source_residual/layer_norm"),
)
STACKS = (
    Row("encoder/position_encodings/encodings", ("encoder_positions/table",)),
    Row("decoder/position_encodings/encodings", ("decoder_positions/table",)),
    *norm("encoder/layer_norm", "encoder_norm"),
    *norm("decoder/layer_norm", "decoder_norm"),
    Row("decoder/embeddings/weight", ("target_embedding/table",)),
    Row("decoder/projection/bias", ("logits_bias",)),
)
SOURCE_EMBEDDING, OUTPUT = "encoder/embeddings/0/weight", "decoder/projection/weight"
EMBEDDINGS = {  # by tie_embeddings
    "all": (
        Row(SOURCE_EMBEDDING, ("target_embedding/table",)),
        Row(OUTPUT, ("target_embedding/table",)),
    ),
    "target": (
        Row(SOURCE_EMBEDDING, ("source_embedding/table",)),
        Row(OUTPUT, ("target_embedding/table",)),
    ),
    "none": (
        Row(SOURCE_EMBEDDING, ("source_embedding/table",)),
        Row(OUTPUT, ("output/kernel",), matrix(1)),
    ),
}
# The axis of width d_k or d_v, which CTranslate2 wants equal.
WIDTH_AXES = {
    **{
        f"{attention}/{name}": axis
        for attention in ("self_attention", "source_attention")
        for name, axis in {
            "query/kernel": 2,
            "query/bias": 1,
            "key/kernel": 2,
            "key/bias": 1,
            "value/kernel": 2,
            "value/bias": 1,
            "out/kernel": 1,
        }.items()
    },
    "self_attention/relation/keys": 1,
    "self_attention/relation/values": 1,
}


def table(config: TransformerConfig) -> Iterator[Row]:
    """The rows of a whole model."""
    yield from STACKS
    yield from EMBEDDINGS[config.tie_embeddings]
    gated = config.activation in ("geglu", "swiglu")
    feed_forward = GATED_FEED_FORWARD if gated else FEED_FORWARD
    for i in range(config.num_encoder_layers):
        yield from _inside((*ENCODER_LAYER, *feed_forward), f"encoder/layer/{i}", f"encoder_{i}")
    for i in range(config.num_decoder_layers):
        yield from _inside((*DECODER_LAYER, *feed_forward), f"decoder/layer/{i}", f"decoder_{i}")


def fill(spec: Any, config: TransformerConfig, params: Mapping[str, Any]) -> None:
    """Put the parameters into a `TransformerSpec`.

    Raises ValueError naming parameters that have no place in the table.
    """
    arrays = {name: _even_heads(name, x, config) for name, x in _flatten(params).items()}
    used: set[str] = set()
    for place, names, convert in table(config):
        if arrays.keys() >= set(names):
            parts = [convert(arrays[name]) for name in names]
            set_array(spec, place, np.ascontiguousarray(np.concatenate(parts)))
            used.update(names)
    if left_over := sorted(arrays.keys() - used):
        raise ValueError(f"parameters that have no place in CTranslate2: {', '.join(left_over)}")


def set_array(spec: Any, place: str, value: np.ndarray) -> None:
    """Set what lies at a path such as "encoder/layer/0/ffn/linear_0/weight"."""
    *parents, name = place.split("/")
    for parent in parents:
        spec = spec[int(parent)] if parent.isdigit() else getattr(spec, parent)
    setattr(spec, name, value)


def _inside(rows: Iterable[Row], place: str, module: str) -> Iterator[Row]:
    for row in rows:
        names = tuple(f"{module}/{name}" for name in row.names)
        yield Row(f"{place}/{row.place}", names, row.convert)


def _even_heads(name: str, array: np.ndarray, config: TransformerConfig) -> np.ndarray:
    """Zeros where d_k or d_v is the smaller: they add nothing to any product."""
    _, _, in_layer = name.partition("/")
    axis = WIDTH_AXES.get(in_layer)
    if axis is None:
        return array
    padding = [(0, 0)] * array.ndim
    padding[axis] = (0, max(config.head_widths) - array.shape[axis])
    return np.pad(array, padding)


def _flatten(params: Mapping[str, Any]) -> dict[str, np.ndarray]:
    leaves, _ = jax.tree_util.tree_flatten_with_path(params)
    return {
        jax.tree_util.keystr(path, simple=True, separator="/"): np.asarray(leaf, np.float32)
        for path, leaf in leaves
    }
