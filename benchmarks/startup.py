"""From the command to the first translation: `python -m benchmarks.startup --workdir runs/mine`.

Each is a process from start to end. "cold" finds nothing that an earlier run left behind: a copy of
the workdir, an empty cache directory; "warm" is the same command once more.
"""

import dataclasses
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Literal

from benchmarks.child import ROOT, Answer
from benchmarks.rounds import Entry, Settings, alternate, installed, pin, ready
from benchmarks.table import make_rows, publish
from benchmarks.task import Size, Text, trained, use_cpu
from flaxformer_mt.cli import guard, parse_arguments

IMPORTS = {"nothing": "pass", "jax": "import jax", "ours": "import flaxformer_mt"}
MARIAN = """
import sys, warnings; warnings.simplefilter("ignore")
import torch
from transformers import MarianMTModel, MarianTokenizer
tokenizer = MarianTokenizer.from_pretrained(sys.argv[1])
model = MarianMTModel.from_pretrained(sys.argv[1]).eval()
batch = tokenizer([sys.argv[2]], return_tensors="pt")
with torch.inference_mode():
    print(tokenizer.batch_decode(model.generate(**batch, num_beams=5, max_length=64)))
"""
CTRANSLATE2 = """
import sys, ctranslate2, sentencepiece
pieces = sentencepiece.SentencePieceProcessor(model_file=sys.argv[1] + "/source.spm")
translator = ctranslate2.Translator(sys.argv[1], device=sys.argv[3])
print(translator.translate_batch([pieces.encode(sys.argv[2], out_type=str)], beam_size=5))
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class StartupArguments(Settings, Text):
    """How long a process takes from its start to its end: imports, and one translation."""

    workdir: str = ""
    """A trained model; empty = train one, once."""
    size: Size = "small"
    """Which model to train, if none is given."""
    train_steps: int = 1000
    """For how many updates."""
    contenders: tuple[Literal["ours", "marian", "ctranslate2"], ...] = (
        "ours",
        "marian",
        "ctranslate2",
    )
    """Who translates. What is not installed is left out."""
    sentence: str = "A man is sleeping in the garden."
    """What to translate, with a beam of 5."""


def main(args: list[str] | None = None) -> int:
    """Exit status."""

    def parse_and_measure() -> None:
        measure(parse_arguments(StartupArguments, args, verb="startup", package="benchmarks"))

    return guard(parse_and_measure)


def measure(arguments: StartupArguments) -> None:
    """One table of imports, one of translations."""
    pin(arguments.cpus)
    use_cpu()
    size, steps = arguments.size, arguments.train_steps
    workdir = arguments.workdir or str(trained(size, arguments.data_config(), steps))
    with tempfile.TemporaryDirectory(prefix="benchmark-") as directory:
        imports = [
            Entry(f"import {name}", COMMAND, {"command": [sys.executable, "-c", code]})
            for name, code in IMPORTS.items()
        ]
        for case, entries in (
            ("imports", imports),
            ("one sentence, beam 5", translations(arguments, workdir, Path(directory))),
        ):
            with ready(entries, Path(directory), arguments) as children:
                samples = alternate(children, arguments)
            rows = make_rows(
                samples,
                None,
                facts={},
                settings=arguments,
                benchmark="startup",
                case=case,
                unit="seconds",
            )
            publish(rows, arguments)


COMMAND = "benchmarks.startup:Command"


class Command:
    """Starts a process and waits for its end."""

    def __init__(self, *, command: list[str], device: str, fresh: str = "", kept: str = "") -> None:
        """Remembers.

        Args:
          command: its words; {workdir} stands for that of ours.
          device: cpu or gpu.
          fresh: a workdir that is copied anew before each round.
          kept: a place for such a copy that stays from round to round.
        """
        del device
        self._command, self._fresh, self._kept = command, fresh, kept
        self.facts: Answer = {}
        if kept:
            self._prepare(kept)
            self.round()

    def round(self) -> Answer:
        """From start to end."""
        with tempfile.TemporaryDirectory() as scratch:
            place = self._kept or scratch
            if self._fresh and not self._kept:
                self._prepare(place)
            command = [word.replace("{workdir}", f"{place}/workdir") for word in self._command]
            environment = os.environ | {"XDG_CACHE_HOME": f"{place}/cache"}
            environment.pop("JAX_COMPILATION_CACHE_DIR", None)  # it would be warm already
            start = time.perf_counter()
            subprocess.run(command, check=True, cwd=ROOT, env=environment, stdout=sys.stderr)
            seconds = time.perf_counter() - start
        unit = 1 if sys.platform == "darwin" else 1024
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * unit
        return {"seconds": seconds, "peak_memory": peak}

    def _prepare(self, place: str) -> None:
        shutil.copytree(self._fresh, f"{place}/workdir")


def translations(arguments: StartupArguments, workdir: str, directory: Path) -> list[Entry]:
    """Ours, cold and warm, and the peers."""
    from flaxformer_mt.interop.ctranslate2 import write_ctranslate2
    from flaxformer_mt.interop.marian import write_marian
    from flaxformer_mt.training.checkpoint import load_model

    text = directory / "sentence.txt"
    text.write_text(arguments.sentence + "\n", encoding="utf-8")
    loaded = load_model(workdir)
    translate = [sys.executable, "-m", "flaxformer_mt.translate", "--workdir", "{workdir}"]
    job: dict[str, Any] = {
        "command": [*translate, "--input", str(text), "--beam-size", "5"],
        "fresh": str(Path(workdir).absolute()),
    }
    found = []
    if "ours" in arguments.contenders:
        found.append(Entry("ours, cold", COMMAND, job))
        found.append(Entry("ours, warm", COMMAND, job | {"kept": str(directory / "kept")}))
    device = "cuda" if arguments.device == "gpu" else "cpu"
    for name, write, code, needs in (
        ("marian", write_marian, MARIAN, ("torch", "transformers", "safetensors")),
        ("ctranslate2", write_ctranslate2, CTRANSLATE2, ("ctranslate2",)),
    ):
        if name not in arguments.contenders:
            continue
        export = directory / name
        if installed(*needs):
            write(export, loaded)
        command = [sys.executable, "-c", code, str(export), arguments.sentence, device]
        found.append(Entry(name, COMMAND, {"command": command}, needs))
    return found


if __name__ == "__main__":
    sys.exit(main())
