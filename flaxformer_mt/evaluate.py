"""BLEU and chrF of a model on a test set: `python -m flaxformer_mt.evaluate`."""

import dataclasses
import functools
import hashlib
import itertools
import json
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from flaxformer_mt.cli import (
    WITHOUT_EFFECT,
    ModelArguments,
    command,
    first_process_output,
    load_translator,
)
from flaxformer_mt.evaluation.metrics import CorpusScores, default_tokenize
from flaxformer_mt.runtime.command import exit_process
from flaxformer_mt.runtime.line_input import count_lines, open_parallel
from flaxformer_mt.runtime.line_output import (
    LineOutput,
    Run,
    interruptible,
    line_output,
    settings_of,
)
from flaxformer_mt.storage.paths import join
from flaxformer_mt.translation.config import DecodingConfig

if TYPE_CHECKING:
    from flaxformer_mt.data.config import DataConfig
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
    """How BLEU splits text into words. auto depends on the letters of the references: zh for
    Chinese, char for other languages without spaces (Japanese, Thai, ...), else 13a. none splits at
    spaces only."""
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
        if self.resume and not self.output:
            raise ValueError("--resume goes on after the lines of a file: it needs --output")

    def search_config(self, **changes: Any) -> DecodingConfig:
        """Returns the settings for one translation of each line, without flags."""
        return super().search_config(num_hypotheses=1, flag_faults=False, **changes)


def evaluate(arguments: EvaluateArguments) -> None:
    """Runs `evaluate`: translates the test set and prints its scores."""
    from flaxformer_mt.config import workdir_config
    from flaxformer_mt.translation.segments import check_tags

    config = workdir_config(arguments.workdir[0])
    test_set = _test_set(arguments, config.data)
    if not any(reference.strip() for _, reference in test_set.pairs()):
        raise ValueError(f"{test_set.name} has blank references only")
    path = first_process_output(arguments.output or os.devnull, inputs=test_set.files)
    tokenize = arguments.tokenize
    if tokenize == "auto":
        references = (reference for _, reference in test_set.pairs())
        tokenize = default_tokenize(itertools.islice(references, LINES_AT_ONCE))
    scores = CorpusScores(tokenize=tokenize, lowercase=arguments.lowercase)
    with interruptible() as run, line_output(path, resume=arguments.resume) as output:
        translator = load_translator(arguments)
        sources = (source for source, _ in test_set.pairs())
        check_tags(sources, translator.tokenizer, arguments.target_language)
        settings = settings_of(
            arguments, without=_WITHOUT_EFFECT, files=test_set.digests, model=translator.fingerprint
        )
        output.begin(settings)
        _translate(test_set, translator, arguments, output, run, scores)
        _print(scores, translator.checkpoint, as_json=arguments.json)


class EvaluationSet(NamedTuple):
    """Sentences and their translations."""

    name: str
    """Where the references are, for messages."""
    files: tuple[str, ...]
    """The files with the text, and the names of other sources."""
    pairs: Callable[[], Iterator[tuple[str, str]]]
    """Reads them from the start."""
    digests: dict[str, str]
    """Hashes of the text."""


def _test_set(arguments: EvaluateArguments, config: "DataConfig") -> EvaluationSet:
    """Returns the given files, or else the test set of the config."""
    if arguments.source:
        source, reference = open_parallel(arguments.source, arguments.reference)
        if not source.num_lines:
            raise ValueError(f"{arguments.source} has no lines")
        return EvaluationSet(
            arguments.reference,
            (arguments.source, arguments.reference),
            lambda: zip(source.lines(), reference.lines(), strict=True),
            {"source": source.digest, "reference": reference.digest},
        )
    from flaxformer_mt.data.held_out import read_pairs
    from flaxformer_mt.data.sources.corpora import CorpusConfig

    if config.test == CorpusConfig():
        raise ValueError("the model's config names no test set: give --source and --reference")
    pairs = read_pairs(config, config.test)
    digest = hashlib.blake2b(repr(pairs).encode(), digest_size=16).hexdigest()
    names = (*config.test.source, *config.test.target, *config.test.pairs)
    return EvaluationSet(
        "the test set of the model's config",
        tuple(str(join(config.directory, name)) for name in names),
        lambda: ((one.source, one.target) for one in pairs),
        {"source": digest},
    )


def _translate(
    test_set: EvaluationSet,
    translator: "Translator",
    arguments: EvaluateArguments,
    output: LineOutput,
    run: Run,
    scores: CorpusScores,
) -> None:
    """Translates the test set, and counts all lines for the scores."""
    from flaxformer_mt.runtime.processes import map_over_processes

    def translate(batch: list[tuple[str, str]], first: int, mine: slice) -> list[str]:
        found = translator.translate(
            [source for source, _ in batch[mine]],
            first_line=first + mine.start,
            target_language=arguments.target_language or None,
        )
        return [hypotheses[0].text for hypotheses in found]

    pairs, earlier = test_set.pairs(), output.earlier()
    while done := list(itertools.islice(earlier, LINES_AT_ONCE)):
        scores.add(done, [target for _, target in itertools.islice(pairs, len(done))])
    while batch := list(itertools.islice(pairs, LINES_AT_ONCE)):
        part = functools.partial(translate, batch, scores.num_lines + 1)
        found = run(functools.partial(map_over_processes, len(batch), part))
        output.write(found)
        scores.add(found, [target for _, target in batch])


def _print(scores: CorpusScores, checkpoint: str, *, as_json: bool) -> None:
    from flaxformer_mt.runtime.processes import print_from_first

    lines, (bleu, chrf) = scores.num_lines, scores.scores()
    if as_json:
        values = {
            "lines": lines,
            "checkpoint": checkpoint,
            "bleu": {"score": bleu.value, "signature": bleu.signature},
            "chrf": {"score": chrf.value, "signature": chrf.signature},
        }
        print_from_first(json.dumps(values))
    else:
        print_from_first(f"{bleu}\n{chrf}\n{count_lines(lines)}, checkpoint: {checkpoint}")


main = command("evaluate", EvaluateArguments, evaluate)

if __name__ == "__main__":
    exit_process(main())
