"""Speed of search in sentences/s: `python -m benchmarks.decode --workdir runs/mine --data FOLDER`.

Input and output are token ids: no tokenizer runs. All contenders have the same rules
(`given.search_rules`), so that they find the same except for ties and rounding. The table has the
share of translations that equal those of ours in float32.
"""

import dataclasses
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from benchmarks import limits
from benchmarks.child import Child, Entry
from benchmarks.contenders.given import write
from benchmarks.rounds import (
    Settings,
    alternate,
    ask_each,
    is_contender,
    ready,
    say,
    workplace,
)
from benchmarks.table import Row, make_rows, publish
from benchmarks.task import NEEDS, Model, export
from flaxformer_mt.checkpoints.loading import LoadedModel, load_model
from flaxformer_mt.cli import command
from flaxformer_mt.data.held_out import read_pairs
from flaxformer_mt.inspection.modules import params_by_part
from flaxformer_mt.runtime.host import num_cpus

OURS = "benchmarks.contenders.ours:Decoding"
PYTORCH = "benchmarks.contenders.pytorch:Decoding"
ENGINE = "benchmarks.contenders.engine:Decoding"
FIRST = 100
"""Sentences after which nothing should be compiled any more, or one batch if that is more."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class DecodeArguments(Settings, Model):
    """Compare the translation speed of ours, Hugging Face's `generate` and CTranslate2."""

    dtypes: tuple[Literal["float32", "bfloat16"], ...] = ("float32",)
    """Precision of ours and of Hugging Face."""
    engine_types: tuple[
        Literal["float32", "int8", "bfloat16", "int8_bfloat16", "float16", "int8_float16"], ...
    ] = ("float32", "int8")
    """Compute types of CTranslate2."""
    workers: tuple[int, ...] = (0,)
    """CTranslate2: number of workers, among which the cores are divided; 0 = one for each core."""
    beam: tuple[int, ...] = (1, 5)
    """Beam sizes; 1 is greedy search."""
    batch: tuple[int, ...] = (64,)
    """Sentences in a batch: for CTranslate2 on each worker, for ours the number of batch slots on
    each device (half of it with beam 5)."""
    sentences: int = 1000
    """Sentences of the test file, at most 16 batches."""
    lengths: tuple[int, ...] = ()
    """Also translate one batch with the largest beam to exactly this number of tokens, for each
    number, such as 32 64 128 256."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check("contenders", workers=0, beam=1, batch=1, sentences=1)
        if set(self.contenders) & {"ours", "marian"}:
            self.check("dtypes")
        if "ctranslate2" in self.contenders:
            self.check("engine_types")
        if self.lengths:
            self.check(lengths=2)


class Case(NamedTuple):
    """The task of a round."""

    beam_size: int
    batch: int
    length: int = 0
    """Tokens of each translation; 0 = the model decides."""

    def __str__(self) -> str:
        exactly = f", {self.length} tokens each" if self.length else ""
        return f"beam {self.beam_size}, batch {self.batch}{exactly}"


def measure(arguments: DecodeArguments) -> None:
    """Exports the model, starts the contenders and prints a table for each case."""
    cases = [Case(beam, batch) for beam in arguments.beam for batch in arguments.batch]
    most = max(arguments.beam), max(arguments.batch)
    cases += [Case(*most, length) for length in arguments.lengths]
    with workplace(arguments) as directory:
        workdir, data = arguments.trained(), arguments.data_config()
        loaded = load_model(workdir)
        pairs = read_pairs(data, data.test)[: arguments.sentences]
        sources = [loaded.tokenizer.source.tokenize(pair.source) for pair in pairs]
        longest = loaded.config.data.max_source_length
        sources = [source for source in sources if 1 < len(source) <= longest]
        if not sources:
            raise ValueError(
                f"{arguments.name}: no test sentence has 1 to {longest - 1} tokens and EOS"
            )
        same = {"sentences": write(directory / "sentences", sources)}
        entries = [*limits.ENTRIES, *contenders(arguments, loaded, workdir, same, directory)]
        with ready(entries, directory, arguments) as children:
            machine = [child for child in children if not is_contender(child.name)]
            peaks = limits.take_best(alternate(machine, arguments))
            others = [child for child in children if is_contender(child.name)]
            for case in cases:
                some = sources[: case.batch * (1 if case.length else 16)]
                publish(measure_case(case, others, arguments, loaded, some, peaks), arguments)


def measure_case(
    case: Case,
    children: list[Child],
    arguments: DecodeArguments,
    loaded: LoadedModel,
    sources: Sequence[Sequence[int]],
    peaks: Mapping[str, float],
) -> list[Row]:
    """Warms all contenders up, compares their translations and measures them."""
    sizes = loaded.config.model
    model = f"{sizes.d_model} wide, {sizes.num_encoder_layers}+{sizes.num_decoder_layers} layers"
    say(f"{model}, {case}")
    count, request = len(sources), case._asdict()
    at_first = min(count, max(FIRST, case.batch + 1))  # a single batch has its own program
    first = ask_each(children, count=at_first, **request)
    warm = ask_each(children, count=count, **request)
    samples = {
        name: dataclasses.replace(sample, ready=sample.ready | first[name])
        for name, sample in alternate(children, arguments, count=count, **request).items()
    }
    found = {
        name: without_end(warm[name]["outputs"], loaded.tokenizer.target.eos_id) for name in samples
    }
    one = "ours float32" if "ours float32" in found else next(iter(found))
    details = {}
    for name, sample in samples.items():
        same = sum(a == b for a, b in zip(found[name], found[one], strict=True)) / count
        speed = count / statistics.median(sample.seconds)
        details[name] = {
            "ms a sentence": 1000 / speed,
            "tokens/s": num_tokens(found[name]) / count * speed,
            "equal translations": f"{same:.1%}",
            "compiled later": sum(
                answer.get("compilations", 0) for answer in (warm[name], *sample.answers)
            ),
        }
    return make_rows(
        samples,
        count,
        settings=arguments,
        limits={
            name: count / least_seconds(case, name, loaded, sources, found[name], peaks)
            for name in samples
            if "int8" not in name  # other products and fewer bytes than those of `peaks`
        },
        details=details,
        peaks=peaks,
        benchmark="decode",
        case=f"{model}, {case}, {count:,} sentences of {arguments.name}",
        unit="sentences/s",
    )


def without_end(outputs: Sequence[Sequence[int]], eos_id: int) -> list[list[int]]:
    """Returns translations without EOS: some engines omit it at the length limit."""
    return [list(tokens[:-1] if tokens[-1:] == [eos_id] else tokens) for tokens in outputs]


def num_tokens(found: Sequence[Sequence[int]]) -> int:
    """Returns the number of tokens of all translations, EOS included."""
    return sum(len(tokens) + 1 for tokens in found)


def least_seconds(
    case: Case,
    name: str,
    loaded: LoadedModel,
    sources: Sequence[Sequence[int]],
    found: Sequence[Sequence[int]],
    peaks: Mapping[str, float],
) -> float:
    """Returns the least time of the machine: for the products, or for reading the weights.

    Each token costs two operations for each parameter that it uses. Source tokens use the encoder
    and the decoder's maps of keys and values of the source. The tokens of all hypotheses use the
    rest of the decoder and the output; these weights are read once for each step of a batch. The
    products of attention do not count.
    """
    half = "float16" in name  # bfloat16 counts as well
    kind, bytes_each = ("bfloat16", 2) if half else ("float32", 4)
    params, sizes = params_by_part(loaded.params), loaded.config.model
    of_source = sizes.num_decoder_layers * sizes.d_model * sizes.kv_heads * sum(sizes.head_widths)
    decoder = params["decoder"] - of_source + loaded.tokenizer.target.size * sizes.d_model
    in_decoder = decoder * num_tokens(found) * case.beam_size
    in_encoder = (params["encoder"] + of_source) * sum(map(len, sources))
    operations = 2 * (in_encoder + in_decoder)
    lengths = sorted((len(tokens) + 1 for tokens in found), reverse=True)
    steps = sum(lengths[:: case.batch])
    return max(operations / peaks[kind], steps * decoder * bytes_each / peaks["bytes"])


def contenders(
    arguments: DecodeArguments,
    loaded: LoadedModel,
    workdir: str,
    same: dict[str, Any],
    directory: Path,
) -> list[Entry]:
    """Returns the contenders, each with the `same` sentences and an export of the model."""
    found = []
    for kind in arguments.contenders:
        if kind == "ours":
            for dtype in arguments.dtypes:
                job = same | {"workdir": workdir, "dtype": dtype}
                found.append(Entry(f"ours {dtype}", OURS, job))
            continue
        exported = same | {"directory": export(loaded, kind, directory)}
        if kind == "marian":
            for dtype in arguments.dtypes:
                job = exported | {"dtype": dtype}
                found.append(Entry(f"marian {dtype}", PYTORCH, job, NEEDS[kind]))
        else:
            for dtype in arguments.engine_types:
                for workers in (given or num_cpus() for given in arguments.workers):
                    name = f"ctranslate2 {dtype}, {workers} worker{'s' * (workers > 1)}"
                    job = exported | {"dtype": dtype, "workers": workers}
                    found.append(Entry(name, ENGINE, job, NEEDS[kind]))
    return found


main = command("decode", DecodeArguments, measure, package="benchmarks")

if __name__ == "__main__":
    sys.exit(main())
