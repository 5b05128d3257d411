"""Loads the model of a workdir, without the optimiser's state, to translate or to train further."""

import logging
from typing import Any, NamedTuple

import jax

from flaxformer_mt.checkpoints.integrity import saved_steps
from flaxformer_mt.checkpoints.reading import check_fit, choose_checkpoint, read_extras, read_params
from flaxformer_mt.config import (
    CONFIG_FILE,
    Config,
    differences,
    model_from_dict,
    workdir_config,
)
from flaxformer_mt.data.tokenization.tokenizer import Tokenizer
from flaxformer_mt.kernels.choose import choose_kernels
from flaxformer_mt.model.initialization import Params, param_shapes
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.storage.paths import PathLike, as_path


class LoadedModel(NamedTuple):
    """A model that is ready to translate."""

    config: Config
    tokenizer: Tokenizer
    model: Transformer
    params: Params
    """For `model.apply({"params": params}, ...)`; on the default device."""
    checkpoint: str
    """The name of the checkpoint: "averaged" or a step."""


def make_model(config: Config, tokenizer: Tokenizer) -> Transformer:
    """Returns the model of a config with the vocabulary sizes of a tokenizer."""
    return Transformer(
        config.model,
        source_vocab_size=tokenizer.source.size,
        target_vocab_size=tokenizer.target.size,
        bos_id=tokenizer.target.bos_id,
        kernels=choose_kernels(config.model.kernels, jax.default_backend()),
    )


def load_model(workdir: PathLike, checkpoint: str = "auto") -> LoadedModel:
    """Loads config, tokenizer, model and parameters from a workdir.

    Args:
      workdir: a workdir of `flaxformer_mt.train`.
      checkpoint: "averaged", "best" (by validation), "last", or a step. "auto" is the first of
        "averaged", "best" and "last" that exists. Unless `checkpoint` is a step, the next candidate
        replaces a damaged checkpoint, with a warning.

    Raises FileNotFoundError if the workdir or checkpoint does not exist (the message lists existing
    ones), ValueError if the parameters do not fit the model or the vocabulary of the workdir, and
    OSError if every candidate is damaged.
    """
    workdir = as_path(workdir).absolute()
    config = workdir_config(str(workdir))
    path = choose_checkpoint(workdir, checkpoint)
    tokenizer, extras = Tokenizer.load(workdir / "tokenizer"), read_extras(path)
    if tokenizer.fingerprint != extras["tokenizer"]:
        raise ValueError(
            f"{path} was trained with the tokenizer of fingerprint {extras['tokenizer']}, but "
            f"{workdir / 'tokenizer'} has {tokenizer.fingerprint}: restore the tokenizer directory "
            "of the training run"
        )
    _warn_if_outdated(extras, saved_steps(workdir / "checkpoints"))
    trained = model_from_dict(extras["config"])
    if lines := differences(trained, config.model, where="model", without=MAY_DIFFER):
        raise ValueError(
            f"{workdir / CONFIG_FILE} describes another model than {path} (checkpoint -> file):\n  "
            + "\n  ".join(lines)
            + f"\nSet these fields of {CONFIG_FILE} to the values of the checkpoint."
        )
    model = make_model(config, tokenizer)
    params = read_params(path)
    check_fit(path, "params", param_shapes(model), params)
    return LoadedModel(config, tokenizer, model, jax.device_put(params), path.name)


def _warn_if_outdated(extras: dict[str, Any], steps: list[int]) -> None:
    """Warns if an average is older than the last step. Only averages have the key "newest"."""
    if "newest" in extras and steps and steps[-1] > extras["newest"]:
        logging.getLogger(__name__).warning(
            "using the average made at step %d, although training has continued to step %d: make "
            "a new average with `python -m flaxformer_mt.average`, or choose best or last",
            *(extras["newest"], steps[-1]),
        )


# Fields of the model's config that do not change the meaning of the parameters.
MAY_DIFFER = (
    *("dropout", "attention_dropout", "activation_dropout"),
    *("dtype", "kernels", "layer_loop", "remat"),
)


def initial_params(init_from: PathLike, model: Transformer, tokenizer_fingerprint: str) -> Params:
    """Returns the parameters of another workdir: the average, else the best, else the last ones.

    `model` and `tokenizer_fingerprint` are those of this run.

    Raises the errors of `load_model`, and ValueError if model or tokenizer differ. The message has
    the differences and a remedy.
    """
    _check_is_workdir(init_from)
    loaded = load_model(init_from)
    there = loaded.config.model
    if lines := differences(there, model.config, where="model", without=MAY_DIFFER):
        raise ValueError(
            f"training.init_from: {init_from} holds another model (there -> here):\n  "
            + "\n  ".join(lines)
            + f"\nUse the values of that model (--config {init_from}/config.json has them all), or "
            "start from another workdir."
        )
    if loaded.tokenizer.fingerprint != tokenizer_fingerprint:
        raise ValueError(
            f"training.init_from: {init_from} was trained with the tokenizer of fingerprint "
            f"{loaded.tokenizer.fingerprint}, but this run has {tokenizer_fingerprint}, so the "
            "embeddings do not fit; choose a new --workdir: it copies the tokenizer of init_from"
        )
    return loaded.params


def adopt_tokenizer(init_from: PathLike, workdir: PathLike) -> bool:
    """Copies the tokenizer of `init_from` to a workdir without one; returns whether it did.

    Raises FileNotFoundError if the copy is needed, but `init_from` is not a workdir or has no
    tokenizer. Raises ValueError if both are the same workdir, or a tokenizer is damaged.
    """
    there, here = as_path(init_from), as_path(workdir)
    if there.resolve() == here.resolve():
        raise ValueError(
            f"training.init_from and --workdir are both {workdir}; to continue this training run, "
            "leave out training.init_from; to start a new run from its parameters, choose another "
            "--workdir"
        )
    try:
        Tokenizer.load(here / "tokenizer")
        return False  # a resumed run does not need `init_from`, which may be deleted
    except FileNotFoundError:
        pass
    _check_is_workdir(there)
    Tokenizer.load(there / "tokenizer").save(here / "tokenizer")
    return True


def _check_is_workdir(path: PathLike) -> None:
    """Raises FileNotFoundError, with the name of the config field, if `path` is not a workdir."""
    try:
        workdir_config(str(path))
    except FileNotFoundError as error:
        raise FileNotFoundError(f"training.init_from: {error}") from error
