"""Checks whether a workdir belongs to this run, and what it already holds."""

import os
import shutil
import tempfile
from pathlib import Path

from flaxformer_mt.checkpoints.integrity import find_damage, saved_steps, was_saved, write_failure
from flaxformer_mt.checkpoints.reading import rank_steps, read_extras, whole_steps
from flaxformer_mt.config import CONFIG_FILE, Config, config_from_dict, differences, save_config


def make_workdir(workdir: Path) -> None:
    """Makes the directory if it does not exist; raises OSError if it is not writable."""
    if workdir.exists() and not workdir.is_dir():
        raise NotADirectoryError(f"{workdir} is a file; --workdir must name a directory")
    try:
        workdir.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=workdir).close()
    except OSError as error:
        raise write_failure("a file", workdir, error) from error


def check_workdir(
    workdir: str | os.PathLike[str], config: Config, tokenizer_fingerprint: str | None = None
) -> None:
    """Checks that this run may use `workdir`; changes nothing in it.

    The section `model` and the tokenizer define the model. Everything else (steps, data, learning
    rate, ...) may change between a stop and a resume.

    `workdir` is created if it does not exist. A fingerprint of None is not compared.

    Raises OSError if the directory is not writable, and ValueError if it holds checkpoints of
    another model; the message lists the differences.
    """
    workdir = Path(workdir).absolute()
    make_workdir(workdir)
    directory = workdir / "checkpoints"
    newest_first = (directory / str(step) for step in reversed(saved_steps(directory)))
    newest_whole = next((path for path in newest_first if not find_damage(path)), None)
    if newest_whole is None:
        return
    saved = read_extras(newest_whole)
    lines = differences(config_from_dict(saved["config"]).model, config.model, where="model")
    if tokenizer_fingerprint is not None and saved["tokenizer"] != tokenizer_fingerprint:
        lines.append(f"tokenizer: {saved['tokenizer']} -> {tokenizer_fingerprint}")
    if lines:
        raise ValueError(
            f"{workdir} holds checkpoints of another model (there -> here):\n  "
            + "\n  ".join(lines)
            + "\nChoose another --workdir, or set these back to continue with this one."
        )


def claim_workdir(
    workdir: str | os.PathLike[str], config: Config, tokenizer_fingerprint: str | None = None
) -> None:
    """Calls `check_workdir`, then writes config.json: the workdir now belongs to this run."""
    check_workdir(workdir, config, tokenizer_fingerprint)
    try:
        save_config(config, str(workdir))
    except OSError as error:
        raise write_failure("config.json", Path(workdir), error) from error


def remove_unused_tokenizer(workdir: str | os.PathLike[str]) -> None:
    """Removes a tokenizer that no checkpoint uses, so that the current text defines a new one.

    It does so only in a workdir with a config.json and without parameters. In any other directory
    a user may need the tokenizer.
    """
    workdir = Path(workdir).absolute()
    trained = was_saved(workdir) or (workdir / "averaged").exists()
    if (workdir / CONFIG_FILE).exists() and not trained:
        shutil.rmtree(workdir / "tokenizer", ignore_errors=True)


def was_validated(workdir: str | os.PathLike[str]) -> bool:
    """Returns whether a checkpoint of the run has a validation score."""
    directory = Path(workdir).absolute() / "checkpoints"
    return bool(rank_steps(directory, whole_steps(directory)))
