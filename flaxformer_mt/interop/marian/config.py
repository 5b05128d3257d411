"""config.json of a Hugging Face Marian model, as a model config of ours and back.

What `transformers` (5.x) takes for granted where the file says nothing is taken for granted here.
"""

from collections.abc import Iterator, Mapping
from typing import Any, get_args

from flaxformer_mt.data.tokenization.vocabulary import Vocabulary
from flaxformer_mt.model.config import TransformerConfig
from flaxformer_mt.model.layers import Activation

Json = Mapping[str, Any]

NORM_EPSILON = 1e-5  # that of every torch.nn.LayerNorm there; no field of config.json says it
ACTIVATIONS: dict[str, Activation] = {
    "relu": "relu",
    "gelu": "gelu",
    "swish": "silu",
    "silu": "silu",
}
DEFAULTS = {
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
_KINDS = {bool: "true or false", float: "a number", str: "a string", list: "a list"}


def with_defaults(values: Json, defaults: Json) -> dict[str, Any]:
    """`values` where they are given and not null, else the defaults."""
    return {**defaults, **{name: value for name, value in values.items() if value is not None}}


def misfits(values: Json, defaults: Json) -> Iterator[str]:
    """What in `values` is of another kind than its default: "d_model is '8', expected ...".

    An integer counts something, from 1 up, or is the id of a token.
    """
    for name, default in defaults.items():
        value, kind = values[name], type(default)
        if kind is int:
            least = 0 if name.endswith("_token_id") else 1
            if type(value) is not int or value < least:
                yield f"{name} is {value!r}, expected an integer of at least {least}"
        elif type(value) is not kind and not (kind is float and type(value) is int):
            yield f"{name} is {value!r}, expected {_KINDS[kind]}"


def check_architecture(values: Json) -> None:
    """Raise ValueError, with every reason, unless config.json is of a model that ours can be.

    Here and below, `values` are its content with `DEFAULTS` where it says nothing.
    """
    if values.get("model_type") != "marian":
        raise ValueError(f"model_type is {values.get('model_type')!r}, expected 'marian'")
    if reasons := list(misfits(values, DEFAULTS)) or list(_reasons_against_theirs(values)):
        raise ValueError("; ".join(reasons))


def _reasons_against_theirs(values: Json) -> Iterator[str]:
    if "MarianMTModel" not in values["architectures"]:
        yield f"architectures is {values['architectures']}, expected ['MarianMTModel']"
    for name in ("attention_heads", "ffn_dim"):
        encoder, decoder = values[f"encoder_{name}"], values[f"decoder_{name}"]
        if encoder != decoder:
            yield (
                f"encoder_{name} is {encoder} but decoder_{name} is {decoder}: here encoder and "
                "decoder have the same"
            )
    width, heads = values["d_model"], values["encoder_attention_heads"]
    if width % heads:
        yield f"d_model is {width}, expected a multiple of encoder_attention_heads ({heads})"
    if width % 2:
        yield f"d_model is {width}, expected an even number: positions are sines and cosines"
    for name in ("dropout", "attention_dropout", "activation_dropout"):
        if not 0 <= values[name] < 1:
            yield f"{name} is {values[name]}, expected at least 0 and less than 1"
    if values["activation_function"] not in ACTIVATIONS:
        yield (
            f"activation_function is {values['activation_function']!r}, expected one of "
            f"{', '.join(ACTIVATIONS)}"
        )


def to_model_config(values: Json, *, output_bias: bool) -> TransformerConfig:
    """Our model config, of values that `check_architecture` has let through."""
    tied = "all" if values["share_encoder_decoder_embeddings"] else "target"
    return TransformerConfig(
        d_model=values["d_model"],
        d_ff=values["encoder_ffn_dim"],
        num_heads=values["encoder_attention_heads"],
        num_encoder_layers=values["encoder_layers"],
        num_decoder_layers=values["decoder_layers"],
        norm_epsilon=NORM_EPSILON,
        positions="sinusoidal_half_split",
        activation=ACTIVATIONS[values["activation_function"]],
        tie_embeddings=tied if values["tie_word_embeddings"] else "none",
        scale_embeddings=values["scale_embedding"],
        output_bias=output_bias,
        dropout=float(values["dropout"]),
        attention_dropout=float(values["attention_dropout"]),
        activation_dropout=float(values["activation_dropout"]),
    )


def vocabulary_sizes(values: Json) -> tuple[int, int]:
    """(source, target), as config.json gives them."""
    source = values["vocab_size"]
    if values["share_encoder_decoder_embeddings"]:
        return source, source
    return source, values.get("decoder_vocab_size", source)


def check_can_be_marian(config: TransformerConfig) -> None:
    """Raise ValueError, with every reason by its field, if MarianMTModel cannot be this model."""
    if reasons := list(_reasons_against_ours(config)):
        raise ValueError("a Marian model cannot have " + "; ".join(reasons))


def _reasons_against_ours(config: TransformerConfig) -> Iterator[str]:
    even = config.d_model // config.num_heads
    width = f"{even} (model.d_model / model.num_heads)"
    activations = [name for name in get_args(Activation) if name in ACTIVATIONS.values()]
    fields = (
        ("norm", config.norm, ("post",), "post"),
        ("norm_type", config.norm_type, ("layer",), "layer"),
        ("positions", config.positions, ("sinusoidal", "sinusoidal_half_split"), "sinusoidal"),
        ("activation", config.activation, activations, " or ".join(activations)),
        ("num_kv_heads", config.kv_heads, (config.num_heads,), f"{config.num_heads} (all heads)"),
        ("key_width", config.head_widths[0], (even,), width),
        ("value_width", config.head_widths[1], (even,), width),
        ("local_window", config.local_window, (0,), "0 (all positions)"),
    )
    for name, value, possible, expected in fields:
        if value not in possible:
            yield f"model.{name} {value}, only {expected}"
    if config.d_model % config.num_heads:
        yield f"model.d_model {config.d_model}, no multiple of model.num_heads {config.num_heads}"
    if config.norm_epsilon > NORM_EPSILON:
        yield f"model.norm_epsilon {config.norm_epsilon}, only {NORM_EPSILON} (less comes near it)"


def to_config_json(
    config: TransformerConfig, source: Vocabulary, target: Vocabulary, *, max_positions: int
) -> dict[str, Any]:
    """What config.json says of our model; it must pass `check_can_be_marian`."""
    activation = next(name for name, ours in ACTIVATIONS.items() if ours == config.activation)
    sides = {}
    for side, layers in (
        ("encoder", config.num_encoder_layers),
        ("decoder", config.num_decoder_layers),
    ):
        sides |= {
            f"{side}_layers": layers,
            f"{side}_attention_heads": config.num_heads,
            f"{side}_ffn_dim": config.d_ff,
            f"{side}_layerdrop": 0.0,
        }
    return {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "is_encoder_decoder": True,
        "vocab_size": source.size,
        "decoder_vocab_size": target.size,
        "d_model": config.d_model,
        **sides,
        "activation_function": activation,
        "scale_embedding": config.scale_embeddings,
        "share_encoder_decoder_embeddings": config.tie_embeddings == "all",
        "tie_word_embeddings": config.tie_embeddings != "none",
        "max_position_embeddings": max_positions,
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "activation_dropout": config.activation_dropout,
        "pad_token_id": target.pad_id,
        "eos_token_id": target.eos_id,
        "forced_eos_token_id": target.eos_id,
        "decoder_start_token_id": target.bos_id,
        "dtype": "float32",
    }
