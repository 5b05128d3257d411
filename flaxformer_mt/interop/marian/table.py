"""The table of the tensors of a Hugging Face Marian model and our parameters, for both directions.

Letters of the axes: D model width, N heads, H head width, F feed-forward width, V and Vs target and
source vocabulary.
"""

from collections.abc import Iterator

from flaxformer_mt.interop.parameter_table import Row, linear, norm, prefixed
from flaxformer_mt.model.config import TransformerConfig


def attention(ours: str, theirs: str) -> tuple[Row, ...]:
    """Returns the rows of one attention block."""
    return (
        *linear(f"{ours}/query", f"{theirs}.q_proj", "D", "N H"),
        *linear(f"{ours}/key", f"{theirs}.k_proj", "D", "N H"),
        *linear(f"{ours}/value", f"{theirs}.v_proj", "D", "N H"),
        *linear(f"{ours}/out", f"{theirs}.out_proj", "N H", "D"),
    )


FEED_FORWARD = (
    *linear("feed_forward/in", "fc1", "D", "F"),
    *linear("feed_forward/out", "fc2", "F", "D"),
    *norm("feed_forward_residual/layer_norm", "final_layer_norm"),
)
ENCODER_LAYER = (
    *attention("self_attention", "self_attn"),
    *norm("attention_residual/layer_norm", "self_attn_layer_norm"),
    *FEED_FORWARD,
)
DECODER_LAYER = (
    *attention("self_attention", "self_attn"),
    *norm("self_residual/layer_norm", "self_attn_layer_norm"),
    *attention("source_attention", "encoder_attn"),
    *norm("source_residual/layer_norm", "encoder_attn_layer_norm"),
    *FEED_FORWARD,
)

SHARED, SOURCE = "model.shared.weight", "model.encoder.embed_tokens.weight"
TARGET, OUTPUT = "model.decoder.embed_tokens.weight", "lm_head.weight"
SEPARATE = (
    Row("source_embedding/table", "Vs D", SOURCE, "Vs D"),
    Row("target_embedding/table", "V D", TARGET, "V D"),
)
EMBEDDINGS = {  # by tie_embeddings
    "all": (Row("target_embedding/table", "V D", SHARED, "V D"),),
    "target": SEPARATE,
    "none": (*SEPARATE, Row("output/kernel", "D V", OUTPUT, "V D")),
}
# Other names that a checkpoint may use for a tensor, instead or in addition.
ALIASES = {  # by tie_embeddings
    "all": {SHARED: (SOURCE, TARGET, OUTPUT)},
    "target": {TARGET: (OUTPUT,)},
    "none": {SOURCE: (SHARED,), TARGET: (SHARED,)},
}
OUTPUT_BIAS = Row("logits_bias", "V", "final_logits_bias", "1 V")
# Old checkpoints store their sinusoids, which MarianMTModel computes.
POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")


def table(config: TransformerConfig) -> Iterator[Row]:
    """Yields the rows of a whole model, including the output bias."""
    yield from EMBEDDINGS[config.tie_embeddings]
    yield OUTPUT_BIAS
    for side, layers, rows in (
        ("encoder", config.num_encoder_layers, ENCODER_LAYER),
        ("decoder", config.num_decoder_layers, DECODER_LAYER),
    ):
        for i in range(layers):
            yield from prefixed(rows, f"{side}_{i}", f"model.{side}.layers.{i}")


def axis_sizes(config: TransformerConfig, source_size: int, target_size: int) -> dict[str, int]:
    """Returns the size of each axis letter, given the vocabulary sizes."""
    heads, width = config.num_heads, config.d_model // config.num_heads
    sizes = {"D": config.d_model, "N": heads, "H": width, "F": config.d_ff}
    return sizes | {"V": target_size, "Vs": source_size}
