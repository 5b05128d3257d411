"""Translate text, line by line: `python -m flaxformer_mt.translate`."""

import dataclasses
import functools
import itertools
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from flaxformer_mt.cli import (
    WITHOUT_EFFECT,
    LineOutputArguments,
    command,
    first_process_output,
    load_translator,
)
from flaxformer_mt.runtime.command import exit_process
from flaxformer_mt.runtime.line_input import (
    Text,
    TextFile,
    check_parallel,
    count_lines,
    shard_of,
    standard_input,
)
from flaxformer_mt.runtime.line_output import (
    LineOutput,
    Run,
    batch_sizes,
    interruptible,
    line_output,
    settings_of,
)

if TYPE_CHECKING:
    from flaxformer_mt.translation.results import Hypothesis
    from flaxformer_mt.translation.translator import Translator

LINES_AT_ONCE = 4096
"""Lines that are translated before the first of them is written: enough for full batches."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TranslateArguments(LineOutputArguments):
    """Translate text, line by line.

    Each input line becomes exactly one output line, in order; a blank line stays blank.
    With --num-hypotheses N above 1, each becomes up to N lines "index ||| text ||| score", best
    first. The index counts the input lines from 0 (the n-best format of Moses and Marian). All
    texts of a line differ, so there are fewer than N if some hypotheses have equal texts.
    Strategy mbr orders by utility. Strategy sample writes all N samples, in the order of sampling.
    With --json, each becomes one object {"source": "...", "hypotheses": [{"text": "...",
    "score": -1.2}, ...]}; with --details each hypothesis also has "source_tokens", "tokens",
    "token_log_probs" and "alignment" (pairs of source and target token), and with --attention
    "attention" (a row for each target token). A score is log-probability / length penalty.
    With --decoding.flag-faults, faults are printed on standard error, or with --json in "flags" of
    each hypothesis.
    A line of several sentences is translated sentence by sentence (--decoding.split-sentences false
    translates it as a whole). Words that the model does not know are copied
    (--decoding.copy-unknown false: not); with --json they are in "unknown" of each hypothesis, and
    the number of lines with such words is printed on standard error.
    """

    input: str = ""
    """UTF-8 file to translate, one sentence a line. If not given, standard input, which is
    translated as it comes."""
    prefix: str = ""
    """UTF-8 file with the beginning of each translation; its last word may be the beginning of a
    longer word, unless a space follows it. A blank line leaves the translation free."""
    constraints: str = ""
    """UTF-8 file with the phrases that each translation must contain, separated by tabs."""
    beam_size: int | None = None
    """Hypotheses that the search keeps; 1 is greedy search. If not given, as in the config."""
    num_hypotheses: int | None = None
    """Hypotheses to write for each line; for a beam search at most beam_size. If not given, as in
    the config."""

    @functools.cached_property
    def is_n_best(self) -> bool:
        """Whether each input line has several output lines."""
        return not self.json and self.search_config().num_hypotheses > 1


def translate(arguments: TranslateArguments) -> None:
    """Runs `translate`: checks a file before it loads the model; standard input streams."""
    import jax

    names = [name for name in ("prefix", "constraints") if getattr(arguments, name)]
    text = TextFile(arguments.input) if arguments.input else None
    path = first_process_output(
        arguments.output, inputs=(arguments.input, arguments.prefix, arguments.constraints)
    )
    if text is None and (names or arguments.shard or jax.process_count() > 1):
        text = TextFile("")
    demands = {name: TextFile(getattr(arguments, name)) for name in names}
    if text:
        check_parallel(text, *demands.values())
    lines = Lines(text, demands, shard_of(arguments.shard, text.num_lines if text else 0))
    with (
        interruptible() as run,
        line_output(
            path, resume=arguments.resume, item_of=_index_of if arguments.is_n_best else None
        ) as output,
    ):
        translator = load_translator(arguments)
        files = {"input": text.digest if text else "standard input"}
        files |= {name: file.digest for name, file in demands.items()}
        model = translator.fingerprint
        output.begin(settings_of(arguments, without=WITHOUT_EFFECT, files=files, model=model))
        is_tagged = arguments.target_language or translator.tokenizer.needs_tag
        if text and (demands or is_tagged):  # before any line is written
            language = arguments.target_language or None
            for start, batch, of_batch in lines.batches(0, itertools.repeat(LINES_AT_ONCE)):
                translator.check(
                    batch.lines, target_language=language, first_line=start + 1, **of_batch
                )
        _translate_batches(lines, translator, arguments, output, run)


class Lines(NamedTuple):
    """The lines to translate, and the prefixes and constraints of each."""

    text: TextFile | None
    """None: standard input, as it comes."""
    demands: Mapping[str, TextFile]
    """Files with one line for each line of the text, by the name of the argument."""
    numbers: range
    """The lines of `text` to translate, from 0."""

    def batches(
        self, num_done: int, sizes: Iterator[int]
    ) -> Iterator[tuple[int, Text, dict[str, Any]]]:
        """Yields (number of the first line, lines, arguments of `Translator.translate`).

        Args:
          num_done: the number of first lines to leave out.
          sizes: the most lines of each batch.
        """
        if self.text is None:
            yield from _batches_of_standard_input(num_done, sizes)
            return
        start = self.numbers.start + num_done
        files = self.text, *self.demands.values()
        rows = zip(*(file.lines(start) for file in files), strict=True)
        while start < self.numbers.stop:
            count = min(next(sizes), self.numbers.stop - start)
            sources, *columns = zip(*itertools.islice(rows, count), strict=True)
            demands = dict(zip(self.demands, map(list, columns), strict=True))
            is_last = start + count == self.text.num_lines
            yield (
                start,
                Text(list(sources), self.text.final_newline or not is_last),
                _as_arguments(demands),
            )
            start += count


def _batches_of_standard_input(
    num_done: int, sizes: Iterator[int]
) -> Iterator[tuple[int, Text, dict[str, Any]]]:
    start = 0
    for batch in standard_input(sizes):
        lines = batch.lines[max(0, num_done - start) :]
        end = start + len(batch.lines)
        if lines:
            yield end - len(lines), Text(lines, batch.final_newline), {}
        start = end


def _as_arguments(demands: Mapping[str, list[str]]) -> dict[str, list[Any]]:
    """Returns the lines of the files of prefixes and constraints for `Translator.translate`."""
    arguments: dict[str, list[Any]] = {}
    if "prefix" in demands:
        arguments["prefixes"] = demands["prefix"]
    if "constraints" in demands:
        arguments["constraints"] = [line.split("\t") for line in demands["constraints"]]
    return arguments


def _index_of(line: str) -> str:
    """Returns the index of the input line in an n-best line."""
    return line.split(" ||| ")[0]


def _translate_batches(
    lines: Lines,
    translator: "Translator",
    arguments: TranslateArguments,
    output: LineOutput,
    run: Run,
) -> None:
    import jax
    from tqdm import tqdm

    from flaxformer_mt.runtime.processes import is_first, map_over_processes

    def translate_part(
        start: int, lines: Sequence[str], demands: Mapping[str, list[Any]], mine: slice
    ) -> list[list["Hypothesis"]]:
        return translator.translate(
            lines[mine],
            first_line=start + mine.start + 1,
            target_language=arguments.target_language or None,
            details=arguments.details or arguments.attention,
            **{name: values[mine] for name, values in demands.items()},
        )

    num_lines = num_unknown = 0  # of this run: not those before a resume
    hidden = True if lines.text is None and sys.stdin.isatty() else None
    total = len(lines.numbers) if lines.text else None
    sizes = (size * jax.process_count() for size in batch_sizes(LINES_AT_ONCE))
    with tqdm(total=total, initial=output.num_done, unit=" lines", disable=hidden) as bar:
        for start, batch, demands in lines.batches(output.num_done, sizes):
            part = functools.partial(translate_part, start, batch.lines, demands)
            results = run(functools.partial(map_over_processes, len(batch.lines), part))
            pairs = list(zip(batch.lines, results, strict=True))
            if not arguments.json and is_first():
                for index, (_, hypotheses) in enumerate(pairs, start):
                    _print_flags(index, hypotheses)
            output.write(
                [_format(index, *pair, arguments) for index, pair in enumerate(pairs, start)],
                final_newline=batch.final_newline,
            )
            num_lines += len(results)
            num_unknown += sum(bool(hypotheses[0].unknown) for hypotheses in results)
            bar.update(len(results))
    if not output.num_done and is_first():
        print("the input has no lines", file=sys.stderr)
    if num_unknown and is_first():
        copied = "copies of them are in the translation"
        if lines.demands:
            copied += ", but not in lines with a prefix or constraints"
        what = copied if translator.config.copy_unknown else "they are not in the translation"
        print(
            f"{num_unknown:,} of {count_lines(num_lines)} had words that the model does not know: "
            f"{what}; --json names them",
            file=sys.stderr,
        )


def _print_flags(index: int, hypotheses: Sequence["Hypothesis"]) -> None:
    for number, hypothesis in enumerate(hypotheses, start=1):
        which = f", hypothesis {number}" if len(hypotheses) > 1 else ""
        for flag in hypothesis.flags or ():
            print(f"line {index + 1}{which}: {flag.kind}: {flag.reason}", file=sys.stderr)


def _format(
    index: int, source: str, hypotheses: Sequence["Hypothesis"], arguments: TranslateArguments
) -> str:
    """Returns the output for an input line."""
    if arguments.json:
        found = [_as_json(h, with_attention=arguments.attention) for h in hypotheses]
        return json.dumps({"source": source, "hypotheses": found}, ensure_ascii=False)
    if arguments.is_n_best:
        return "\n".join(f"{index} ||| {one.text} ||| {one.score:.6f}" for one in hypotheses)
    return hypotheses[0].text


def _as_json(hypothesis: "Hypothesis", *, with_attention: bool) -> dict[str, Any]:
    """Returns the JSON object of a hypothesis."""
    values: dict[str, Any] = {"text": hypothesis.text, "score": hypothesis.score}
    if hypothesis.utility is not None:
        values["utility"] = hypothesis.utility
    if hypothesis.unknown:
        values["unknown"] = list(hypothesis.unknown)
    if hypothesis.flags is not None:
        values["flags"] = [flag._asdict() for flag in hypothesis.flags]
    if hypothesis.details:
        values |= hypothesis.details.as_json(with_attention=with_attention)
    return values


main = command("translate", TranslateArguments, translate)

if __name__ == "__main__":
    exit_process(main())
