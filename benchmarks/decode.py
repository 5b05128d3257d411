"""Search, sentences/s: `python -m benchmarks.decode --workdir runs/mine --data FOLDER`.

Token ids in, token ids out, for all: no tokenizer runs. All search by the same rules
(`task.search_rules`), so that they find the same but for ties and rounding; the table tells how
often the others found what ours float32 found.
"""

import dataclasses
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from benchmarks import limits
from benchmarks.child import Child, num_cpus
from benchmarks.rounds import Entry, Settings, alternate, installed, pin, ready, say
from benchmarks.table import Row, make_rows, publish
from benchmarks.task import Size, Text, trained, use_cpu, write_sentences
from flaxformer_mt.cli import guard, parse_arguments

if TYPE_CHECKING:
    from flaxformer_mt.training.checkpoint import LoadedModel

OURS = "benchmarks.contenders.ours:Decoding"
PYTORCH = "benchmarks.contenders.pytorch:Decoding"
ENGINE = "benchmarks.contenders.engine:Decoding"
NEEDS = {
    "ours": (),
    "marian": ("torch", "transformers", "safetensors"),
    "ctranslate2": ("ctranslate2",),
}
FIRST = 100
"""Sentences after which nothing should be compiled any more."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class DecodeArguments(Settings, Text):
    """How fast ours translates, Hugging Face's `generate`, and CTranslate2."""

    workdir: tuple[str, ...] = ()
    """Trained models that Marian and CTranslate2 can hold too; none = train one, once."""
    size: Size = "small"
    """Which model to train, if none is given."""
    train_steps: int = 1000
    """For how many updates."""
    contenders: tuple[Literal["ours", "marian", "ctranslate2"], ...] = (
        "ours",
        "marian",
        "ctranslate2",
    )
    """Who; marian is Hugging Face's `generate`. What is not installed is left out."""
    dtypes: tuple[Literal["float32", "bfloat16"], ...] = ("float32",)
    """Precision of ours and of Hugging Face."""
    engine_types: tuple[str, ...] = ("float32", "int8")
    """Compute types of CTranslate2."""
    workers: tuple[int, ...] = (0,)
    """CTranslate2: batches at once, among which the cores are divided; 0 = one a core."""
    beam: tuple[int, ...] = (1, 5)
    """Beam sizes; 1 is greedy search."""
    batch: tuple[int, ...] = (64,)
    """Sentences that are searched together."""
    sentences: int = 1000
    """Of the test file, and at most 16 batches."""
    lengths: tuple[int, ...] = ()
    """Then translate one batch with the largest beam to exactly so many tokens, such as 32 64 128
    256: the cost against length."""


def main(args: list[str] | None = None) -> int:
    """Exit status."""

    def parse_and_measure() -> None:
        measure(parse_arguments(DecodeArguments, args, verb="decode", package="benchmarks"))

    return guard(parse_and_measure)


def measure(arguments: DecodeArguments) -> None:
    """Tables for each model."""
    pin(arguments.cpus)
    use_cpu()
    workdirs = arguments.workdir or [
        str(trained(arguments.size, arguments.data_config(), arguments.train_steps))
    ]
    for workdir in workdirs:
        with tempfile.TemporaryDirectory(prefix="benchmark-") as directory:
            measure_model(workdir, arguments, Path(directory))


def measure_model(workdir: str, arguments: DecodeArguments, directory: Path) -> None:
    """Exports the model, starts the contenders, goes through the cases."""
    from flaxformer_mt.data.pipeline import read_pairs
    from flaxformer_mt.training.checkpoint import load_model

    loaded = load_model(workdir)
    data = arguments.data_config()
    pairs = read_pairs(data, data.test)[: arguments.sentences]
    sources = [loaded.tokenizer.source.tokenize(pair.source) for pair in pairs]
    longest = loaded.config.data.max_source_length
    sources = [source for source in sources if 1 < len(source) <= longest]
    write_sentences(directory / "sentences.json", sources)
    sizes = loaded.config.model
    model = f"{sizes.d_model} wide, {sizes.num_encoder_layers}+{sizes.num_decoder_layers} layers"
    entries = [*limits.ENTRIES, *contenders(arguments, loaded, workdir, directory)]
    with ready(entries, directory, arguments) as children:
        machine = [child for child in children if child.name.startswith("limits")]
        others = [child for child in children if child not in machine]
        peaks = limits.take_best(alternate(machine, arguments))
        for beam_size in arguments.beam:
            for batch in arguments.batch:
                case = Case(f"{model}, beam {beam_size}, batch {batch}", beam_size, batch)
                count = min(len(sources), 16 * batch)
                rows = measure_case(case, count, others, arguments, loaded, sources, peaks)
                publish(rows, arguments)
        for length in arguments.lengths:
            beam_size, batch = max(arguments.beam), max(arguments.batch)
            name = f"{model}, beam {beam_size}, batch {batch}, {length} tokens each"
            case = Case(name, beam_size, batch, length)
            count = min(len(sources), batch)
            rows = measure_case(case, count, others, arguments, loaded, sources, peaks)
            publish(rows, arguments)


@dataclasses.dataclass(frozen=True)
class Case:
    """What all are asked."""

    name: str
    beam_size: int
    batch: int
    length: int = 0
    """Tokens of each translation; 0 = as the model ends."""


def measure_case(
    case: Case,
    count: int,
    children: Sequence[Child],
    arguments: DecodeArguments,
    loaded: "LoadedModel",
    sources: Sequence[Sequence[int]],
    peaks: Mapping[str, float],
) -> list[Row]:
    """Warms everyone up, compares what they find, and measures."""
    request = {"beam_size": case.beam_size, "batch": case.batch, "length": case.length}
    say(case.name)
    first = {child.name: child.ask(count=min(FIRST, count), **request) for child in children}
    warm = {child.name: child.ask(count=count, **request) for child in children}
    samples = alternate(children, arguments, count=count, **request)
    found = {
        name: without_end(answer["outputs"], loaded.tokenizer.target.eos_id)
        for name, answer in warm.items()
    }
    one = "ours float32" if "ours float32" in found else next(iter(found))
    tokens = {name: sum(len(tokens) + 1 for tokens in of_all) for name, of_all in found.items()}
    details = {}
    for name, sample in samples.items():
        same = sum(a == b for a, b in zip(found[name], found[one], strict=True)) / count
        speed = count / statistics.median(answer["seconds"] for answer in sample.answers)
        later = warm[name].get("compilations", 0) + sum(
            answer.get("compilations", 0) for answer in sample.answers
        )
        details[name] = {
            "ms a sentence": 1000 / speed,
            "tokens/s": tokens[name] / count * speed,
            "found the same": f"{same:.1%}",
            "compiled later": later,
        }
    return make_rows(
        samples,
        count,
        facts=first,
        settings=arguments,
        limits={
            name: count / least_seconds(case, name, loaded, sources[:count], found[name], peaks)
            for name in samples
        },
        details=details,
        peaks=peaks,
        benchmark="decode",
        case=case.name,
        unit="sentences/s",
    )


def without_end(outputs: Sequence[Sequence[int]], eos_id: int) -> list[list[int]]:
    """Some engines leave EOS out where the limit ended a translation."""
    return [list(tokens[:-1] if tokens[-1:] == [eos_id] else tokens) for tokens in outputs]


def least_seconds(
    case: Case,
    name: str,
    loaded: "LoadedModel",
    sources: Sequence[Sequence[int]],
    found: Sequence[Sequence[int]],
    peaks: Mapping[str, float],
) -> float:
    """How long the machine needs at best: for the products, or for reading the weights.

    Two operations for each parameter and token: those of the encoder for source tokens, those of
    the decoder and of the output for the tokens of all hypotheses. And with each token of a batch
    the decoder's parameters are read once. Attention to other tokens counts nothing.
    """
    from flaxformer_mt.inspection.costs import params_by_part

    params = params_by_part(loaded.params)
    width = loaded.config.model.d_model
    decoder = params["decoder"] + loaded.tokenizer.target.size * width
    num_sources = sum(map(len, sources))
    num_targets = sum(len(tokens) + 1 for tokens in found) * case.beam_size
    operations = 2 * (params["encoder"] * num_sources + decoder * num_targets)
    kind = "bfloat16" if "bfloat16" in name else "float32"
    lengths = sorted((len(tokens) + 1 for tokens in found), reverse=True)
    steps = sum(lengths[:: case.batch])
    bytes_each = {"bfloat16": 2, "float32": 4}[kind]
    return max(operations / peaks[kind], steps * decoder * bytes_each / peaks["bytes"])


def contenders(
    arguments: DecodeArguments, loaded: "LoadedModel", workdir: str, directory: Path
) -> list[Entry]:
    """Who shall translate, each with an export of the model."""
    from flaxformer_mt.interop.ctranslate2 import write_ctranslate2
    from flaxformer_mt.interop.marian import write_marian

    same = {"sentences": str(directory / "sentences.json")}
    found = []
    for kind in arguments.contenders:
        export = same | {"directory": str(directory / kind)}
        needs = NEEDS[kind]
        if kind == "ours":
            for dtype in arguments.dtypes:
                job = same | {"workdir": workdir, "dtype": dtype}
                found.append(Entry(f"ours {dtype}", OURS, job))
        elif kind == "marian":
            if installed(*needs):
                write_marian(directory / kind, loaded)
            for dtype in arguments.dtypes:
                found.append(Entry(f"marian {dtype}", PYTORCH, export | {"dtype": dtype}, needs))
        else:
            if installed(*needs):
                write_ctranslate2(directory / kind, loaded)
            for dtype in arguments.engine_types:
                for workers in arguments.workers:
                    job = export | {"dtype": dtype, "workers": workers}
                    number = workers or num_cpus()
                    name = f"ctranslate2 {dtype}, {number} worker{'s' * (number > 1)}"
                    found.append(Entry(name, ENGINE, job, needs))
    return found


if __name__ == "__main__":
    sys.exit(main())
