"""Converts a Hugging Face Marian config.json to our model config, and back."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar, get_args

from flaxformer_mt.data.tokenization.vocabulary import Vocabulary
from flaxformer_mt.model.config import Activation, TransformerConfig
from flaxformer_mt.storage.dataclass_json import from_dict

Json = Mapping[str, Any]
T = TypeVar("T")

NORM_EPSILON = 1e-5  # the default of torch.nn.LayerNorm; config.json has no such field
ACTIVATIONS: dict[str, Activation]
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "silu", "silu": "silu"}
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


@dataclasses.dataclass(frozen=True)
class MarianConfig:
    """The fields of config.json that define the model, with the defaults of transformers 5.x."""

    model_type: str = ""
    architectures: tuple[str, ...] = ("MarianMTModel",)
    vocab_size: int = 58101
    decoder_vocab_size: int = 0
    """0 = vocab_size."""
    max_position_embeddings: int = 1024
    encoder_layers: int = 12
    encoder_ffn_dim: int = 4096
    encoder_attention_heads: int = 16
    decoder_layers: int = 12
    decoder_ffn_dim: int = 4096
    decoder_attention_heads: int = 16
    activation_function: str = "gelu"
    d_model: int = 1024
    dropout: float = 0.1
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0
    scale_embedding: bool = False
    share_encoder_decoder_embeddings: bool = True
    tie_word_embeddings: bool = True
    decoder_start_token_id: int = 58100
    pad_token_id: int = 58100
    eos_token_id: int = 0

    @property
    def vocab_sizes(self) -> dict[str, int]:
        """The sizes of source and target vocabulary, by the name of their field."""
        own = not self.share_encoder_decoder_embeddings and self.decoder_vocab_size
        return {"vocab_size": self.vocab_size, "decoder_vocab_size": own or self.vocab_size}


def parse(kind: type[T], values: Json) -> T:
    """Returns a dataclass with the values that are its fields and are not null.

    Raises ValueError for a value of the wrong type.
    """
    names = {field.name for field in dataclasses.fields(kind)}  # pyrefly: ignore
    return from_dict(kind, {n: v for n, v in values.items() if n in names and v is not None})


def read_config(values: Json) -> MarianConfig:
    """Returns the content of config.json.

    Raises ValueError, with every reason, if our model does not support the configuration.
    """
    config = parse(MarianConfig, values)
    if reasons := list(_unsupported(config)):
        raise ValueError("; ".join(reasons))
    return config


def _unsupported(config: MarianConfig) -> Iterator[str]:
    if config.model_type != "marian":
        yield f"model_type is {config.model_type!r}, expected 'marian'"
    if "MarianMTModel" not in config.architectures:
        yield f"architectures is {list(config.architectures)}, expected ['MarianMTModel']"
    for name in SAME_IN_BOTH_STACKS:
        encoder, decoder = getattr(config, f"encoder_{name}"), getattr(config, f"decoder_{name}")
        if encoder != decoder:
            yield f"encoder_{name} is {encoder} but decoder_{name} is {decoder}, expected the same"
    if (function := config.activation_function) not in ACTIVATIONS:
        yield f"activation_function is {function!r}, expected one of {', '.join(ACTIVATIONS)}"


def to_model_config(config: MarianConfig) -> TransformerConfig:
    """Returns our model config, without output bias.

    Raises ValueError for sizes that do not fit together, and for impossible dropout rates.
    """
    tied = "all" if config.share_encoder_decoder_embeddings else "target"
    return TransformerConfig(
        **{ours: getattr(config, theirs) for ours, theirs in FIELDS.items()},
        norm_epsilon=NORM_EPSILON,
        positions="sinusoidal_half_split",
        activation=ACTIVATIONS[config.activation_function],
        tie_embeddings=tied if config.tie_word_embeddings else "none",
    )


def check_can_be_marian(config: TransformerConfig) -> None:
    """Raises ValueError, with every reason, if MarianMTModel does not support the model."""
    width = config.d_model / config.num_heads
    activations = [name for name in get_args(Activation) if name in ACTIVATIONS.values()]
    of_width = f"{width:g} (model.d_model / model.num_heads)"
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
    if config.norm_epsilon > NORM_EPSILON:  # a smaller value gives nearly the same result
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
