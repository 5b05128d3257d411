"""Export of a workdir to CTranslate2 (https://github.com/OpenNMT/CTranslate2), with its package.

    model.bin, config.json, *_vocabulary.json      the model, as CTranslate2 writes it
    source.spm, target.spm                         SentencePiece models, to tokenize and detokenize

CTranslate2 takes and returns tokens as text. It appends EOS to each source.
"""

import json
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from flax.traverse_util import flatten_dict

from flaxformer_mt.checkpoints.loading import LoadedModel
from flaxformer_mt.data.tokenization.marian_vocabulary import MODELS, MarianVocabulary
from flaxformer_mt.data.tokenization.sentencepiece_vocabulary import SentencePieceVocabulary
from flaxformer_mt.data.tokenization.tokenizer import Tokenizer
from flaxformer_mt.data.tokenization.vocabulary import Vocabulary
from flaxformer_mt.interop import Quantization, empty_directory, optional, parameter_table
from flaxformer_mt.interop.parameter_table import Row, layer_rows, linear
from flaxformer_mt.model import layers
from flaxformer_mt.model.config import Scheme, TransformerConfig
from flaxformer_mt.model.positions import sinusoids

# CTranslate2 truncates a source to 1,024 tokens by default, and then appends EOS.
MIN_POSITIONS = 1025
ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "silu": "SWISH", "geglu": "GELU", "swiglu": "SWISH"}
POSITIONS: tuple[Scheme, ...] = (  # those of CTranslate2; a model with others is refused
    *("sinusoidal", "sinusoidal_half_split", "learned", "none"),
    *("relative", "bucketed", "rotary"),
)
T5_BUCKETS = (32, 128)
# A token with two roles gets the later name. (In Marian, padding also starts a target.)
SPECIAL = {"bos": "<s>", "pad": "<pad>", "unk": "<unk>", "eos": "</s>"}
SUPPRESSED_LOGIT = -1e4  # its probability is 0, also in float16


def write_ctranslate2(
    directory: str | os.PathLike[str],
    loaded: LoadedModel,
    *,
    quantization: Quantization = "float32",
) -> None:
    """Writes a model directory for `ctranslate2.Translator`.

    Raises ValueError if CTranslate2 does not support the model (the message lists every reason), or
    if a package is missing. Raises FileExistsError if the directory is not empty.
    """
    specs = optional("ctranslate2", "flaxformer-mt[ctranslate2]", "an export for CTranslate2").specs
    if "bfloat16" in quantization:
        optional("torch", "torch", f"{quantization} (unlike float16)")
    config = loaded.model.config
    if reasons := list(unsupported(config)):
        raise ValueError("CTranslate2 does not support this model: " + "; ".join(reasons))
    directory = empty_directory(directory)
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
    for name, supported in (("positions", POSITIONS), ("activation", ACTIVATIONS)):
        if (value := getattr(config, name)) not in supported:
            yield f"model.{name} is {value}, expected {', '.join(supported)}"
    if config.local_window:
        yield (
            f"model.local_window is {config.local_window}, expected 0: in CTranslate2, every "
            "position of the encoder attends to all others"
        )
    buckets = config.num_position_buckets, config.distance_limit
    if config.positions == "bucketed" and buckets != T5_BUCKETS:
        yield (
            f"model.num_position_buckets is {buckets[0]} and model.max_distance {buckets[1]}, "
            "expected 32 and 128 as in T5: CTranslate2 rounds other values differently"
        )


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
        "ffn_glu": layers.ACTIVATIONS[config.activation][1],
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
    shape = num_positions, config.d_model
    if config.positions == "none":  # without a table, CTranslate2 would add its own sinusoids
        encodings = np.zeros(shape)
    elif config.positions.startswith("sinusoidal"):
        encodings = sinusoids(*shape, half_split=config.positions == "sinusoidal_half_split")
    else:
        return spec
    for stack in ("encoder", "decoder"):
        set_array(spec, f"{stack}.position_encodings.encodings", encodings.astype(np.float32))
    return spec


# The table of our parameters and of the arrays in a `TransformerSpec`. Letters of the axes: D model
# width, N query heads, G key/value heads, Hk width of a query or key, Hv width of a value, F
# feed-forward width, V and Vs target and source vocabulary, R relative distances, P positions, U
# position buckets. Rows of the same array are concatenated. A model uses only the rows of its
# parameters.


def norm(ours: str, theirs: str) -> tuple[Row, Row]:
    """Returns the rows of a normalisation layer. RMSNorm has no bias."""
    return parameter_table.norm(ours, theirs, scale="gamma", bias="beta")


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
    yield from layer_rows(
        config,
        (*ENCODER_LAYER, *feed_forward),
        (*DECODER_LAYER, *feed_forward),
        "{side}.layer.{i}",
    )


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
        raise ValueError(f"CTranslate2 has no array for the parameters {', '.join(sorted(unused))}")
    for path, tensors in parts.items():
        set_array(spec, path, np.concatenate(tensors))


def set_array(spec: Any, path: str, value: np.ndarray) -> None:
    """Sets the array at a path such as "encoder.layer.0.ffn.linear_0.weight"."""
    *parents, name = path.split(".")
    for parent in parents:
        spec = spec[int(parent)] if parent.isdigit() else getattr(spec, parent)
    setattr(spec, name, value)


def register_vocabularies(spec: Any, tokenizer: Tokenizer) -> None:
    """Sets the text of every token and the names of the special tokens."""
    source, target = tokenizer.source, tokenizer.target
    names = _special_names(source, target)
    target_tokens = _token_names(target, names)
    spec.register_source_vocabulary(_token_names(source, names))
    spec.register_target_vocabulary(target_tokens)
    spec.config.unk_token, spec.config.eos_token = names["unk"], names["eos"]
    spec.config.bos_token = spec.config.decoder_start_token = target_tokens[target.bos_id]
    spec.config.add_source_eos = True
    if starts_with_padding(target):
        # In Marian, the embedding and the logit of padding are 0, while the logits of most words
        # are negative. Marian's decoders forbid padding; other engines need a bias.
        projection = spec.decoder.projection
        bias = projection.bias if projection.has_bias() else np.zeros(target.size, np.float32)
        is_padding = np.arange(target.size) == target.pad_id
        projection.bias = np.where(is_padding, np.float32(SUPPRESSED_LOGIT), bias)


def starts_with_padding(target: Vocabulary) -> bool:
    """Returns whether padding starts a target, as in Marian. An export then never generates it.

    False if padding is also EOS, which must be generated.
    """
    return target.pad_id == target.bos_id != target.eos_id


def read_pieces(directory: Path, side: Literal["source", "target"]) -> list[str]:
    """Returns the text of every token id of one side of an export."""
    file = directory / "shared_vocabulary.json"
    file = file if file.exists() else directory / f"{side}_vocabulary.json"
    return json.loads(file.read_text(encoding="utf-8"))


def sentencepiece_models(tokenizer: Tokenizer) -> dict[str, bytes]:
    """Returns {file name: SentencePiece model}. Word vocabularies have none."""
    if isinstance(tokenizer.source, MarianVocabulary):
        return {file: tokenizer.source.files[file] for file in MODELS.values()}
    sides = {file: getattr(tokenizer, side) for side, file in MODELS.items()}
    return {
        file: side.to_bytes()
        for file, side in sides.items()
        if isinstance(side, SentencePieceVocabulary)
    }


def _special_names(*vocabularies: Vocabulary) -> dict[str, str]:
    """Returns a name for each special token that no other token of either vocabulary has.

    CTranslate2 uses one name for both languages.
    """
    taken: set[str] = set()
    for vocabulary in vocabularies:
        special = {getattr(vocabulary, f"{kind}_id") for kind in SPECIAL}
        taken |= {piece for i, piece in enumerate(vocabulary.pieces) if i not in special}
    names = dict(SPECIAL)
    for kind in names:
        while names[kind] in taken:
            names[kind] = f"<{names[kind]}>"
    return names


def _token_names(vocabulary: Vocabulary, special_names: Mapping[str, str]) -> list[str]:
    names = list(vocabulary.pieces)
    for kind, name in special_names.items():
        names[getattr(vocabulary, f"{kind}_id")] = name
    return names
