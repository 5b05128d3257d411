"""Translate text, line by line: `python -m flaxformer_mt.translate`."""

import dataclasses
import json
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from flaxformer_mt.model_arguments import (
    ModelArguments,
    load_translator,
    output_of_first,
    run_model_verb,
)
from flaxformer_mt.runtime.exit import leave
from flaxformer_mt.runtime.files import open_output, read_text

if TYPE_CHECKING:
    from flaxformer_mt.translation.results import Hypothesis

LINES_AT_ONCE = 4096
"""Written before the next are translated; enough of them to fill whole batches of like length."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TranslateArguments(ModelArguments):
    """Translate text, line by line.

    Each input line becomes exactly one output line, in order; a blank line stays blank.
    With --num-hypotheses N above 1, each becomes up to N lines "index ||| text ||| score", best
    first (mbr: by utility; samples: as drawn), where index counts the input lines from 0 (the
    n-best format of Moses and Marian).
    With --json, each becomes one object {"source": "...", "hypotheses": [{"text": "...",
    "score": -1.2}, ...]}; with --details each hypothesis also has "tokens", "token_log_probs",
    "alignment" (pairs of source and target token) and "confidence", and with --attention true
    "attention" (a row for each target token). A score is log-probability / length penalty.
    With --decoding.flag-faults, what looks wrong is told on standard error, or with --json in
    "flags" of each hypothesis.
    """

    input: str = ""
    """UTF-8 file to translate, one sentence a line. If not given, standard input."""
    output: str = ""
    """File to write; it appears when all is translated. If not given, standard output."""
    prefix: str = ""
    """UTF-8 file with the beginning of each translation, whose last word may go on; blank lines
    force nothing."""
    constraints: str = ""
    """UTF-8 file with the phrases that must appear in each translation, separated by tabs."""
    beam_size: int | None = None
    """Hypotheses kept while searching; 1 is greedy search. If not given, as in the config."""
    num_hypotheses: int | None = None
    """Hypotheses written for each line; of a beam search at most beam_size. If not given, as in the
    config."""
    json: bool = False
    """Write one JSON object for each input line."""
    details: bool = False
    """In JSON, tell tokens, their log-probabilities, alignment and confidence."""
    attention: bool = False
    """In JSON, tell the attention of each target token too."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.details or self.attention) and not self.json:
            raise ValueError("--details and --attention are told in JSON: add --json")


def main(args: list[str] | None = None) -> int:
    """The verb `translate`; returns the exit status."""
    return run_model_verb(translate, TranslateArguments, args, verb="translate")


def translate(arguments: TranslateArguments) -> None:
    """Read all input, then load the model, then translate: bad text is found before any work."""
    text = read_text(arguments.input)
    wishes = _read_wishes(arguments, text.lines)
    with open_output(output_of_first(arguments.output)) as output:
        separator = ""  # before each line but the first, so that the last can end as it did
        for line in _output_lines(text.lines, wishes, arguments):
            output.write(f"{separator}{line}".encode())
            separator = "\n"
        if text.final_newline and text.lines:
            output.write(b"\n")


def _read_wishes(arguments: TranslateArguments, lines: Sequence[str]) -> dict[str, list[Any]]:
    """What is asked for each line, by the names of `Translator.translate`."""
    wishes: dict[str, list[Any]] = {}
    if arguments.prefix:
        wishes["prefixes"] = _read_as_many(arguments.prefix, lines)
    if arguments.constraints:
        found = _read_as_many(arguments.constraints, lines)
        wishes["constraints"] = [line.split("\t") for line in found]
    return wishes


def _read_as_many(file: str, lines: Sequence[str]) -> list[str]:
    found = read_text(file).lines
    if len(found) != len(lines):
        raise ValueError(
            f"{file} has {len(found)} lines, but there are {len(lines)} to translate: it needs one "
            "for each, which may be blank"
        )
    return found


def _output_lines(
    lines: Sequence[str], wishes: dict[str, Any], arguments: TranslateArguments
) -> Iterator[str]:
    import jax
    from tqdm import tqdm

    from flaxformer_mt.runtime.processes import is_first, map_over_processes

    translator = load_translator(arguments)
    if wishes or arguments.into:
        translator.check(lines, **arguments.into, **wishes)  # all, before any is written
    n_best = (arguments.num_hypotheses or translator.config.num_hypotheses) > 1
    at_once = LINES_AT_ONCE * jax.process_count()
    with tqdm(total=len(lines), unit=" lines", disable=None) as bar:  # None: only on a terminal
        for start in range(0, len(lines), at_once):
            part = lines[start : start + at_once]

            def translate_part(mine: slice, start: int = start) -> list[list["Hypothesis"]]:
                mine = slice(start + mine.start, start + mine.stop)
                return translator.translate(
                    lines[mine],
                    beam_size=arguments.beam_size,
                    length_penalty=arguments.length_penalty,
                    num_hypotheses=arguments.num_hypotheses,
                    first_line=mine.start + 1,
                    **arguments.into,
                    details=arguments.details or arguments.attention,
                    **{name: of_lines[mine] for name, of_lines in wishes.items()},
                )

            results = map_over_processes(len(part), translate_part)
            for index, (source, hypotheses) in enumerate(zip(part, results, strict=True), start):
                if not arguments.json and is_first():
                    _tell_flags(index, hypotheses)
                yield from _format(index, source, hypotheses, arguments, n_best)
            bar.update(len(results))


def _tell_flags(index: int, hypotheses: Sequence["Hypothesis"]) -> None:
    for number, hypothesis in enumerate(hypotheses, start=1):
        which = f", hypothesis {number}" if len(hypotheses) > 1 else ""
        for flag in hypothesis.flags or ():
            print(f"line {index + 1}{which}: {flag.kind}: {flag.reason}", file=sys.stderr)


def _format(
    index: int,
    source: str,
    hypotheses: Sequence["Hypothesis"],
    arguments: TranslateArguments,
    n_best: bool,
) -> Iterator[str]:
    if arguments.json:
        found = [_as_json(h, with_attention=arguments.attention) for h in hypotheses]
        yield json.dumps({"source": source, "hypotheses": found}, ensure_ascii=False)
    elif n_best:
        for hypothesis in hypotheses:
            yield f"{index} ||| {hypothesis.text} ||| {hypothesis.score:.6f}"
    else:
        yield hypotheses[0].text


def _as_json(hypothesis: "Hypothesis", *, with_attention: bool) -> dict[str, Any]:
    """All that is known of a hypothesis."""
    values: dict[str, Any] = {"text": hypothesis.text, "score": hypothesis.score}
    if hypothesis.utility is not None:
        values["utility"] = hypothesis.utility
    if hypothesis.flags is not None:
        values["flags"] = [flag._asdict() for flag in hypothesis.flags]
    if hypothesis.details:
        values |= hypothesis.details.as_json(with_attention=with_attention)
    return values


if __name__ == "__main__":
    leave(main())
