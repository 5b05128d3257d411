"""Checks and prepares the workdir of a run."""

import tempfile
from pathlib import Path

from flaxformer_mt.checkpoints.buckets import is_complete
from flaxformer_mt.checkpoints.integrity import find_damage, saved_steps, was_saved, write_failure
from flaxformer_mt.checkpoints.reading import intact_steps, rank_steps, read_extras
from flaxformer_mt.config import CONFIG_FILE, Config, differences, model_from_dict
from flaxformer_mt.data.prepared.manifest import MANIFEST
from flaxformer_mt.storage.paths import AnyPath, PathLike, as_path, make_folder, remove_tree


def make_workdir(workdir: AnyPath) -> None:
    """Makes the directory if it does not exist; raises OSError if it is not writable.

    It does not check a bucket. `workdir_lock` writes to it and so detects the error.
    """
    if workdir.exists() and not workdir.is_dir():
        raise NotADirectoryError(f"{workdir} is a file; expected a directory")
    try:
        make_folder(workdir)
        if isinstance(workdir, Path):
            tempfile.TemporaryFile(dir=workdir).close()
    except OSError as error:
        raise write_failure("a file", workdir, error) from error


def check_workdir(
    workdir: PathLike, config: Config, tokenizer_fingerprint: str | None = None
) -> None:
    """Checks that this run may use `workdir`. Makes the directory, but changes no file in it.

    The section `model` of `config` and the tokenizer must be those of the checkpoints in `workdir`.
    Everything else (steps, data, learning rate, ...) may change when a run resumes. A fingerprint
    of None is not compared.

    Raises OSError if the directory is not writable, and ValueError if it holds checkpoints of
    another model; the message lists the differences.
    """
    workdir = as_path(workdir).absolute()
    make_workdir(workdir)
    if (workdir / MANIFEST).exists():
        raise ValueError(
            f"{workdir} is a prepared corpus; choose another --workdir (and keep this one as "
            "--data.prepared)"
        )
    directory = workdir / "checkpoints"
    newest_first = (directory / str(step) for step in reversed(saved_steps(directory)))
    newest_whole = next((path for path in newest_first if not find_damage(path)), None)
    if newest_whole is None:
        return
    saved = read_extras(newest_whole)
    # The fields that are not compared change speed, memory and rounding, not the model.
    speed = ("kernels", "layer_loop", "remat")
    trained = model_from_dict(saved["config"])
    lines = differences(trained, config.model, where="model", without=speed)
    if tokenizer_fingerprint is not None and saved["tokenizer"] != tokenizer_fingerprint:
        lines.append(f"tokenizer: {saved['tokenizer']} -> {tokenizer_fingerprint}")
    if lines:
        raise ValueError(
            f"{workdir} holds checkpoints of another model (saved -> given):\n  "
            + "\n  ".join(lines)
            + "\nChoose another --workdir, or restore the saved values to continue."
        )


def remove_unused_tokenizer(workdir: PathLike) -> None:
    """Removes a tokenizer that no checkpoint uses, so that the run learns one from its text.

    It does so only in a workdir that has a config.json and no parameters, because the user may need
    the tokenizer of any other directory.
    """
    workdir = as_path(workdir).absolute()
    trained = was_saved(workdir) or is_complete(workdir / "averaged")
    if (workdir / CONFIG_FILE).exists() and not trained:
        remove_tree(workdir / "tokenizer")


def was_validated(workdir: PathLike) -> bool:
    """Returns whether a checkpoint of the run has a validation score."""
    directory = as_path(workdir).absolute() / "checkpoints"
    return bool(rank_steps(directory, intact_steps(directory)))
