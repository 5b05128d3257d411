"""Export of a workdir to CTranslate2 (https://github.com/OpenNMT/CTranslate2), with its package.

    model.bin, config.json, *_vocabulary.json      the model, as CTranslate2 writes it
    source.spm, target.spm                         SentencePiece models, to tokenize and detokenize

CTranslate2 takes and returns tokens as text. It appends EOS to a source itself.
"""

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_args

import jax.numpy as jnp
import numpy as np

from flaxformer_mt.checkpoints.loading import LoadedModel
from flaxformer_mt.interop import Quantization
from flaxformer_mt.interop.ctranslate2.table import fill, set_array
from flaxformer_mt.interop.ctranslate2.vocabulary import register_vocabularies, sentencepiece_models
from flaxformer_mt.model.config import TransformerConfig
from flaxformer_mt.model.positions import distance_buckets, sinusoids

QUANTIZATIONS = get_args(Quantization)
# CTranslate2 truncates a source to 1,024 tokens by default, and then appends EOS.
MIN_POSITIONS = 1025
ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "silu": "SWISH", "geglu": "GELU", "swiglu": "SWISH"}
# Positions that are written as a table. The others are parameters, or switches of the spec.
TABLES = ("sinusoidal", "sinusoidal_half_split", "none")
POSITIONS = (*TABLES, "learned", "relative", "bucketed", "rotary")


def write_ctranslate2(
    directory: str | os.PathLike[str], loaded: LoadedModel, *, quantization: str = "float32"
) -> None:
    """Writes a model directory for `ctranslate2.Translator`.

    Args:
      directory: an empty or new directory.
      loaded: the model, from `checkpoints.loading.load_model`.
      quantization: how the weights are stored, one of `Quantization`. float32 is exact.

    Raises:
      ValueError: CTranslate2 does not support the model (the message lists every reason), the
        package ctranslate2 is missing, or bfloat16 needs torch.
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
            f"choose {quantization.replace('bfloat16', 'float16')}"
        )
    config = loaded.model.config
    if reasons := list(unsupported(config)):
        raise ValueError("CTranslate2 does not support this model: " + "; ".join(reasons))
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    if any(directory.iterdir()):
        raise FileExistsError(f"{directory} is not empty: give the name of a new directory")
    lengths = loaded.config.data.max_source_length, loaded.config.decoding.max_target_length
    spec = _make_spec(specs, config, num_positions=max(MIN_POSITIONS, *lengths))
    fill(spec, config, loaded.params)
    register_vocabularies(spec, loaded.tokenizer)
    spec.validate()
    spec.optimize(quantization=quantization)
    spec.save(str(directory))
    for name, content in sentencepiece_models(loaded.tokenizer).items():
        (directory / name).write_bytes(content)


def unsupported(config: TransformerConfig) -> Iterator[str]:
    """Yields the reasons why CTranslate2 does not support a model, one for each field."""
    if config.positions not in POSITIONS:
        yield f"model.positions is {config.positions}, expected one of {', '.join(POSITIONS)}"
    if config.local_window:
        yield (
            f"model.local_window is {config.local_window}, expected 0: every position of its "
            "encoder attends to all others"
        )
    if config.positions == "bucketed" and (moved := moved_distances(config)):
        yield (
            f"model.num_position_buckets is {config.num_position_buckets} and model.max_distance "
            f"{config.distance_limit}, with which it puts a distance of "
            f"{' or '.join(map(str, moved))} into another bucket (T5's 32 and 128 work)"
        )


def moved_distances(config: TransformerConfig) -> list[int]:
    """Returns the distances that CTranslate2 puts into another bucket than our model.

    CTranslate2 rounds down after an addition, T5 and our model before it. In float32, the results
    of some settings differ at single distances. It checks distances below twice the limit, because
    all larger ones share the last bucket.
    """
    limit = config.distance_limit
    steps = np.arange(1, 2 * limit)
    moved: set[int] = set()
    for bidirectional in (True, False):
        count = config.num_position_buckets // (2 if bidirectional else 1)
        exact = np.float32(count // 2)
        growth = np.log(steps.astype(np.float32) / exact) / np.log(np.float32(limit) / exact)
        far = (exact + growth * (np.float32(count) - exact)).astype(np.int32)
        theirs = np.where(steps < exact, steps, np.minimum(far, count - 1))
        ours = distance_buckets(
            jnp.asarray(-steps),
            num_buckets=config.num_position_buckets,
            max_distance=limit,
            bidirectional=bidirectional,
        )
        moved |= set(steps[theirs != np.asarray(ours)].tolist())
    return sorted(moved)


def _make_spec(specs: Any, config: TransformerConfig, *, num_positions: int) -> Any:
    """Returns a `TransformerSpec` with all switches and position tables, without parameters."""
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
    if config.positions in TABLES:  # without one, CTranslate2 would add its own sinusoids
        shape = num_positions, config.d_model
        half_split = config.positions == "sinusoidal_half_split"
        is_none = config.positions == "none"
        encodings = np.zeros(shape) if is_none else sinusoids(*shape, half_split=half_split)
        for stack in ("encoder", "decoder"):
            set_array(spec, f"{stack}.position_encodings.encodings", encodings.astype(np.float32))
    return spec


def _import_specs() -> Any:
    try:
        from ctranslate2 import specs
    except ImportError as error:
        raise ValueError(
            "writing CTranslate2 models needs the package ctranslate2: "
            "pip install -e '.[ctranslate2]'"
        ) from error
    return specs
