"""Import and export of models: `python -m flaxformer_mt.convert`."""

import contextlib
import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro
from upath import UPath

from flaxformer_mt import __version__
from flaxformer_mt.cli import command
from flaxformer_mt.data.sources.files import missing_file
from flaxformer_mt.interop import Format, Quantization
from flaxformer_mt.runtime.command import exit_process, quote
from flaxformer_mt.storage.paths import (
    AnyPath,
    as_path,
    contains,
    local_folder,
    new_folder,
    replace_folder,
)

if TYPE_CHECKING:
    from flaxformer_mt.checkpoints.loading import LoadedModel

MARKER = "flaxformer_mt.json"  # in every export: a later export may replace it


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConvertArguments:
    """Import a model from another toolkit, or export one to it.

    Import: --from marian --input DIR --workdir DIR
    Export: --to marian|ctranslate2 --workdir DIR --output DIR

    marian: a directory of Hugging Face's MarianMTModel and MarianTokenizer (OPUS-MT). The workdir
    searches as `generate` does with the model's generation config (`translate` also splits lines
    into sentences and copies unknown words), and you can train it further:
    python -m flaxformer_mt.train --config WORKDIR/config.json --workdir WORKDIR ...
    ctranslate2: a model directory of CTranslate2.
    """

    workdir: str
    """Directory of our model: to write (--from) or to read (--to)."""
    from_: Annotated[Literal["marian"] | None, tyro.conf.arg(name="from")] = None
    """Import a model of this format."""
    to: Format | None = None
    """Export to this format."""
    input: str = ""
    """--from: directory of the model to import."""
    output: str = ""
    """--to: directory to write. It appears when the export is complete."""
    allow_pickle: bool = False
    """--from: read pytorch_model.bin if there is no model.safetensors. Pickles can contain code;
    only tensors are read (torch.load, weights_only)."""
    overwrite: bool = False
    """Replace the directory that is written, whatever it contains. An earlier export is always
    replaced."""
    checkpoint: str = "auto"
    """--to: which parameters: averaged, best, last, or the number of a step; auto is the first of
    averaged, best and last that exists."""
    quantization: Quantization = "float32"
    """--to ctranslate2: how to store the weights."""
    verify: str = ""
    """--to: verify the export. Translate this UTF-8 file, one sentence a line, with the workdir and
    with the export, and write verification.json into the output. If the translations differ too
    much, the command fails, and keeps the export in OUTPUT.failed."""
    reference: str = ""
    """UTF-8 file with the reference translation of each line of --verify, for BLEU and chrF."""
    verify_beam_size: int = 5
    """Beam size of both searches of --verify."""
    verify_length_penalty: float = 1.0
    """Length penalty alpha of both searches of --verify: log-probability / tokens ** alpha."""

    def __post_init__(self) -> None:
        if (self.from_ is None) == (self.to is None):
            raise ValueError("give one of --from and --to")
        if bool(self.input) != bool(self.from_):
            raise ValueError("--from goes with --input DIR, and --input with --from")
        if bool(self.output) != bool(self.to):
            raise ValueError("--to goes with --output DIR, and --output with --to")
        if self.quantization != "float32" and self.to != "ctranslate2":
            raise ValueError(f"--quantization {self.quantization} needs --to ctranslate2")
        if self.verify and not self.to:
            raise ValueError("--verify compares an export with the workdir: it needs --to")
        if self.from_ and self.checkpoint != "auto":
            raise ValueError("--checkpoint chooses the parameters of an export: it needs --to")
        if self.to and self.allow_pickle:
            raise ValueError("--allow-pickle reads a model of another toolkit: it needs --from")
        if self.reference and not self.verify:
            raise ValueError("--reference belongs to the file of --verify: give both")


def convert(arguments: ConvertArguments) -> None:
    """Imports or exports a model."""
    if arguments.from_:
        import_model(arguments)
    else:
        export_model(arguments)


def import_model(arguments: ConvertArguments) -> None:
    """Writes a workdir with a model from another toolkit."""
    workdir = as_path(arguments.workdir)
    check_target(workdir, "--workdir", overwrite=arguments.overwrite, source=arguments.input)

    from flaxformer_mt.interop.marian.convert import read_marian
    from flaxformer_mt.interop.workdir import write_workdir
    from flaxformer_mt.runtime.workdir_lock import LOCK_FILE, own_workdir

    in_use = (workdir / LOCK_FILE).exists()  # maybe: a run may be training there
    with own_workdir(workdir) if in_use else contextlib.nullcontext():
        loaded = read_marian(local_folder(arguments.input), allow_pickle=arguments.allow_pickle)
        with new_folder(workdir, publish) as directory:
            write_workdir(directory, loaded)
    print(
        f"{workdir}: {describe(loaded)}. Try:\n  {quote(sys.executable)} -m "
        f"flaxformer_mt.translate --workdir {quote(workdir)} < text"
    )


def export_model(arguments: ConvertArguments) -> None:
    """Writes the model of a workdir for another toolkit, and verifies it with --verify."""
    output, source = as_path(arguments.output), arguments.workdir
    for target in (output, _failed(arguments)) if arguments.verify else (output,):
        check_target(
            target, "--output", overwrite=arguments.overwrite, source=source, replaceable=MARKER
        )

    for name in filter(None, (arguments.verify, arguments.reference)):
        if not as_path(name).exists():
            raise missing_file(as_path(name))

    from flaxformer_mt.checkpoints.loading import load_model

    loaded = load_model(source, arguments.checkpoint)
    with new_folder(output, publish) as directory:
        if arguments.to == "marian":
            from flaxformer_mt.interop.marian.convert import write_marian

            write_marian(directory, loaded)
        else:
            from flaxformer_mt.interop.ctranslate2 import write_ctranslate2

            write_ctranslate2(directory, loaded, quantization=arguments.quantization)
        origin = {
            "format": arguments.to,
            "flaxformer_mt": __version__,
            "checkpoint": loaded.checkpoint,
            "quantization": arguments.quantization,
        }
        (directory / MARKER).write_text(json.dumps(origin, indent=2) + "\n", encoding="utf-8")
        if arguments.verify:
            verify(directory, loaded, arguments)
    print(f"{output}: {describe(loaded)}, for {arguments.to}")


def _failed(arguments: ConvertArguments) -> AnyPath:
    """Returns the folder for an export that failed verification."""
    output = as_path(arguments.output)
    return output.with_name(f"{output.name}.failed")


def verify(directory: Path, loaded: "LoadedModel", arguments: ConvertArguments) -> None:
    """Compares the export with the workdir. An export that fails is moved to OUTPUT.failed.

    Raises ValueError if it fails.
    """
    from flaxformer_mt.interop.verify import VerificationFailed, verify_export

    assert arguments.to
    try:
        summary = verify_export(
            directory,
            arguments.to,
            loaded,
            arguments.verify,
            exact=arguments.quantization == "float32",
            reference=arguments.reference,
            beam_size=arguments.verify_beam_size,
            length_penalty=arguments.verify_length_penalty,
        )
    except VerificationFailed as error:
        failed = _failed(arguments)
        replace_folder(directory, failed, publish)
        raise ValueError(f"{error}\nThe export failed; it is kept in {failed}") from error
    print(summary)


def check_target(
    target: AnyPath, flag: str, *, source: str, overwrite: bool = False, replaceable: str = ""
) -> None:
    """Raises OSError if `target` must not be replaced; called before any work is done.

    Allowed: no directory, an empty one, one with a file `replaceable`; with `overwrite` any. But a
    directory with content must not contain the current directory or `source`.
    """
    if target.exists() and not target.is_dir():
        raise NotADirectoryError(f"{flag} must name a directory, but {target} is a file")
    if not target.is_dir() or not any(target.iterdir()):
        return
    kept = {"the current directory": Path.cwd(), "the model to be read": as_path(source)}
    for what, inside in kept.items():
        if contains(target, inside):
            raise FileExistsError(f"{flag} {target} contains {what}: choose another one")
    if not overwrite and not (replaceable and (target / replaceable).is_file()):
        what = " and contains no earlier export" if replaceable else ""
        raise FileExistsError(
            f"{target} is not empty{what}: choose another {flag}, or give --overwrite, which "
            "deletes everything in it"
        )


def publish(directory: Path, target: UPath) -> None:
    """Copies a directory to a bucket."""
    from flaxformer_mt.checkpoints.buckets import publish_workdir  # slow

    publish_workdir(directory, target)


def describe(loaded: "LoadedModel") -> str:
    """Returns the size of a model in words."""
    import jax

    count = sum(leaf.size for leaf in jax.tree.leaves(loaded.params))
    source, target = loaded.tokenizer.source.size, loaded.tokenizer.target.size
    return f"{count:,} parameters, {source:,} source and {target:,} target tokens"


main = command("convert", ConvertArguments, convert)

if __name__ == "__main__":
    exit_process(main())
