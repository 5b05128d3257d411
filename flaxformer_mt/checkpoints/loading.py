"""Loads the model of a workdir: what translation needs, without the optimiser's state."""

import logging
import os
from pathlib import Path
from typing import Any, NamedTuple

import jax

from flaxformer_mt.checkpoints.integrity import saved_steps
from flaxformer_mt.checkpoints.reading import (
    check_fit,
    choose_checkpoint,
    read_extras,
    read_params,
)
from flaxformer_mt.config import Config, workdir_config
from flaxformer_mt.data.tokenization.tokenizer import Tokenizer
from flaxformer_mt.kernels.choose import choose_kernels
from flaxformer_mt.model.initialization import Params, init_params
from flaxformer_mt.model.transformer import Transformer


class LoadedModel(NamedTuple):
    """A model that is ready to translate.

    Attributes:
      config: of workdir/config.json.
      tokenizer: of workdir/tokenizer.
      model: the Linen module.
      params: for `model.apply({"params": params}, ...)`; on the default device.
      checkpoint: the parameters' origin: "averaged" or the number of a step.
    """

    config: Config
    tokenizer: Tokenizer
    model: Transformer
    params: Params
    checkpoint: str


def make_model(config: Config, tokenizer: Tokenizer) -> Transformer:
    """Returns the model of a config with the vocabulary sizes of a tokenizer."""
    return Transformer(
        config.model,
        source_vocab_size=tokenizer.source.size,
        target_vocab_size=tokenizer.target.size,
        bos_id=tokenizer.target.bos_id,
        kernels=choose_kernels(config.model.kernels, jax.default_backend()),
    )


def load_model(workdir: str | os.PathLike[str], which: str = "auto") -> LoadedModel:
    """Loads config, tokenizer, model and parameters from a workdir.

    Args:
      workdir: of `flaxformer_mt.train`.
      which: "averaged", "best" (by validation), "last", or a step; "auto" is the first of these
        three that exists. A damaged checkpoint is replaced by the next candidate, with a warning,
        unless `which` is a step.

    Raises:
      FileNotFoundError: there is no such checkpoint or no workdir; the message lists what exists.
      ValueError: the parameters do not fit the model or the vocabulary of the workdir.
      OSError: the chosen checkpoint is damaged and nothing replaces it.
    """
    workdir = Path(workdir).absolute()
    config = workdir_config(str(workdir))
    path = choose_checkpoint(workdir, which)
    tokenizer = Tokenizer.load(workdir / "tokenizer")
    extras = read_extras(path)
    _check_tokenizer(path, extras["tokenizer"], workdir / "tokenizer", tokenizer.fingerprint)
    _warn_if_outdated(extras, saved_steps(workdir / "checkpoints"))
    model = make_model(config, tokenizer)
    params = read_params(path)
    expected = jax.eval_shape(lambda: init_params(model, jax.random.key(0)))
    check_fit(path, "params", expected, params)
    return LoadedModel(config, tokenizer, model, jax.device_put(params), path.name)


def _check_tokenizer(path: Path, expected: str, directory: Path, found: str) -> None:
    if found != expected:
        raise ValueError(
            f"{path} was trained with the tokenizer of fingerprint {expected}, but {directory} "
            f"holds {found}: put back the tokenizer directory of that run"
        )


def _warn_if_outdated(extras: dict[str, Any], steps: list[int]) -> None:
    """Warns about an average (only averages have "newest") that is older than the last step."""
    if "newest" in extras and steps and steps[-1] > extras["newest"]:
        logging.getLogger(__name__).warning(
            "using the average made at step %d, although training has gone on to step %d: make "
            "a new one with `python -m flaxformer_mt.average`, or choose best or last",
            *(extras["newest"], steps[-1]),
        )
