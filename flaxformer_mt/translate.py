"""Translate text, line by line: `python -m flaxformer_mt.translate`."""

import dataclasses
import json
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from flaxformer_mt.cli import run_verb
from flaxformer_mt.lines import open_output, read_text

if TYPE_CHECKING:
    from flaxformer_mt.decoding.translator import Hypothesis

LINES_AT_ONCE = 4096
"""Written before the next are translated; enough of them to fill whole batches of like length."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TranslateArguments:
    """Translate text, line by line.

    Each input line becomes exactly one output line, in order; a blank line stays blank.
    With --num-hypotheses N above 1, each becomes up to N lines "index ||| text ||| score", best
    first, where index counts the input lines from 0 (the n-best format of Moses and Marian).
    With --json, each becomes one object {"source": "...", "hypotheses": [{"text": "...",
    "score": -1.2}, ...]}. A score is log-probability / length penalty.
    """

    workdir: str
    """Directory of a trained model: the --workdir of training."""
    input: str = ""
    """UTF-8 file to translate, one sentence a line. If not given, standard input."""
    output: str = ""
    """File to write; it appears when all is translated. If not given, standard output."""
    checkpoint: str = "auto"
    """Which parameters: averaged, best, last, or the number of a step; auto is the first of
    averaged, best and last that there is."""
    beam_size: int | None = None
    """Hypotheses kept while searching; 1 is greedy search. If not given, as in the config."""
    length_penalty: float | None = None
    """Exponent of the length penalty; 0 favours short output. If not given, as in the config."""
    num_hypotheses: int | None = None
    """Hypotheses written for each line, at most beam_size. If not given, as in the config."""
    json: bool = False
    """Write one JSON object for each input line."""


def main(args: list[str] | None = None) -> int:
    """The verb `translate`; returns the exit status."""
    return run_verb(translate, TranslateArguments, args, verb="translate")


def translate(arguments: TranslateArguments) -> None:
    """Read all input, then load the model, then translate: bad text is found before any work."""
    text = read_text(arguments.input)
    with open_output(arguments.output) as output:
        separator = ""  # before each line but the first, so that the last can end as it did
        for line in _output_lines(text.lines, arguments):
            output.write(f"{separator}{line}".encode())
            separator = "\n"
        if text.final_newline and text.lines:
            output.write(b"\n")


def _output_lines(lines: Sequence[str], arguments: TranslateArguments) -> Iterator[str]:
    from tqdm import tqdm

    from flaxformer_mt.decoding.translator import Translator

    translator = Translator.load(arguments.workdir, which=arguments.checkpoint)
    n_best = (arguments.num_hypotheses or translator.config.num_hypotheses) > 1
    with tqdm(total=len(lines), unit=" lines", disable=None) as bar:  # None: only on a terminal
        for start in range(0, len(lines), LINES_AT_ONCE):
            part = lines[start : start + LINES_AT_ONCE]
            results = translator.translate(
                part,
                beam_size=arguments.beam_size,
                length_penalty=arguments.length_penalty,
                num_hypotheses=arguments.num_hypotheses,
                first_line=start + 1,
            )
            for index, (source, hypotheses) in enumerate(zip(part, results, strict=True), start):
                yield from _format(index, source, hypotheses, arguments.json, n_best)
            bar.update(len(part))


def _format(
    index: int, source: str, hypotheses: Sequence["Hypothesis"], as_json: bool, n_best: bool
) -> Iterator[str]:
    if as_json:
        found = [{"text": h.text, "score": h.score} for h in hypotheses]
        yield json.dumps({"source": source, "hypotheses": found}, ensure_ascii=False)
    elif n_best:
        for hypothesis in hypotheses:
            yield f"{index} ||| {hypothesis.text} ||| {hypothesis.score:.6f}"
    else:
        yield hypotheses[0].text


if __name__ == "__main__":
    sys.exit(main())
