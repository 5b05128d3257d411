"""BLEU and chrF of a model on a test set: `python -m flaxformer_mt.evaluate`."""

import dataclasses
import functools
import hashlib
import itertools
import json
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

from flaxformer_mt.cli import (
    WITHOUT_EFFECT,
    ModelArguments,
    command,
    first_process_output,
    load_translator,
)
from flaxformer_mt.evaluation.metrics import bleu, chrf, default_tokenize
from flaxformer_mt.runtime.command import exit_process
from flaxformer_mt.runtime.line_input import open_parallel
from flaxformer_mt.runtime.line_output import (
    LineOutput,
    Run,
    interruptible,
    line_output,
    settings_of,
)

if TYPE_CHECKING:
    from flaxformer_mt.data.pipeline import DataConfig
    from flaxformer_mt.translation.translator import Translator

LINES_AT_ONCE = 4096
"""Lines that are translated before any of them is written to --output."""

_WITHOUT_EFFECT = (*WITHOUT_EFFECT, "tokenize", "lowercase", "json")  # on the translations


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluateArguments(ModelArguments):
    """BLEU and chrF of a model on a test set, by sacreBLEU, with signatures.

    Without --source and --reference, it uses the test set of the model's own config. It translates
    as the command `translate` does: lines sentence by sentence, with copies of unknown words.
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
    from flaxformer_mt.runtime.processes import print_from_first

    config = workdir_config(arguments.workdir[0])
    pairs, digests = _test_set(arguments, config.data)
    path = first_process_output(arguments.output or os.devnull)
    tokenize = arguments.tokenize
    if tokenize == "auto":
        given = arguments.target_language or (arguments.source and config.data.target_language)
        languages = (given,) if given else config.data.target_languages_of("test")
        tokenize = default_tokenize(*languages)
    with interruptible() as run, line_output(path, resume=arguments.resume) as output:
        translator = load_translator(arguments)
        settings = settings_of(
            arguments, without=_WITHOUT_EFFECT, files=digests, model=translator.fingerprint
        )
        output.begin(settings)
        hypotheses, references = _translate(pairs, translator, arguments, output, run)
    lowercase = arguments.lowercase
    scores = {
        "bleu": bleu(hypotheses, references, tokenize=tokenize, lowercase=lowercase),
        "chrf": chrf(hypotheses, references, lowercase=lowercase),
    }
    if arguments.json:
        values: dict[str, Any] = {"lines": len(references), "checkpoint": translator.checkpoint}
        for name, one in scores.items():
            values[name] = {"score": one.value, "signature": one.signature}
        print_from_first(json.dumps(values))
    else:
        about = f"{len(references)} lines, checkpoint: {translator.checkpoint}"
        print_from_first("\n".join([*map(str, scores.values()), about]))


def _test_set(
    arguments: EvaluateArguments, config: "DataConfig"
) -> tuple[Iterator[tuple[str, str]], dict[str, str]]:
    """Returns sources with references, and hashes of the text: the given files, or the config's."""
    if arguments.source:
        source, reference = open_parallel(arguments.source, arguments.reference)
        if not source.num_lines:
            raise ValueError(f"{arguments.source} and {arguments.reference} are empty")
        digests = {"source": source.digest, "reference": reference.digest}
        return zip(source.lines(), reference.lines(), strict=True), digests
    from flaxformer_mt.data.held_out import read_pairs
    from flaxformer_mt.data.sources.corpora import CorpusConfig

    if config.test == CorpusConfig():
        raise ValueError("the model's config names no test set: give --source and --reference")
    pairs = read_pairs(config, config.test)
    digest = hashlib.blake2b(repr(pairs).encode(), digest_size=16).hexdigest()
    return ((one.source, one.target) for one in pairs), {"source": digest}


def _translate(
    pairs: Iterator[tuple[str, str]],
    translator: "Translator",
    arguments: EvaluateArguments,
    output: LineOutput,
    run: Run,
) -> tuple[list[str], list[str]]:
    """Returns the translations of the test set, those of an interrupted run too, and references."""
    from flaxformer_mt.runtime.processes import map_over_processes

    hypotheses = list(output.earlier())
    references = [target for _, target in itertools.islice(pairs, len(hypotheses))]
    while batch := list(itertools.islice(pairs, LINES_AT_ONCE)):

        def translate(
            mine: slice, batch: list[tuple[str, str]] = batch, first: int = len(hypotheses) + 1
        ) -> list[str]:
            found = translator.translate(
                [source for source, _ in batch[mine]],
                beam_size=arguments.beam_size,
                length_penalty=arguments.length_penalty,
                num_hypotheses=1,
                first_line=first + mine.start,
                target_language=arguments.target_language or None,
            )
            return [best.text for best, *_ in found]

        found = run(functools.partial(map_over_processes, len(batch), translate))
        output.write(found)
        hypotheses += found
        references += [target for _, target in batch]
    return hypotheses, references


main = command("evaluate", EvaluateArguments, evaluate)

if __name__ == "__main__":
    exit_process(main())
