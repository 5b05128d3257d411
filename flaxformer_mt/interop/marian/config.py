"""Conversion of a Hugging Face Marian config.json to a model config of ours, and back."""

from collections.abc import Iterator, Mapping
from typing import Any, get_args

from flaxformer_mt.data.tokenization.vocabulary import Vocabulary
from flaxformer_mt.model.config import TransformerConfig
from flaxformer_mt.model.layers import Activation

Json = Mapping[str, Any]

NORM_EPSILON = 1e-5  # of torch.nn.LayerNorm; config.json has no such field
ACTIVATIONS: dict[str, Activation] = {
    "relu": "relu",
    "gelu": "gelu",
    "swish": "silu",
    "silu": "silu",
}
DEFAULTS = {  # of transformers 5.x
    "architectures": ["MarianMTModel"],
    "vocab_size": 58101,
    "max_position_embeddings": 1024,
    "encoder_layers": 12,
    "encoder_ffn_dim": 4096,
    "encoder_attention_heads": 16,
    "decoder_layers": 12,
    "decoder_ffn_dim": 4096,
    "decoder_attention_heads": 16,
    "activation_function": "gelu",
    "d_model": 1024,
    "dropout": 0.1,
    "attention_dropout": 0.0,
    "activation_dropout": 0.0,
    "scale_embedding": False,
    "share_encoder_decoder_embeddings": True,
    "tie_word_embeddings": True,
    "decoder_start_token_id": 58100,
    "pad_token_id": 58100,
    "eos_token_id": 0,
}
FIELDS = {  # our field: theirs
    "d_model": "d_model",
    "d_ff": "encoder_ffn_dim",
    "num_heads": "encoder_attention_heads",
    "num_encoder_layers": "encoder_layers",
    "num_decoder_layers": "decoder_layers",
    "scale_embeddings": "scale_embedding",
    "dropout": "dropout",
    "attention_dropout": "attention_dropout",
    "activation_dropout": "activation_dropout",
}
SAME_IN_BOTH_STACKS = ("attention_heads", "ffn_dim")
_KINDS = {bool: "true or false", float: "a number", str: "a string", list: "a list"}


def with_defaults(values: Json, defaults: Json) -> dict[str, Any]:
    """Returns `defaults`, replaced by the values that are given and not null."""
    return {**defaults, **{name: value for name, value in values.items() if value is not None}}


def wrong_types(values: Json, defaults: Json) -> Iterator[str]:
    """Yields the values whose type differs from that of their default.

    An integer must be at least 1. A token id, and a field whose default is 0, may be 0.
    """
    for name, default in defaults.items():
        value, kind = values[name], type(default)
        if kind is int:
            least = 0 if default == 0 or name.endswith("_token_id") else 1
            if type(value) is not int or value < least:
                yield f"{name} is {value!r}, expected an integer of at least {least}"
        elif type(value) is not kind and not (kind is float and type(value) is int):
            yield f"{name} is {value!r}, expected {_KINDS[kind]}"


def check_architecture(values: Json) -> None:
    """Raises ValueError, with every reason, unless our model can be that of config.json.

    Here and below, `values` are its content with `DEFAULTS`.
    """
    if values.get("model_type") != "marian":
        raise ValueError(f"model_type is {values.get('model_type')!r}, expected 'marian'")
    if reasons := list(wrong_types(values, DEFAULTS)) or list(_unsupported(values)):
        raise ValueError("; ".join(reasons))


def _unsupported(values: Json) -> Iterator[str]:
    if "MarianMTModel" not in values["architectures"]:
        yield f"architectures is {values['architectures']}, expected ['MarianMTModel']"
    for name in SAME_IN_BOTH_STACKS:
        encoder, decoder = values[f"encoder_{name}"], values[f"decoder_{name}"]
        if encoder != decoder:
            yield f"encoder_{name} is {encoder} but decoder_{name} is {decoder}, expected the same"
    if (function := values["activation_function"]) not in ACTIVATIONS:
        yield f"activation_function is {function!r}, expected one of {', '.join(ACTIVATIONS)}"


def to_model_config(values: Json) -> TransformerConfig:
    """Returns our model config, without output bias, of values that passed `check_architecture`.

    Raises ValueError for sizes that do not fit together, and for impossible dropout rates.
    """
    tied = "all" if values["share_encoder_decoder_embeddings"] else "target"
    return TransformerConfig(
        **{ours: type(DEFAULTS[theirs])(values[theirs]) for ours, theirs in FIELDS.items()},
        norm_epsilon=NORM_EPSILON,
        positions="sinusoidal_half_split",
        activation=ACTIVATIONS[values["activation_function"]],
        tie_embeddings=tied if values["tie_word_embeddings"] else "none",
    )


def vocabulary_sizes(values: Json) -> tuple[int, int]:
    """Returns the sizes of source and target vocabulary."""
    source = values["vocab_size"]
    shared = values["share_encoder_decoder_embeddings"]
    return source, source if shared else values.get("decoder_vocab_size", source)


def check_can_be_marian(config: TransformerConfig) -> None:
    """Raises ValueError, with every reason, unless MarianMTModel can be this model."""
    width = config.d_model // config.num_heads
    activations = [name for name in get_args(Activation) if name in ACTIVATIONS.values()]
    of_width = f"{width} (model.d_model / model.num_heads)"
    table = (  # field, value, supported values, the same in words
        ("norm", config.norm, ("post",), "post"),
        ("norm_type", config.norm_type, ("layer",), "layer"),
        ("positions", config.positions, ("sinusoidal", "sinusoidal_half_split"), "sinusoidal"),
        ("activation", config.activation, activations, " or ".join(activations)),
        ("num_kv_heads", config.kv_heads, (config.num_heads,), f"{config.num_heads} (all heads)"),
        ("key_width", config.head_widths[0], (width,), of_width),
        ("value_width", config.head_widths[1], (width,), of_width),
        ("local_window", config.local_window, (0,), "0 (all positions)"),
    )
    reasons = [
        f"model.{name} {value}, only {expected}"
        for name, value, supported, expected in table
        if value not in supported
    ]
    if config.d_model % config.num_heads:
        reasons.append(
            f"model.d_model {config.d_model}, no multiple of model.num_heads {config.num_heads}"
        )
    if config.norm_epsilon > NORM_EPSILON:  # less gives nearly the same
        reasons.append(f"model.norm_epsilon {config.norm_epsilon}, at most {NORM_EPSILON}")
    if reasons:
        raise ValueError("a Marian model cannot have " + "; ".join(reasons))


def to_config_json(
    config: TransformerConfig, source: Vocabulary, target: Vocabulary, *, max_positions: int
) -> dict[str, Any]:
    """Returns the content of config.json for a model that passed `check_can_be_marian`."""
    values = {theirs: getattr(config, ours) for ours, theirs in FIELDS.items()}
    return {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "is_encoder_decoder": True,
        **values,
        **{f"decoder_{name}": values[f"encoder_{name}"] for name in SAME_IN_BOTH_STACKS},
        "encoder_layerdrop": 0.0,
        "decoder_layerdrop": 0.0,
        "vocab_size": source.size,
        "decoder_vocab_size": target.size,
        "activation_function": next(k for k, v in ACTIVATIONS.items() if v == config.activation),
        "share_encoder_decoder_embeddings": config.tie_embeddings == "all",
        "tie_word_embeddings": config.tie_embeddings != "none",
        "max_position_embeddings": max_positions,
        "pad_token_id": target.pad_id,
        "eos_token_id": target.eos_id,
        "forced_eos_token_id": target.eos_id,
        "decoder_start_token_id": target.bos_id,
        "dtype": "float32",
    }
