"""Scores given translations with a model: `python -m flaxformer_mt.score`."""

import dataclasses
import functools
import json
from typing import TYPE_CHECKING

from flaxformer_mt.cli import (
    LineOutputArguments,
    command,
    first_process_output,
    load_translator,
)
from flaxformer_mt.runtime.command import exit_process
from flaxformer_mt.runtime.files import read_parallel
from flaxformer_mt.runtime.line_output import batch_sizes, interruptible, line_output

if TYPE_CHECKING:
    from flaxformer_mt.translation.results import PairScore

PAIRS_AT_ONCE = 16384
"""Pairs that are scored before the first score is written: enough for full batches."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScoreArguments(LineOutputArguments):
    """Score given translations with a model.

    Writes one score for each pair of lines: log-probability / length penalty, as `translate`
    reports for these tokens; less negative is more probable. (A text has several tokenizations. The
    usual one is scored; a search may have found another.)
    With --json, one object {"source", "target", "score", "log_prob", "num_tokens"} for each pair;
    with --details also "source_tokens", "tokens", "token_log_probs" and "alignment" (pairs of
    source and target token); with --decoding.flag-faults also "flags".
    """

    source: str
    """UTF-8 file, one sentence a line."""
    target: str
    """UTF-8 file with a translation of each line of the source."""


def score(arguments: ScoreArguments) -> None:
    """Runs `score`: reads both files, loads the model, and writes one line for each pair."""
    from flaxformer_mt.runtime.processes import map_over_processes

    sources, targets = read_parallel(arguments.source, arguments.target)
    path = first_process_output(arguments.output)
    with interruptible() as run, line_output(path, resume=arguments.resume) as output:
        translator = load_translator(arguments)

        def score_part(mine: slice) -> list["PairScore"]:
            of_input = slice(output.num_done + mine.start, output.num_done + mine.stop)
            return translator.score(
                sources[of_input],
                targets[of_input],
                target_language=arguments.target_language or None,
                length_penalty=arguments.length_penalty,
                details=arguments.details or arguments.attention,
                first_line=of_input.start + 1,
            )

        sizes = batch_sizes(PAIRS_AT_ONCE)
        while (count := min(next(sizes), len(sources) - output.num_done)) > 0:
            found = run(functools.partial(map_over_processes, count, score_part))
            done = slice(output.num_done, output.num_done + count)
            pairs = zip(sources[done], targets[done], found, strict=True)
            output.write([_format(*pair, arguments) for pair in pairs])


def _format(source: str, target: str, found: "PairScore", arguments: ScoreArguments) -> str:
    """Returns the output line of a pair."""
    if not arguments.json:
        return f"{found.score:.6f}"
    values = {
        "source": source,
        "target": target,
        "score": found.score,
        "log_prob": found.log_prob,
        "num_tokens": len(found.tokens),
    }
    if found.flags is not None:
        values["flags"] = [flag._asdict() for flag in found.flags]
    if found.details:
        values |= found.details.as_json(with_attention=arguments.attention)
    return json.dumps(values, ensure_ascii=False)


main = command("score", ScoreArguments, score)

if __name__ == "__main__":
    exit_process(main())
