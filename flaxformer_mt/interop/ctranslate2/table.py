"""The table of the arrays of a CTranslate2 model and our parameters that fill them.

Letters of the axes: D model width, N query heads, G key/value heads, Hk width of a query or key,
Hv width of a value, F feed-forward width, V and Vs target and source vocabulary, R relative
distances, P positions, U position buckets. Rows of the same array are concatenated. A model uses
only the rows of its parameters.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from flax.traverse_util import flatten_dict

from flaxformer_mt.interop.parameter_table import Row, linear, prefixed
from flaxformer_mt.interop.parameter_table import norm as norm_rows
from flaxformer_mt.model.config import TransformerConfig


def norm(ours: str, theirs: str) -> tuple[Row, Row]:
    """Returns the rows of a normalisation layer. RMSNorm has no bias."""
    return norm_rows(ours, theirs, scale="gamma", bias="beta")


SELF_ATTENTION = (
    *linear("self_attention/query", "self_attention.linear.0", "D", "N Hk"),
    *linear("self_attention/key", "self_attention.linear.0", "D", "G Hk"),
    *linear("self_attention/value", "self_attention.linear.0", "D", "G Hv"),
    *linear("self_attention/out", "self_attention.linear.1", "N Hv", "D"),
    Row("self_attention/relation/keys", "R Hk", "self_attention.relative_position_keys", "R Hk"),
    Row(
        "self_attention/relation/values", "R Hv", "self_attention.relative_position_values", "R Hv"
    ),
    Row("self_attention/relation/table", "U N", "self_attention.relative_attention_bias", "U N"),
)
FEED_FORWARD = (
    *linear("feed_forward/in", "ffn.linear_0", "D", "F"),
    *linear("feed_forward/out", "ffn.linear_1", "F", "D"),
    *norm("feed_forward_residual/layer_norm", "ffn.layer_norm"),
)
# CTranslate2 applies the activation to linear_0, which is the gate.
GATED_FEED_FORWARD = (
    *linear("feed_forward/gate", "ffn.linear_0", "D", "F"),
    *linear("feed_forward/in", "ffn.linear_0_noact", "D", "F"),
    *FEED_FORWARD[2:],
)
ENCODER_LAYER = (
    *SELF_ATTENTION,
    *norm("attention_residual/layer_norm", "self_attention.layer_norm"),
)
DECODER_LAYER = (
    *SELF_ATTENTION,
    *norm("self_residual/layer_norm", "self_attention.layer_norm"),
    *linear("source_attention/query", "attention.linear.0", "D", "N Hk"),
    *linear("source_attention/key", "attention.linear.1", "D", "G Hk"),
    *linear("source_attention/value", "attention.linear.1", "D", "G Hv"),
    *linear("source_attention/out", "attention.linear.2", "N Hv", "D"),
    *norm("source_residual/layer_norm", "attention.layer_norm"),
)
OUTSIDE_LAYERS = (
    Row("encoder_positions/table", "P D", "encoder.position_encodings.encodings", "P D"),
    Row("decoder_positions/table", "P D", "decoder.position_encodings.encodings", "P D"),
    *norm("encoder_norm", "encoder.layer_norm"),
    *norm("decoder_norm", "decoder.layer_norm"),
    Row("target_embedding/table", "V D", "decoder.embeddings.weight", "V D"),
    Row("logits_bias", "V", "decoder.projection.bias", "V"),
)
SHARED_SOURCE = Row("target_embedding/table", "V D", "encoder.embeddings.0.weight", "V D")
OWN_SOURCE = Row("source_embedding/table", "Vs D", "encoder.embeddings.0.weight", "Vs D")
SHARED_OUTPUT = Row("target_embedding/table", "V D", "decoder.projection.weight", "V D")
OWN_OUTPUT = Row("output/kernel", "D V", "decoder.projection.weight", "V D")
EMBEDDINGS = {  # by tie_embeddings
    "all": (SHARED_SOURCE, SHARED_OUTPUT),
    "target": (OWN_SOURCE, SHARED_OUTPUT),
    "none": (OWN_SOURCE, OWN_OUTPUT),
}


def table(config: TransformerConfig) -> Iterator[Row]:
    """Yields the rows of a whole model."""
    yield from OUTSIDE_LAYERS
    yield from EMBEDDINGS[config.tie_embeddings]
    gated = config.activation in ("geglu", "swiglu")
    feed_forward = GATED_FEED_FORWARD if gated else FEED_FORWARD
    for side, layers, rows in (
        ("encoder", config.num_encoder_layers, ENCODER_LAYER),
        ("decoder", config.num_decoder_layers, DECODER_LAYER),
    ):
        for i in range(layers):
            yield from prefixed((*rows, *feed_forward), f"{side}_{i}", f"{side}.layer.{i}")


def fill(spec: Any, config: TransformerConfig, params: Mapping[str, Any]) -> None:
    """Copies the parameters into a `TransformerSpec`.

    Raises ValueError with the names of parameters that no row of the table mentions.
    """
    arrays = {name: np.asarray(x) for name, x in flatten_dict(params, sep="/").items()}
    # CTranslate2 has one width for keys and values, so the smaller one is padded with zeros.
    width = max(config.head_widths)
    parts: defaultdict[str, list[np.ndarray]] = defaultdict(list)
    unused = set(arrays)
    for row in table(config):
        if row.ours in arrays:
            parts[row.theirs].append(row.to_tensor(arrays[row.ours], {"Hk": width, "Hv": width}))
            unused.discard(row.ours)
    if unused:
        raise ValueError(f"CTranslate2 has no place for the parameters {', '.join(sorted(unused))}")
    for path, tensors in parts.items():
        set_array(spec, path, np.concatenate(tensors))


def set_array(spec: Any, path: str, value: np.ndarray) -> None:
    """Sets the array at a path such as "encoder.layer.0.ffn.linear_0.weight"."""
    *parents, name = path.split(".")
    for parent in parents:
        spec = spec[int(parent)] if parent.isdigit() else getattr(spec, parent)
    setattr(spec, name, value)
