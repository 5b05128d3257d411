"""Models in and out, for other toolkits: `python -m flaxformer_mt.convert`."""

import dataclasses
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from flaxformer_mt import __version__
from flaxformer_mt.cli import command
from flaxformer_mt.interop.quantization import Quantization
from flaxformer_mt.runtime.exit import leave

if TYPE_CHECKING:
    from flaxformer_mt.interop.verify import VerifyConfig
    from flaxformer_mt.training.checkpoint import LoadedModel

MARKER = "flaxformer_mt.json"
"""In every export, so that the next one may take its place."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConvertArguments:
    """Take a model in from another toolkit, or write one for another.

    In:  --from marian --input DIR --workdir DIR
    Out: --to marian|ctranslate2 --workdir DIR --output DIR

    marian: a directory as Hugging Face's MarianMTModel and MarianTokenizer have it (OPUS-MT). The
    workdir translates as `generate` does with the model's generation config, and can be trained
    on: python -m flaxformer_mt.train --config WORKDIR/config.json --workdir WORKDIR ...
    ctranslate2: a model directory of that engine.
    """

    workdir: str
    """Directory of our model: to write (--from) or to read (--to)."""
    from_: Annotated[Literal["marian"] | None, tyro.conf.arg(name="from")] = None
    """Take in a model of this kind."""
    to: Literal["marian", "ctranslate2"] | None = None
    """Write a model of this kind."""
    input: str = ""
    """--from: directory of the model to take in."""
    output: str = ""
    """--to: directory to write; it appears when all is done."""
    allow_pickle: bool = False
    """--from: read pytorch_model.bin where there is no model.safetensors. Pickles can hold code;
    only tensors are taken from it (torch.load, weights_only)."""
    overwrite: bool = False
    """Replace what is there already, whatever it is. An earlier export is always replaced."""
    checkpoint: str = "auto"
    """--to: which parameters: averaged, best, last, or the number of a step; auto is the first of
    averaged, best and last that there is."""
    quantization: Quantization = "float32"
    """--to ctranslate2: how to store the weights."""
    verify: str = ""
    """--to: prove the export: translate this UTF-8 file, one sentence a line, on both sides, and
    write verification.json into the output; an export that is not alike enough fails."""
    reference: str = ""
    """The right translation of each line of --verify, for BLEU and chrF."""
    verify_beam_size: int = 5
    """Beam of both sides in --verify."""
    verify_length_penalty: float = 1.0
    """Exponent of the length penalty of both sides in --verify."""
    min_identical: float = 0.995
    """Share of the lines of --verify that must come out the same, in an export without rounding."""
    max_bleu_difference: float = 0.3
    """How far apart the BLEU of both sides may be, in an export that rounds, with --reference."""
    min_bleu_to_workdir: float = 85.0
    """Without --reference: the BLEU that the output of an export that rounds must have against that
    of the workdir."""

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
            raise ValueError("--verify proves an export: it needs --to")
        if self.reference and not self.verify:
            raise ValueError("--reference belongs to the file of --verify: give both")
        if not 0 <= self.min_identical <= 1:
            raise ValueError(f"--min-identical is a share from 0 to 1, got {self.min_identical}")


def convert(arguments: ConvertArguments) -> None:
    """Take in or write out, as the arguments say."""
    if arguments.from_:
        take_in(arguments)
    else:
        write_out(arguments)


def take_in(arguments: ConvertArguments) -> None:
    """Make a workdir of a model from elsewhere."""
    workdir = Path(arguments.workdir)
    check_place(workdir, "--workdir", overwrite=arguments.overwrite, source=arguments.input)

    from flaxformer_mt.interop.marian.convert import read_marian
    from flaxformer_mt.interop.workdir import write_workdir

    loaded = read_marian(arguments.input, allow_pickle=arguments.allow_pickle)
    with fresh_directory(workdir) as fresh:
        write_workdir(fresh, loaded)
    print(
        f"{workdir}: {describe(loaded)}. Try:\n"
        f"  {sys.executable} -m flaxformer_mt.translate --workdir {workdir} < text"
    )


def write_out(arguments: ConvertArguments) -> None:
    """Write the model of a workdir for another toolkit, with a proof if asked for."""
    output = Path(arguments.output)
    check_place(
        output,
        "--output",
        overwrite=arguments.overwrite,
        source=arguments.workdir,
        replaceable=MARKER,
    )

    from flaxformer_mt.training.checkpoint import load_model

    loaded = load_model(arguments.workdir, arguments.checkpoint)
    with fresh_directory(output) as fresh:
        if arguments.to == "marian":
            from flaxformer_mt.interop.marian.convert import write_marian

            write_marian(fresh, loaded)
        else:
            from flaxformer_mt.interop.ctranslate2.export import write_ctranslate2

            write_ctranslate2(fresh, loaded, quantization=arguments.quantization)
        origin = {
            "format": arguments.to,
            "flaxformer_mt": __version__,
            "checkpoint": loaded.checkpoint,
            "quantization": arguments.quantization,
        }
        (fresh / MARKER).write_text(json.dumps(origin, indent=2) + "\n", encoding="utf-8")
        if arguments.verify:
            prove(fresh, loaded, arguments)
    print(f"{output}: {describe(loaded)}, for {arguments.to}")


def prove(fresh: Path, loaded: "LoadedModel", arguments: ConvertArguments) -> None:
    """Compare the export with the workdir; one that fails is kept under another name."""
    from flaxformer_mt.interop.verify import VerificationFailed, summary, verify_export

    exact = arguments.to == "marian" or arguments.quantization == "float32"
    assert arguments.to
    try:
        proof = verify_export(fresh, arguments.to, loaded, _verify_config(arguments), exact=exact)
    except VerificationFailed as error:
        failed = Path(f"{arguments.output}.failed")
        check_place(
            failed,
            "a failed export",
            overwrite=False,
            source=arguments.workdir,
            replaceable=MARKER,
        )
        move(fresh, failed)
        raise ValueError(f"{error}\nThe export was not made; to look into it: {failed}") from error
    print(summary(proof))


def _verify_config(arguments: ConvertArguments) -> "VerifyConfig":
    from flaxformer_mt.interop.verify import VerifyConfig

    return VerifyConfig(
        file=arguments.verify,
        reference=arguments.reference,
        beam_size=arguments.verify_beam_size,
        length_penalty=arguments.verify_length_penalty,
        min_identical=arguments.min_identical,
        max_bleu_difference=arguments.max_bleu_difference,
        min_bleu_to_workdir=arguments.min_bleu_to_workdir,
    )


def check_place(
    place: Path, flag: str, *, overwrite: bool, source: str, replaceable: str = ""
) -> None:
    """Raise OSError unless a directory may be made at `place`, before any time is spent.

    It may where nothing is, or an empty directory, or one with a file named `replaceable` in it;
    with `overwrite` also any other, but never one that holds the current directory or `source`.
    """
    if place.exists() and not place.is_dir():
        raise NotADirectoryError(f"{flag} must name a directory, but {place} is a file")
    if not place.is_dir() or not any(place.iterdir()):
        return
    for inside, what in (
        (Path.cwd(), "the current directory"),
        (Path(source).resolve(), "the model to be read"),
    ):
        if inside.is_relative_to(place.resolve()):
            raise FileExistsError(f"{flag} {place} holds {what}: choose another one")
    if overwrite or (replaceable and (place / replaceable).is_file()):
        return
    what = " and holds no earlier export" if replaceable else ""
    raise FileExistsError(
        f"{place} is not empty{what}: choose another {flag}, or give --overwrite, which deletes "
        "all that is in it"
    )


@contextmanager
def fresh_directory(place: Path) -> Iterator[Path]:
    """A path to make a directory at; in the end it takes the place of what is at `place`.

    So `place` is whole or as it was: if anything fails, what was made is deleted. A link stays.
    """
    place = place.resolve()
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=f"{place.name}.") as near:
        fresh = Path(near, place.name)
        yield fresh
        move(fresh, place)


def move(directory: Path, place: Path) -> None:
    """Puts a directory in the place of what is there."""
    if place.exists():
        shutil.rmtree(place)
    os.replace(directory, place)


def describe(loaded: "LoadedModel") -> str:
    """The size of a model."""
    import jax

    count = sum(leaf.size for leaf in jax.tree.leaves(loaded.params))
    source, target = loaded.tokenizer.source.size, loaded.tokenizer.target.size
    return f"{count:,} parameters, {source:,} source and {target:,} target tokens"


main = command("convert", ConvertArguments, convert)

if __name__ == "__main__":
    leave(main())
