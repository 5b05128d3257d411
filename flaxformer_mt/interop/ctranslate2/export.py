"""Workdir -> CTranslate2 (https://github.com/OpenNMT/CTranslate2), a fast runtime on CPU and GPU.

All through its public `ctranslate2.specs`: our config makes a `TransformerSpec`, the table of
`ctranslate2_layout` fills it, and it checks, quantises and writes itself. The directory serves
alone:

    model.bin, config.json, *_vocabulary.json      CTranslate2's
    source.spm, target.spm                         SentencePiece models, to cut and to join text

CTranslate2 takes and gives tokens as text; it adds EOS to a source itself.
"""

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_args

import numpy as np

from flaxformer_mt.checkpoints.loading import LoadedModel
from flaxformer_mt.config import Config
from flaxformer_mt.interop.ctranslate2.layout import fill, set_array
from flaxformer_mt.interop.ctranslate2.limits import reasons_against
from flaxformer_mt.interop.ctranslate2.vocabulary import register_vocabularies, sentencepiece_models
from flaxformer_mt.interop.quantization import Quantization
from flaxformer_mt.model.config import TransformerConfig
from flaxformer_mt.model.positions import sinusoids

QUANTIZATIONS = get_args(Quantization)
FEWEST_POSITIONS = 1025
"""CTranslate2 cuts a source after 1,024 tokens, unless it is told otherwise, and adds EOS."""
ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "silu": "SWISH", "geglu": "GELU", "swiglu": "SWISH"}


def write_ctranslate2(
    directory: str | os.PathLike[str], loaded: LoadedModel, *, quantization: str = "float32"
) -> None:
    """Write a model directory for `ctranslate2.Translator`.

    Args:
      directory: is created; must be empty if it is there.
      loaded: the model, as `checkpoints.loading.load_model` gives it.
      quantization: how the weights are stored, one of `Quantization`; float32 is exact.

    Raises:
      ValueError: CTranslate2 cannot hold the model (gives every reason), or is not installed, or
        lacks torch for bfloat16.
      FileExistsError: the directory is not empty.
    """
    specs = _import_specs()
    if quantization not in QUANTIZATIONS:
        raise ValueError(
            f"quantization must be one of {', '.join(QUANTIZATIONS)}, got {quantization!r}"
        )
    if "bfloat16" in quantization and not find_spec("torch"):
        raise ValueError(
            f"CTranslate2 needs torch to store weights as {quantization}: pip install torch, or "
            f"take {quantization.replace('bfloat16', 'float16')}"
        )
    model_config = loaded.model.config
    if reasons := list(reasons_against(model_config)):
        raise ValueError("CTranslate2 cannot hold this model: " + "; ".join(reasons))
    directory = _empty_directory(directory)
    spec = _make_spec(specs, model_config)
    _set_positions(spec, model_config, _longest(loaded.config))
    fill(spec, model_config, loaded.params)
    register_vocabularies(spec, loaded.tokenizer)
    spec.validate()
    spec.optimize(quantization=quantization)
    spec.save(str(directory))
    for name, content in sentencepiece_models(loaded.tokenizer).items():
        (directory / name).write_bytes(content)


def _make_spec(specs: Any, config: TransformerConfig) -> Any:
    """An empty `TransformerSpec` for such a model, all its switches set."""
    key_width, value_width = config.head_widths
    switches = {
        "num_heads": config.num_heads,
        "num_heads_kv": None if config.kv_heads == config.num_heads else config.kv_heads,
        "head_dim": max(key_width, value_width),
        "pre_norm": config.norm == "pre",
        "rms_norm": config.norm_type == "rms",
        "activation": specs.common_spec.Activation[ACTIVATIONS[config.activation]],
        "ffn_glu": config.activation in ("geglu", "swiglu"),
        "relative_position": config.positions == "relative",
        "relative_attention_bias": config.positions == "bucketed",
        "rotary_dim": key_width if config.positions == "rotary" else None,
        "rotary_interleave": False,
    }
    encoder = specs.TransformerEncoderSpec(config.num_encoder_layers, **switches)
    decoder = specs.TransformerDecoderSpec(config.num_decoder_layers, **switches)
    spec = specs.TransformerSpec(encoder, decoder)
    spec.config.layer_norm_epsilon = config.norm_epsilon
    for stack in (encoder, decoder):
        stack.scale_embeddings = config.scale_embeddings
    for layer in (*encoder.layer, *decoder.layer):
        layer.self_attention.queries_scale = key_width**-0.5
        if config.positions == "bucketed":
            distance = np.int32(config.distance_limit)
            layer.self_attention.relative_attention_max_distance = distance
    for layer in decoder.layer:
        layer.attention.queries_scale = key_width**-0.5
    return spec


def _set_positions(spec: Any, config: TransformerConfig, length: int) -> None:
    """Positions as a table for both stacks: without one CTranslate2 would add sinusoids of its own.

    Learned ones are parameters, and those that work by distance have switches.
    """
    if config.positions == "none":
        encodings = np.zeros((length, config.d_model), np.float32)
    elif config.positions in ("sinusoidal", "sinusoidal_half_split"):
        half_split = config.positions == "sinusoidal_half_split"
        encodings = sinusoids(length, config.d_model, half_split=half_split)
    else:
        return
    for stack in ("encoder", "decoder"):
        set_array(spec, f"{stack}/position_encodings/encodings", encodings)


def _longest(config: Config) -> int:
    lengths = (config.data.max_source_length, config.decoding.max_target_length)
    return max(FEWEST_POSITIONS, *lengths)


def _import_specs() -> Any:
    try:
        from ctranslate2 import specs
    except ImportError as error:
        raise ValueError(
            "writing CTranslate2 models needs the package ctranslate2: "
            "pip install -e '.[ctranslate2]'"
        ) from error
    return specs


def _empty_directory(path: str | os.PathLike[str]) -> Path:
    directory = Path(path)
    directory.mkdir(parents=True, exist_ok=True)
    if any(directory.iterdir()):
        raise FileExistsError(f"{directory} is not empty: give the name of a new directory")
    return directory
