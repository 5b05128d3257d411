"""Starting from another model: its parameters and its tokenizer, from its workdir."""

import os
from pathlib import Path

from flaxformer_mt.config import differences, workdir_config
from flaxformer_mt.data.tokenization.tokenizer import Tokenizer
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.training.checkpoint import load_model
from flaxformer_mt.training.state import Params

# Fields of the model's config that change how it is trained and computed, but not which function
# its parameters are.
MAY_DIFFER = (
    *("dropout", "attention_dropout", "activation_dropout"),
    *("dtype", "layer_loop", "remat"),
)


def start_params(
    init_from: str | os.PathLike[str], model: Transformer, tokenizer_fingerprint: str
) -> Params:
    """The parameters of another workdir: its average, else its best, else its last checkpoint.

    Args:
      init_from: `training.init_from`, a workdir of `flaxformer_mt.train` or `.convert`.
      model: that is to be trained.
      tokenizer_fingerprint: of the tokenizer that it is to be trained with.

    Raises:
      FileNotFoundError: no workdir, or no checkpoint in it.
      ValueError: of another model or tokenizer: says what differs and what to do.
      OSError: all of its checkpoints are damaged.
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
    """Copies the tokenizer of `init_from` to a workdir that has none.

    Returns:
      Whether it did.

    Raises:
      FileNotFoundError: it is needed, and `init_from` is no workdir or has no tokenizer.
      ValueError: the two are one workdir, or a tokenizer is damaged.
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
        return False  # `there` is asked for nothing: it may be gone when a run is resumed
    except FileNotFoundError:
        pass
    _check_is_workdir(there)
    Tokenizer.load(there / "tokenizer").save(here / "tokenizer")
    return True


def _check_is_workdir(path: str | os.PathLike[str]) -> None:
    """Raises FileNotFoundError if it is none, naming the field that it comes from."""
    try:
        workdir_config(str(path))
    except FileNotFoundError as error:
        raise FileNotFoundError(f"training.init_from: {error}") from error
