"""Translate text, line by line: `python -m flaxformer_mt.translate`."""

import dataclasses
import json
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from flaxformer_mt.cli import (
    LineOutputArguments,
    command,
    first_process_output,
    load_translator,
)
from flaxformer_mt.runtime.command import exit_process
from flaxformer_mt.runtime.files import open_output, read_text

if TYPE_CHECKING:
    from flaxformer_mt.translation.results import Hypothesis

LINES_AT_ONCE = 4096
"""Lines that are translated before any of them is written; enough to fill whole batches."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TranslateArguments(LineOutputArguments):
    """Translate text, line by line.

    Each input line becomes exactly one output line, in order; a blank line stays blank.
    With --num-hypotheses N above 1, each becomes up to N lines "index ||| text ||| score", best
    first, where index counts the input lines from 0 (the n-best format of Moses and Marian).
    (Strategy mbr orders by utility; samples are not ordered.)
    With --json, each becomes one object {"source": "...", "hypotheses": [{"text": "...",
    "score": -1.2}, ...]}; with --details each hypothesis also has "source_tokens", "tokens",
    "token_log_probs" and "alignment" (pairs of source and target token), and with --attention
    "attention" (a row for each target token). A score is log-probability / length penalty.
    With --decoding.flag-faults, faults are printed on standard error, or with --json in "flags" of
    each hypothesis.
    """

    input: str = ""
    """UTF-8 file to translate, one sentence a line. If not given, standard input."""
    prefix: str = ""
    """UTF-8 file with the beginning of each translation; its last word may continue. A blank line
    leaves the translation free."""
    constraints: str = ""
    """UTF-8 file with the phrases that each translation must contain, separated by tabs."""
    beam_size: int | None = None
    """Hypotheses that the search keeps; 1 is greedy search. If not given, as in the config."""
    num_hypotheses: int | None = None
    """Hypotheses to write for each line; for a beam search at most beam_size. If not given, as in
    the config."""


def translate(arguments: TranslateArguments) -> None:
    """Read all input, so that bad text is found first; then load the model and translate."""
    text = read_text(arguments.input)
    demands = _read_demands(arguments, text.lines)
    with open_output(first_process_output(arguments.output)) as output:
        separator = ""  # before each line but the first, so that the last can end as it did
        for line in _output_lines(text.lines, demands, arguments):
            output.write(f"{separator}{line}".encode())
            separator = "\n"
        if text.final_newline and text.lines:
            output.write(b"\n")


def _read_demands(arguments: TranslateArguments, lines: Sequence[str]) -> dict[str, list[Any]]:
    """The prefixes and constraints of all lines, as arguments of `Translator.translate`."""
    demands: dict[str, list[Any]] = {}
    if arguments.prefix:
        demands["prefixes"] = _read_beside(lines, arguments.prefix)
    if arguments.constraints:
        found = _read_beside(lines, arguments.constraints)
        demands["constraints"] = [line.split("\t") for line in found]
    return demands


def _read_beside(lines: Sequence[str], file: str) -> list[str]:
    """The lines of a file that has one for each of `lines`."""
    found = read_text(file).lines
    if len(found) != len(lines):
        raise ValueError(
            f"{file} has {len(found)} lines, but there are {len(lines)} to translate: it needs one "
            "for each, which may be blank"
        )
    return found


def _output_lines(
    lines: Sequence[str], demands: dict[str, Any], arguments: TranslateArguments
) -> Iterator[str]:
    import jax
    from tqdm import tqdm

    from flaxformer_mt.runtime.processes import is_first, map_over_processes

    translator = load_translator(arguments)
    language = arguments.target_language or None
    if demands or language:  # check all lines before any is written
        translator.check(lines, target_language=language, **demands)
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
                    target_language=language,
                    details=arguments.details or arguments.attention,
                    **{name: values[mine] for name, values in demands.items()},
                )

            results = map_over_processes(len(part), translate_part)
            for index, (source, hypotheses) in enumerate(zip(part, results, strict=True), start):
                if not arguments.json and is_first():
                    _print_flags(index, hypotheses)
                yield from _format_line(index, source, hypotheses, arguments, n_best)
            bar.update(len(results))


def _print_flags(index: int, hypotheses: Sequence["Hypothesis"]) -> None:
    for number, hypothesis in enumerate(hypotheses, start=1):
        which = f", hypothesis {number}" if len(hypotheses) > 1 else ""
        for flag in hypothesis.flags or ():
            print(f"line {index + 1}{which}: {flag.kind}: {flag.reason}", file=sys.stderr)


def _format_line(
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
    """The JSON object of a hypothesis."""
    values: dict[str, Any] = {"text": hypothesis.text, "score": hypothesis.score}
    if hypothesis.utility is not None:
        values["utility"] = hypothesis.utility
    if hypothesis.flags is not None:
        values["flags"] = [flag._asdict() for flag in hypothesis.flags]
    if hypothesis.details:
        values |= hypothesis.details.as_json(with_attention=with_attention)
    return values


main = command("translate", TranslateArguments, translate)

if __name__ == "__main__":
    exit_process(main())
