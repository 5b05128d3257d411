"""The tensors of a Hugging Face Marian model: their file, and their way into our parameter tree."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from flaxformer_mt.data.sources.text_files import missing_file
from flaxformer_mt.interop.marian import table as names
from flaxformer_mt.interop.marian.table import Row, Tensors
from flaxformer_mt.model.config import TransformerConfig
from flaxformer_mt.model.positions import sinusoids

WEIGHTS, PICKLE = "model.safetensors", "pytorch_model.bin"
INDEX = "model.safetensors.index.json"
_SHOWN = 8


def read_tensors(directory: Path, *, allow_pickle: bool) -> Tensors:
    """All tensors by name, from model.safetensors or, only if allowed to, pytorch_model.bin.

    A large model may lie in several safetensors files, with an index of them.

    Raises FileNotFoundError where there is none of these, ValueError for a damaged file, a pickle
    that is not allowed, or a library that is not installed.
    """
    if (directory / WEIGHTS).is_file():
        return _read_safetensors(directory / WEIGHTS)
    if (directory / INDEX).is_file():
        files = sorted(set(_read_index(directory / INDEX).values()))
        return {
            name: tensor
            for file in files
            for name, tensor in _read_safetensors(directory / file).items()
        }
    if not (directory / PICKLE).is_file():
        raise missing_file(directory / WEIGHTS)
    if not allow_pickle:
        raise ValueError(
            f"{directory} has no {WEIGHTS}, only {PICKLE}, a pickle: such files can run code when "
            "they are read. If you trust its makers, give --allow-pickle (needs torch)"
        )
    return _read_pickle(directory / PICKLE)


def write_tensors(file: Path, tensors: Tensors) -> None:
    """Writes a safetensors file that transformers reads."""
    _safetensors().save_file(dict(tensors), file, metadata={"format": "pt"})


def axis_sizes(config: TransformerConfig, source_size: int, target_size: int) -> dict[str, int]:
    """The size of each axis letter of the table."""
    width = config.d_model // config.num_heads
    of_model = {"D": config.d_model, "N": config.num_heads, "H": width, "F": config.d_ff}
    return {**of_model, "V": target_size, "Vs": source_size}


def to_params(
    tensors: Tensors, config: TransformerConfig, *, source_size: int, target_size: int
) -> dict[str, Any]:
    """The parameter tree, as NumPy arrays.

    Raises ValueError naming the tensors that are missing, surplus or of another shape than
    expected, that contradict each other, or that hold other positions than sinusoids.
    """
    sizes = axis_sizes(config, source_size, target_size)
    tensors = dict(tensors)
    problems = list(_check_positions(tensors, config.d_model))
    if config.tie_embeddings == "none":  # nothing reads it, unless it stands for the two
        shared = {name: tensors[names.SHARED] for name in _EITHER if names.SHARED in tensors}
        tensors = {**shared, **tensors}
        tensors.pop(names.SHARED, None)
    rows = [row for row in _table(config) if row != names.OUTPUT_BIAS or config.output_bias]
    for row in rows:
        problems += _check_row(row, tensors, names.tensor_shape(row, sizes))
    known = {name for row in rows for name in (row.theirs, *row.aliases)} | set(names.POSITIONS)
    for name in sorted(tensors.keys() - known):
        problems.append(f"{name}: expected none, found shape {tensors[name].shape}")
    if problems:
        more = [f"and {len(problems) - _SHOWN} more"] if len(problems) > _SHOWN else []
        raise ValueError(
            "the tensors do not fit the config:\n  " + "\n  ".join(problems[:_SHOWN] + more)
        )
    return names.nested(
        {row.ours: names.to_parameter(row, _pick(row, tensors), sizes) for row in rows}
    )


def to_tensors(
    params: Mapping[str, Any], config: TransformerConfig, *, source_size: int, target_size: int
) -> Tensors:
    """The tensors of a model that `marian_config.check_can_be_marian` has let through.

    Biases that it does without become zeros; interleaved sinusoids become half-split ones.
    """
    sizes = axis_sizes(config, source_size, target_size)
    channels = np.arange(config.d_model)
    if config.positions == "sinusoidal":
        channels = names.half_split_channels(config.d_model)
    leaves = {path: np.asarray(leaf, np.float32) for path, leaf in names.flat(params).items()}
    return {
        row.theirs: names.to_tensor(row, leaves.get(row.ours, _absent(row, sizes)), sizes, channels)
        for row in _table(config)
    }


_EITHER = (names.SOURCE, names.TARGET)


def _table(config: TransformerConfig) -> Iterator[Row]:
    return names.table(
        config.tie_embeddings,
        encoder_layers=config.num_encoder_layers,
        decoder_layers=config.num_decoder_layers,
    )


def _check_positions(tensors: Tensors, d_model: int) -> Iterator[str]:
    """Positions are not parameters; old checkpoints hold their sinusoids all the same."""
    for name in names.POSITIONS:
        if name not in tensors:
            continue
        found = np.asarray(tensors[name], np.float32)
        if found.ndim != 2:
            yield (
                f"{name}: expected sinusoids (sines first) of two axes, found shape {found.shape}"
            )
            continue
        expected = sinusoids(len(found), d_model, half_split=True)
        # As near as bfloat16 comes to numbers up to 1.
        if found.shape != expected.shape or not np.allclose(found, expected, atol=4e-3):
            yield f"{name}: expected sinusoids (sines first) of shape {expected.shape}"


def _check_row(row: Row, tensors: Tensors, shape: tuple[int, ...]) -> Iterator[str]:
    found = [name for name in (row.theirs, *row.aliases) if name in tensors]
    if not found:
        yield f"{row.theirs}: expected shape {shape}, found none"
    for name in found:
        tensor = tensors[name]
        if tensor.shape != shape:
            yield f"{name}: expected shape {shape}, found {tensor.shape}"
        elif not jnp.issubdtype(tensor.dtype, jnp.floating):
            yield f"{name}: expected floating-point numbers, found {tensor.dtype}"
        elif np.isnan(tensor).any():
            yield f"{name}: expected numbers, found NaN (not a number)"
        elif not np.array_equal(tensor, tensors[found[0]]):
            yield f"{name}: expected the same as {found[0]}, to which config.json ties it"


def _pick(row: Row, tensors: Tensors) -> Float[np.ndarray, "..."]:
    return next(tensors[name] for name in (row.theirs, *row.aliases) if name in tensors)


def _absent(row: Row, sizes: Mapping[str, int]) -> Float[np.ndarray, "..."]:
    """What a model without this bias would have in its place."""
    return np.zeros(names.parameter_shape(row, sizes), np.float32)


def _read_index(file: Path) -> Mapping[str, str]:
    """The name of the file that holds each tensor."""
    try:
        homes = json.loads(file.read_bytes())["weight_map"]
        return {name: str(home) for name, home in homes.items()}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f'{file}: expected {{"weight_map": {{tensor: file}}}}') from error


def _read_safetensors(file: Path) -> Tensors:
    if not file.is_file():
        raise missing_file(file)
    library = _safetensors()
    try:
        return library.load_file(file)
    except Exception as error:  # its own error type derives from Exception alone
        raise ValueError(f"{file} is damaged: {error}") from error


def _read_pickle(file: Path) -> Tensors:
    try:
        import torch  # pyright: ignore[reportMissingImports]
    except ModuleNotFoundError as error:
        raise ValueError(f"{file} needs torch: pip install torch") from error
    try:
        tensors = torch.load(file, map_location="cpu", weights_only=True)
        return {name: tensor.float().numpy() for name, tensor in tensors.items()}
    except Exception as error:  # a pickle can fail in any way
        raise ValueError(f"{file} holds something other than tensors: {error}") from error


def _safetensors() -> Any:
    try:
        import safetensors.numpy
    except ModuleNotFoundError as error:
        raise ValueError(
            "Hugging Face models are read and written by safetensors, which is not installed: "
            "pip install 'flaxformer-mt[marian]'"
        ) from error
    return safetensors.numpy
