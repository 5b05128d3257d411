"""BLEU and chrF of a model on a test set: `python -m flaxformer_mt.evaluate`."""

import dataclasses
import functools
import json
import os
from typing import TYPE_CHECKING, Literal

from flaxformer_mt.cli import (
    ModelArguments,
    command,
    first_process_output,
    load_translator,
)
from flaxformer_mt.evaluation.metrics import MetricScore, bleu, chrf, default_tokenize
from flaxformer_mt.runtime.command import exit_process
from flaxformer_mt.runtime.files import read_parallel
from flaxformer_mt.runtime.line_output import LineOutput, Run, interruptible, line_output

if TYPE_CHECKING:
    from flaxformer_mt.data.pipeline import DataConfig

LINES_AT_ONCE = 4096
"""Lines that are translated before any of them is written to --output."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluateArguments(ModelArguments):
    """BLEU and chrF of a model on a test set, by sacreBLEU, with signatures.

    Without --source and --reference, it uses the test set of the model's own config.
    With --json, one object {"lines", "checkpoint", "bleu": {"score", "signature"}, "chrf":
    {"score", "signature"}}; the checkpoint is "averaged" or the number of a step.
    """

    source: str = ""
    """UTF-8 file to translate, one sentence a line."""
    reference: str = ""
    """UTF-8 file with the reference translation of each line of the source."""
    output: str = ""
    """File to write the translations to. If not given, they are not kept."""
    resume: bool = False
    """Go on after the translations in OUTPUT.partial of an interrupted run."""
    beam_size: int | None = None
    """Hypotheses that the search keeps; 1 is greedy search. If not given, as in the config."""
    tokenize: Literal["auto", "13a", "intl", "zh", "char", "none"] = "auto"
    """How BLEU splits text into words. auto depends on --target-language, or on the language in the
    config: zh for Chinese, char for other languages without spaces (Japanese, Thai, ...), else 13a.
    none splits at spaces only."""
    lowercase: bool = False
    """Ignore case, as `sacrebleu -lc` does."""
    json: bool = False
    """Write one JSON object."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if bool(self.source) != bool(self.reference):
            raise ValueError(
                "give both --source and --reference, or neither (then the config's own test set)"
            )


def evaluate(arguments: EvaluateArguments) -> None:
    """Runs `evaluate`: translates the test set and prints its scores."""
    from flaxformer_mt.config import workdir_config

    config = workdir_config(arguments.workdir[0])
    if arguments.source:
        sources, references = read_parallel(arguments.source, arguments.reference)
    else:
        sources, references = _test_set(config.data)
    path = first_process_output(arguments.output or os.devnull)
    with interruptible() as run, line_output(path, resume=arguments.resume) as output:
        hypotheses, checkpoint = _translate(sources, arguments, output, run)
    tokenize = arguments.tokenize
    if tokenize == "auto":
        given = arguments.target_language or (arguments.source and config.data.target_language)
        languages = (given,) if given else config.data.target_languages_of("test")
        tokenize = default_tokenize(*languages)
    _print(
        bleu(hypotheses, references, tokenize=tokenize, lowercase=arguments.lowercase),
        chrf(hypotheses, references, lowercase=arguments.lowercase),
        lines=len(sources),
        checkpoint=checkpoint,
        as_json=arguments.json,
    )


def _test_set(config: "DataConfig") -> tuple[list[str], list[str]]:
    from flaxformer_mt.data.pipeline import read_pairs
    from flaxformer_mt.data.sources.corpora import CorpusConfig

    if config.test == CorpusConfig():
        raise ValueError("the model's config names no test set: give --source and --reference")
    pairs = read_pairs(config, config.test)
    return [pair.source for pair in pairs], [pair.target for pair in pairs]


def _translate(
    sources: list[str], arguments: EvaluateArguments, output: LineOutput, run: Run
) -> tuple[list[str], str]:
    """Returns the translations, and the name of the checkpoint."""
    from flaxformer_mt.runtime.processes import map_over_processes

    translator = load_translator(arguments)
    texts = list(output.earlier)

    def translate(mine: slice) -> list[str]:
        found = translator.translate(
            sources[len(texts) + mine.start : len(texts) + mine.stop],
            beam_size=arguments.beam_size,
            length_penalty=arguments.length_penalty,
            num_hypotheses=1,
            first_line=len(texts) + mine.start + 1,
            target_language=arguments.target_language or None,
        )
        return [hypotheses[0].text for hypotheses in found]

    while (count := min(LINES_AT_ONCE, len(sources) - len(texts))) > 0:
        found = run(functools.partial(map_over_processes, count, translate))
        output.write(found)
        texts += found
    return texts, translator.checkpoint


def _print(
    bleu_score: MetricScore, chrf_score: MetricScore, *, lines: int, checkpoint: str, as_json: bool
) -> None:
    from flaxformer_mt.runtime.processes import print_from_first

    if as_json:
        scores = {
            "lines": lines,
            "checkpoint": checkpoint,
            "bleu": {"score": bleu_score.value, "signature": bleu_score.signature},
            "chrf": {"score": chrf_score.value, "signature": chrf_score.signature},
        }
        print_from_first(json.dumps(scores))
    else:
        print_from_first(f"{bleu_score}\n{chrf_score}\n{lines} lines, checkpoint: {checkpoint}")


main = command("evaluate", EvaluateArguments, evaluate)

if __name__ == "__main__":
    exit_process(main())
