"""Time from a command to its first translation: `python -m benchmarks.startup --workdir runs/mine`.

Each contender is a process from start to end. "cold" has a new copy of the workdir and an empty
cache directory. "warm" is the same command again.
"""

import dataclasses
import sys
from pathlib import Path

from benchmarks.child import Entry
from benchmarks.rounds import Settings, compete, workplace
from benchmarks.table import make_rows, publish
from benchmarks.task import NEEDS, Model, export
from flaxformer_mt.checkpoints.loading import load_model
from flaxformer_mt.cli import command

COMMAND = "benchmarks.contenders.command:Command"
IMPORTS = {
    "nothing": "pass",
    "jax": "import jax",
    "ours": "import flaxformer_mt",  # its names are imported at first use
    "our Translator": "from flaxformer_mt import Translator",
}
MARIAN = """
import sys, warnings; warnings.simplefilter("ignore")
import torch
from transformers import MarianMTModel, MarianTokenizer
tokenizer = MarianTokenizer.from_pretrained(sys.argv[1])
model = MarianMTModel.from_pretrained(sys.argv[1]).eval().to(sys.argv[3])
batch = tokenizer([sys.argv[2]], return_tensors="pt").to(sys.argv[3])
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
class StartupArguments(Settings, Model):
    """Measure the time of a process from start to end: imports, and one translation."""

    sentence: str = "A man is sleeping in the garden."
    """The sentence to translate, with a beam of 5."""


def measure(arguments: StartupArguments) -> None:
    """Prints a table of imports and a table of translations."""
    imports = [
        Entry(f"import {name}", COMMAND, {"command": [sys.executable, "-c", code]})
        for name, code in IMPORTS.items()
    ]
    with workplace(arguments) as directory:
        for case, entries in (
            ("imports", imports),
            ("one sentence, beam 5", translations(arguments, directory)),
        ):
            rows = make_rows(
                compete(entries, directory, arguments),
                None,
                settings=arguments,
                benchmark="startup",
                case=case,
                unit="seconds",
            )
            publish(rows, arguments)


def translations(arguments: StartupArguments, directory: Path) -> list[Entry]:
    """Returns ours, cold and warm, and the peers."""
    workdir, sentence = arguments.trained(), arguments.sentence
    loaded = load_model(workdir)
    device = "cuda" if arguments.device == "gpu" else "cpu"
    found = []
    for kind in arguments.contenders:
        if kind == "ours":
            text = directory / "sentence.txt"
            text.write_text(sentence + "\n", encoding="utf-8")
            translate = [sys.executable, "-m", "flaxformer_mt.translate", "--workdir", "{workdir}"]
            command = [*translate, "--input", str(text), "--beam-size", "5"]
            job = {"command": command, "workdir": str(Path(workdir).absolute())}
            found += [
                Entry("ours, cold", COMMAND, job),
                Entry("ours, warm", COMMAND, job | {"warm": True}),
            ]
        else:
            code = {"marian": MARIAN, "ctranslate2": CTRANSLATE2}[kind]
            exported = export(loaded, kind, directory)
            command = [sys.executable, "-c", code, exported, sentence, device]
            found.append(Entry(kind, COMMAND, {"command": command}, NEEDS[kind]))
    return found


main = command("startup", StartupArguments, measure, package="benchmarks")

if __name__ == "__main__":
    sys.exit(main())
