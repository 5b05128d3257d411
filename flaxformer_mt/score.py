"""How probable a model finds given translations: `python -m flaxformer_mt.score`."""

import dataclasses
import json
from typing import TYPE_CHECKING

from flaxformer_mt.model_arguments import (
    ModelArguments,
    load_translator,
    output_of_first,
    run_model_verb,
)
from flaxformer_mt.runtime.exit import leave
from flaxformer_mt.runtime.files import open_output, read_parallel

if TYPE_CHECKING:
    from flaxformer_mt.translation.results import PairScore


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScoreArguments(ModelArguments):
    """How probable a model finds given translations.

    Writes one score for each pair of lines: log-probability / length penalty, the score that
    `translate` reports for these tokens; less negative is more probable. (A text can be cut into
    tokens in several ways; the usual one is scored, which a search need not have chosen.)
    With --json, one object {"source", "target", "score", "log_prob", "num_tokens"} for each pair;
    with --details also "tokens", "token_log_probs", "alignment" (pairs of source and target token)
    and "confidence"; with --decoding.flag-faults also "flags".
    """

    source: str
    """UTF-8 file, one sentence a line."""
    target: str
    """UTF-8 file with a translation of each line of the source."""
    output: str = ""
    """File to write; it appears when all is scored. If not given, standard output."""
    json: bool = False
    """Write one JSON object for each pair."""
    details: bool = False
    """In JSON, tell tokens, their log-probabilities, alignment and confidence."""
    attention: bool = False
    """In JSON, tell the attention of each target token too."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.details or self.attention) and not self.json:
            raise ValueError("--details and --attention are told in JSON: add --json")


def main(args: list[str] | None = None) -> int:
    """The verb `score`; returns the exit status."""
    return run_model_verb(score, ScoreArguments, args, verb="score")


def score(arguments: ScoreArguments) -> None:
    """Read both files, then load the model, then write one line for each pair."""
    sources, targets = read_parallel(arguments.source, arguments.target)
    with open_output(output_of_first(arguments.output)) as output:
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
            **arguments.into,
            length_penalty=arguments.length_penalty,
            details=arguments.details or arguments.attention,
        ),
    )


if __name__ == "__main__":
    leave(main())
