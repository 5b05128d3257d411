"""How probable a model finds given translations: `python -m flaxformer_mt.score`."""

import dataclasses
import json
import sys

from flaxformer_mt.cli import run_verb
from flaxformer_mt.lines import open_output, read_parallel


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScoreArguments:
    """How probable a model finds given translations.

    Writes one score for each pair of lines: log-probability / length penalty, the score that
    `translate` reports; less negative is more probable. With --json, one object {"source",
    "target", "score", "log_prob", "num_tokens"} for each pair.
    """

    workdir: str
    """Directory of a trained model: the --workdir of training."""
    source: str
    """UTF-8 file, one sentence a line."""
    target: str
    """UTF-8 file with a translation of each line of the source."""
    output: str = ""
    """File to write; it appears when all is scored. If not given, standard output."""
    checkpoint: str = "auto"
    """Which parameters: averaged, best, last, or the number of a step; auto is the first of
    averaged, best and last that there is."""
    length_penalty: float | None = None
    """Exponent of the length penalty; with 0 the score is the log-probability. If not given, as in
    the config."""
    json: bool = False
    """Write one JSON object for each pair."""


def main(args: list[str] | None = None) -> int:
    """The verb `score`; returns the exit status."""
    return run_verb(score, ScoreArguments, args, verb="score")


def score(arguments: ScoreArguments) -> None:
    """Read both files, then load the model, then write one line for each pair."""
    from flaxformer_mt.decoding.translator import Translator

    sources, targets = read_parallel(arguments.source, arguments.target)
    with open_output(arguments.output) as output:
        translator = Translator.load(arguments.workdir, which=arguments.checkpoint)
        scores = translator.score(sources, targets, length_penalty=arguments.length_penalty)
        for source, target, found in zip(sources, targets, scores, strict=True):
            line = f"{found.score:.6f}"
            if arguments.json:
                values = {
                    "source": source,
                    "target": target,
                    "score": found.score,
                    "log_prob": found.log_prob,
                    "num_tokens": len(found.tokens),
                }
                line = json.dumps(values, ensure_ascii=False)
            output.write(f"{line}\n".encode())


if __name__ == "__main__":
    sys.exit(main())
