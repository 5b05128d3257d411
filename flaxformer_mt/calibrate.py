"""Learn the confidence of a model on a validation set: `python -m flaxformer_mt.calibrate`."""

import dataclasses
import os
from typing import TYPE_CHECKING

from flaxformer_mt.cli import run_verb
from flaxformer_mt.runtime.command import exit_process
from flaxformer_mt.runtime.files import open_output, read_parallel

if TYPE_CHECKING:
    from flaxformer_mt.data.pipeline import DataConfig
    from flaxformer_mt.translation.translator import Translator


@dataclasses.dataclass(frozen=True, kw_only=True)
class CalibrateArguments:
    """Learn which quality goes with which probability, on sentences with references.

    Translates the validation set of the model's own config, or --source, and writes
    WORKDIR/calibration.json: from the mean log-probability of a translation's tokens to its
    expected chrF, from 0 to 1. Says how well that holds on pairs it was not fitted to.
    """

    workdir: str
    """Directory of a trained model: the --workdir of training."""
    source: str = ""
    """UTF-8 file to translate, one sentence a line."""
    target: str = ""
    """UTF-8 file with the right translation of each line of the source."""
    checkpoint: str = "auto"
    """Which parameters: averaged, best, last, or the number of a step; auto is the first of
    averaged, best and last that there is."""
    max_pairs: int = 2000
    """Use no more than so many pairs, the first ones; those with a blank side are left out."""

    def __post_init__(self) -> None:
        if bool(self.source) != bool(self.target):
            raise ValueError(
                "give both --source and --target, or neither (then the config's own validation set)"
            )
        if self.max_pairs < 1:
            raise ValueError(f"--max-pairs must be at least 1, but it is {self.max_pairs}")


def main(args: list[str] | None = None) -> int:
    """The verb `calibrate`; returns the exit status."""
    return run_verb(calibrate, CalibrateArguments, args, verb="calibrate")


def calibrate(arguments: CalibrateArguments) -> None:
    """Translate, fit, measure, write the calibration and say how good it is."""
    from flaxformer_mt.config import workdir_config
    from flaxformer_mt.evaluation.confidence import CALIBRATION_FILE, Calibration, held_out
    from flaxformer_mt.runtime.compilation_cache import keep_programs
    from flaxformer_mt.translation.translator import Translator

    keep_programs()
    config = workdir_config(arguments.workdir)
    if arguments.source:
        sources, references = read_parallel(arguments.source, arguments.target)
    else:
        sources, references = _validation_set(config.data)
    pairs = [pair for pair in zip(sources, references, strict=True) if all(map(str.strip, pair))]
    translator = Translator.load(arguments.workdir, which=arguments.checkpoint)
    token_log_probs, qualities = _measure(translator, pairs[: arguments.max_pairs])
    found = held_out(token_log_probs, qualities)
    calibration = Calibration.fit(token_log_probs, qualities, checkpoint=translator.checkpoint)
    path = os.path.join(arguments.workdir, CALIBRATION_FILE)
    with open_output(path) as output:
        output.write(calibration.to_json().encode())
    print(
        f"{path}: {len(qualities)} pairs, checkpoint: {translator.checkpoint}\n"
        f"on pairs held out, confidence against chrF / 100:\n"
        f"  correlation         {found.correlation:.3f}\n"
        f"  calibration error   {found.calibration_error:.3f}\n"
        f"  mean absolute error {found.absolute_error:.3f} (of a constant "
        f"{found.absolute_error_of_constant:.3f})"
    )


def _validation_set(config: "DataConfig") -> tuple[list[str], list[str]]:
    from flaxformer_mt.data.pipeline import read_pairs
    from flaxformer_mt.data.sources.corpora import CorpusConfig

    if config.validation == CorpusConfig():
        raise ValueError("the model's config names no validation set: give --source and --target")
    pairs = read_pairs(config, config.validation)
    return [pair.source for pair in pairs], [pair.target for pair in pairs]


def _measure(
    translator: "Translator", pairs: list[tuple[str, str]]
) -> tuple[list[list[float]], list[float]]:
    """The token log-probabilities of the best translation of each source, and its chrF / 100."""
    from sacrebleu.metrics.chrf import CHRF

    found = [
        (source, hypotheses[0], reference)
        for (source, reference), hypotheses in zip(
            pairs,
            translator.translate([source for source, _ in pairs], num_hypotheses=1),
            strict=True,
        )
        if hypotheses[0].tokens  # none of a line of characters that the tokenizer drops
    ]
    scores = translator.score(
        [source for source, _, _ in found], [hypothesis.tokens for _, hypothesis, _ in found]
    )
    chrf = CHRF()
    qualities = [
        chrf.sentence_score(hypothesis.text, [reference]).score / 100
        for _, hypothesis, reference in found
    ]
    return [score.token_log_probs for score in scores], qualities


if __name__ == "__main__":
    exit_process(main())
