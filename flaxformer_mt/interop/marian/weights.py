"""The tensors of a Hugging Face Marian model: files, and conversion from and to our parameters."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from flax.traverse_util import flatten_dict, unflatten_dict
from jaxtyping import Float, Int

from flaxformer_mt.data.sources.files import missing_file
from flaxformer_mt.interop.marian.table import (
    ALIASES,
    OUTPUT_BIAS,
    POSITIONS,
    axis_sizes,
    table,
)
from flaxformer_mt.model.config import TransformerConfig

Tensors = Mapping[str, Float[np.ndarray, "..."]]
WEIGHTS, PICKLE = "model.safetensors", "pytorch_model.bin"
MAX_PROBLEMS = 8


def read_tensors(directory: Path, *, allow_pickle: bool) -> Tensors:
    """Returns all tensors by name, from model.safetensors, or pytorch_model.bin if allowed.

    Raises FileNotFoundError if neither exists, ValueError for a damaged file, a pickle that is not
    allowed, or a missing library.
    """
    if (directory / WEIGHTS).is_file():
        return _read_safetensors(directory / WEIGHTS)
    if not (directory / PICKLE).is_file():
        raise missing_file(directory / WEIGHTS)
    if not allow_pickle:
        raise ValueError(
            f"{directory} has no {WEIGHTS}, only {PICKLE}, a pickle: such files can run code when "
            "they are read. If you trust its source, give --allow-pickle (needs torch)"
        )
    return _read_pickle(directory / PICKLE)


def write_tensors(file: Path, tensors: Tensors) -> None:
    """Writes a safetensors file that transformers reads. Raises OSError if it cannot."""
    library = _safetensors()
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
        more = len(problems) - MAX_PROBLEMS
        shown = problems[:MAX_PROBLEMS] + ([f"and {more} more"] if more > 0 else [])
        raise ValueError("the tensors do not fit the config:\n  " + "\n  ".join(shown))
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

    A post-norm Transformer computes the same function if the channels of the residual stream are
    permuted in every parameter with an axis D. This converts a model with the paper's positions
    (sine, cosine, sine, ...) to Marian's (all sines, then all cosines).
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


def _read_safetensors(file: Path) -> Tensors:
    library = _safetensors()
    try:
        return library.load_file(file)
    except Exception as error:  # safetensors' own error derives from Exception alone
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
