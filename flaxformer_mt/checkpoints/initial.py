"""Starts a training run from the parameters and the tokenizer of another workdir."""

import os
from pathlib import Path

from flaxformer_mt.checkpoints.loading import load_model
from flaxformer_mt.config import differences, workdir_config
from flaxformer_mt.data.tokenization.tokenizer import Tokenizer
from flaxformer_mt.model.initialization import Params
from flaxformer_mt.model.transformer import Transformer

# Fields of the model's config that change training or arithmetic, but not the meaning of the
# parameters.
MAY_DIFFER = (
    *("dropout", "attention_dropout", "activation_dropout"),
    *("dtype", "layer_loop", "remat"),
)


def initial_params(
    init_from: str | os.PathLike[str], model: Transformer, tokenizer_fingerprint: str
) -> Params:
    """Returns the parameters of another workdir: its average, else its best, else its last.

    Args:
      init_from: `training.init_from`, a workdir of `flaxformer_mt.train` or `.convert`.
      model: the model of this run.
      tokenizer_fingerprint: of the tokenizer of this run.

    Raises:
      FileNotFoundError: there is no workdir, or no checkpoint in it.
      ValueError: model or tokenizer differ; the message lists the differences and a remedy.
      OSError: all checkpoints are damaged.
    """
    _check_is_workdir(init_from)
    loaded = load_model(init_from)
    lines = [
        line
        for line in differences(loaded.config.model, model.config, where="model")
        if line.split(":")[0].removeprefix("model.") not in MAY_DIFFER
    ]
    if lines:
        raise ValueError(
            f"training.init_from: {init_from} holds another model (there -> here):\n  "
            + "\n  ".join(lines)
            + f"\nSet these as they are there (--config {init_from}/config.json takes them all), "
            "or start from another workdir."
        )
    if loaded.tokenizer.fingerprint != tokenizer_fingerprint:
        raise ValueError(
            f"training.init_from: {init_from} was trained with the tokenizer of fingerprint "
            f"{loaded.tokenizer.fingerprint}, but this run has {tokenizer_fingerprint}, for which "
            "its embeddings mean nothing; train in a new --workdir, which takes over the tokenizer "
            "of the workdir that it starts from"
        )
    return loaded.params


def adopt_tokenizer(init_from: str | os.PathLike[str], workdir: str | os.PathLike[str]) -> bool:
    """Copies the tokenizer of `init_from` to a workdir without one; returns whether it did.

    Raises:
      FileNotFoundError: the copy is needed, but `init_from` is no workdir or has no tokenizer.
      ValueError: both are the same workdir, or a tokenizer is damaged.
    """
    there, here = Path(init_from), Path(workdir)
    if there.resolve() == here.resolve():
        raise ValueError(
            f"training.init_from and --workdir are both {workdir}; to go on with the training "
            "there leave out training.init_from, to start anew from its parameters choose another "
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


def _check_is_workdir(path: str | os.PathLike[str]) -> None:
    """Raises FileNotFoundError, with the name of the config field, if there is no workdir."""
    try:
        workdir_config(str(path))
    except FileNotFoundError as error:
        raise FileNotFoundError(f"training.init_from: {error}") from error
