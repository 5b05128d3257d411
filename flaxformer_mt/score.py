"""Scores given translations with a model: `python -m flaxformer_mt.score`."""

import dataclasses
import functools
import itertools
import json
import sys
from typing import TYPE_CHECKING, Any

from flaxformer_mt.cli import (
    WITHOUT_EFFECT,
    LineOutputArguments,
    command,
    first_process_output,
    load_translator,
)
from flaxformer_mt.runtime.command import exit_process
from flaxformer_mt.runtime.line_input import open_parallel, shard_of
from flaxformer_mt.runtime.line_output import batch_sizes, interruptible, line_output, settings_of

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
    """Runs `score`: checks both files, loads the model, and writes one line for each pair."""
    from flaxformer_mt.runtime.processes import is_first, map_over_processes
    from flaxformer_mt.translation.segments import check_tags

    files = open_parallel(arguments.source, arguments.target)
    if not files[0].num_lines:
        raise ValueError(f"{arguments.source} has no lines")
    numbers = shard_of(arguments.shard, files[0].num_lines)
    path = first_process_output(arguments.output, inputs=(arguments.source, arguments.target))
    with interruptible() as run, line_output(path, resume=arguments.resume) as output:
        translator = load_translator(arguments)
        digests = {"source": files[0].digest, "target": files[1].digest}
        model = translator.fingerprint
        output.begin(settings_of(arguments, without=WITHOUT_EFFECT, files=digests, model=model))
        language = arguments.target_language or None
        sources = itertools.islice(files[0].lines(numbers.start), len(numbers))
        check_tags(sources, translator.tokenizer, language, first_line=numbers.start + 1)

        def score_part(batch: list[tuple[str, str]], first: int, mine: slice) -> list["PairScore"]:
            return translator.score(
                [source for source, _ in batch[mine]],
                [target for _, target in batch[mine]],
                target_language=language,
                details=arguments.details or arguments.attention,
                first_line=first + mine.start,
            )

        source, target = (file.lines(numbers.start + output.num_done) for file in files)
        pairs = zip(source, target, strict=True)
        sizes = batch_sizes(PAIRS_AT_ONCE)
        while count := min(next(sizes), len(numbers) - output.num_done):
            first = numbers.start + output.num_done + 1
            batch = list(itertools.islice(pairs, count))
            part = functools.partial(score_part, batch, first)
            found = run(functools.partial(map_over_processes, count, part))
            if not arguments.json and is_first():
                for number, of_pair in enumerate(found, first):
                    for flag in of_pair.flags or ():
                        print(f"line {number}: {flag.kind}: {flag.reason}", file=sys.stderr)
            output.write(
                [
                    _format(source, target, of_pair, arguments)
                    for (source, target), of_pair in zip(batch, found, strict=True)
                ]
            )


def _format(source: str, target: str, found: "PairScore", arguments: ScoreArguments) -> str:
    """Returns the output line of a pair."""
    if not arguments.json:
        return f"{found.score:.6f}"
    values: dict[str, Any] = {
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
