"""The tensors of a Hugging Face Marian model: table, files, and conversion in both directions.

Letters of the axes: D model width, N heads, H head width, F feed-forward width, V and Vs target and
source vocabulary.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from flax.traverse_util import flatten_dict, unflatten_dict
from jaxtyping import Float, Int

from flaxformer_mt.data.sources.files import missing_file
from flaxformer_mt.interop import optional
from flaxformer_mt.interop.parameter_table import Row, layer_rows, linear, norm
from flaxformer_mt.model.config import TransformerConfig

Tensors = Mapping[str, Float[np.ndarray, "..."]]
WEIGHTS, PICKLE = "model.safetensors", "pytorch_model.bin"
EXTRA = "flaxformer-mt[marian]"
MAX_PROBLEMS = 8


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
# {tensor: other names for it}, which a checkpoint may have instead or in addition.
ALIASES = {  # by tie_embeddings
    "all": {SHARED: (SOURCE, TARGET, OUTPUT)},
    "target": {TARGET: (OUTPUT,)},
    "none": {SOURCE: (SHARED,), TARGET: (SHARED,)},
}
OUTPUT_BIAS = Row("logits_bias", "V", "final_logits_bias", "1 V")
# Old checkpoints store sinusoids, which are not read, because MarianMTModel computes them.
POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")


def table(config: TransformerConfig) -> Iterator[Row]:
    """Yields the rows of a whole model, including the output bias."""
    yield from EMBEDDINGS[config.tie_embeddings]
    yield OUTPUT_BIAS
    yield from layer_rows(config, ENCODER_LAYER, DECODER_LAYER, "model.{side}.layers.{i}")


def axis_sizes(config: TransformerConfig, source_size: int, target_size: int) -> dict[str, int]:
    """Returns the size of each axis letter, given the vocabulary sizes."""
    heads, width = config.num_heads, config.d_model // config.num_heads
    sizes = {"D": config.d_model, "N": heads, "H": width, "F": config.d_ff}
    return sizes | {"V": target_size, "Vs": source_size}


def read_tensors(directory: Path, *, allow_pickle: bool) -> Tensors:
    """Returns all tensors by name, from model.safetensors, or pytorch_model.bin if allowed.

    Raises FileNotFoundError if neither exists, and ValueError for a damaged file, a pickle that is
    not allowed, or a missing library.
    """
    if (file := directory / WEIGHTS).is_file():
        library = optional("safetensors.numpy", EXTRA, str(file))
        try:
            return library.load_file(file)
        except Exception as error:  # safetensors' own error derives from Exception alone
            raise ValueError(f"{file} is damaged: {error}") from error
    if not (directory / PICKLE).is_file():
        raise missing_file(directory / WEIGHTS)
    if not allow_pickle:
        raise ValueError(
            f"{directory} has no {WEIGHTS}, only {PICKLE}, a pickle: such files can run code when "
            "they are read. If you trust its source, give --allow-pickle (needs torch)"
        )
    torch = optional("torch", "torch", str(directory / PICKLE))
    try:
        tensors = torch.load(directory / PICKLE, map_location="cpu", weights_only=True)
        return {name: tensor.float().numpy() for name, tensor in tensors.items()}
    except Exception as error:  # a pickle can fail in any way
        raise ValueError(
            f"{directory / PICKLE} is damaged, or holds something other than tensors: {error}"
        ) from error


def write_tensors(file: Path, tensors: Tensors) -> None:
    """Writes a safetensors file that transformers reads. Raises OSError if it cannot."""
    library = optional("safetensors.numpy", EXTRA, str(file))
    try:
        library.save_file(dict(tensors), file, metadata={"format": "pt"})
    except Exception as error:  # safetensors' own error derives from Exception alone
        raise OSError(
            f"could not write {file}: {error}. Free some space there, or choose another disk"
        ) from error


def to_params(
    tensors: Tensors, config: TransformerConfig, *, source_size: int, target_size: int
) -> dict[str, Any]:
    """Returns the parameter tree as NumPy arrays.

    Raises ValueError with the names of tensors that are missing or surplus, have a wrong shape or
    type, or differ from a tensor to which they are tied.
    """
    sizes = axis_sizes(config, source_size, target_size)
    aliases = ALIASES[config.tie_embeddings]
    rows = [row for row in table(config) if row != OUTPUT_BIAS or config.output_bias]
    names = {row.ours: (row.theirs, *aliases.get(row.theirs, ())) for row in rows}
    surplus = set(tensors).difference(POSITIONS, *names.values())
    problems: list[str] = []
    params = {}
    for row in rows:
        found = [name for name in names[row.ours] if name in tensors]
        if config.tie_embeddings == "none":  # the shared matrix is unused and may differ
            found = found[:1]
        wrong = list(_check_tensors(tensors, found or [row.theirs], row.tensor_shape(sizes)))
        problems += wrong
        if not wrong:
            params[row.ours] = row.to_parameter(tensors[found[0]], sizes)
    problems += [f"{n}: expected none, found shape {tensors[n].shape}" for n in sorted(surplus)]
    if problems:
        shown = "\n  ".join(problems[:MAX_PROBLEMS])
        raise ValueError(f"{len(problems)} tensors do not fit the config:\n  {shown}")
    return unflatten_dict(params, sep="/")


def to_tensors(
    params: Mapping[str, Any], config: TransformerConfig, *, source_size: int, target_size: int
) -> Tensors:
    """Returns the tensors of a model that passed `config.check_can_be_marian`.

    A missing bias becomes zeros. Interleaved sinusoids become half-split.
    """
    sizes = axis_sizes(config, source_size, target_size)
    channels = np.arange(config.d_model)
    if config.positions == "sinusoidal":
        channels = half_split_channels(config.d_model)
    leaves = {name: np.asarray(x, np.float32) for name, x in flatten_dict(params, sep="/").items()}
    tensors = {}
    for row in table(config):
        axes, shape = row.axes.split(), row.parameter_shape(sizes)
        parameter = leaves[row.ours] if row.ours in leaves else np.zeros(shape, np.float32)
        if "D" in axes:
            parameter = parameter.take(channels, axis=axes.index("D"))
        tensors[row.theirs] = row.to_tensor(parameter, sizes)
    return tensors


def half_split_channels(d_model: int) -> Int[np.ndarray, " D"]:
    """Returns the channels of interleaved sinusoids in half-split order: 0, 2, 4, ... 1, 3, 5, ...

    A post-norm model computes the same if the channels are permuted in every parameter with an axis
    D. This converts the paper's positions (sine, cosine, ...) to Marian's (all sines first).
    """
    return np.concatenate([np.arange(0, d_model, 2), np.arange(1, d_model, 2)])


def _check_tensors(tensors: Tensors, names: list[str], shape: tuple[int, ...]) -> Iterator[str]:
    """Yields the problems of tensors that must be equal and have this shape."""
    for name in names:
        tensor = tensors.get(name)
        if tensor is None:
            yield f"{name}: expected shape {shape}, found none"
        elif tensor.shape != shape:
            yield f"{name}: expected shape {shape}, found {tensor.shape}"
        elif not jnp.issubdtype(tensor.dtype, jnp.floating):
            yield f"{name}: expected floating-point numbers, found {tensor.dtype}"
        elif np.isnan(tensor).any():
            yield f"{name}: expected numbers, found NaN (not a number)"
        elif not np.array_equal(tensor, tensors[names[0]]):
            yield f"{name}: expected the same as {names[0]}, to which config.json ties it"
