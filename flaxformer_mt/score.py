"""The scores that a model gives to translations: `python -m flaxformer_mt.score`."""

import dataclasses
import json
from typing import TYPE_CHECKING

from flaxformer_mt.cli import (
    LineOutputArguments,
    command,
    first_process_output,
    load_translator,
)
from flaxformer_mt.runtime.command import exit_process
from flaxformer_mt.runtime.files import open_output, read_parallel

if TYPE_CHECKING:
    from flaxformer_mt.translation.results import PairScore


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScoreArguments(LineOutputArguments):
    """The score that a model gives to each translation.

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
    """Read both files, then load the model, then write one line for each pair."""
    sources, targets = read_parallel(arguments.source, arguments.target)
    with open_output(first_process_output(arguments.output)) as output:
        for source, target, found in zip(
            sources, targets, _scores(sources, targets, arguments), strict=True
        ):
            line = f"{found.score:.6f}"
            if arguments.json:
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
                line = json.dumps(values, ensure_ascii=False)
            output.write(f"{line}\n".encode())


def _scores(sources: list[str], targets: list[str], arguments: ScoreArguments) -> list["PairScore"]:
    from flaxformer_mt.runtime.processes import map_over_processes

    translator = load_translator(arguments)
    return map_over_processes(
        len(sources),
        lambda mine: translator.score(
            sources[mine],
            targets[mine],
            target_language=arguments.target_language or None,
            length_penalty=arguments.length_penalty,
            details=arguments.details or arguments.attention,
        ),
    )


main = command("score", ScoreArguments, score)

if __name__ == "__main__":
    exit_process(main())
