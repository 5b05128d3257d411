"""The proof that comes with an export: one file, translated by the workdir and by the export.

The export runs in the engine that it was made for, from its directory alone. Both sides search by
the same rules: those that the engine has (see its runner). `verification.json` in the export's
directory says how alike they are, how fast and how large; an export that is not alike enough fails.
"""

import dataclasses
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import numpy as np

from flaxformer_mt import __version__
from flaxformer_mt.evaluation.metrics import default_tokenize
from flaxformer_mt.interop.comparison import Comparison, compare
from flaxformer_mt.interop.ctranslate2.runner import CTranslate2Runner
from flaxformer_mt.interop.ctranslate2.vocabulary import starts_with_padding
from flaxformer_mt.interop.marian.runner import MarianRunner
from flaxformer_mt.interop.runner import Runner, Translation
from flaxformer_mt.runtime.files import read_parallel, read_text
from flaxformer_mt.training.checkpoint import LoadedModel
from flaxformer_mt.translation.config import DecodingConfig
from flaxformer_mt.translation.requests import suppressed_tokens
from flaxformer_mt.translation.translator import Translator

REPORT = "verification.json"
Format = Literal["ctranslate2", "marian"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class VerifyConfig:
    """What to translate for the proof, how, and how alike the two sides must be."""

    file: str
    """UTF-8 text in the source language, one sentence a line."""
    reference: str = ""
    """UTF-8 file with the right translation of each line."""
    beam_size: int = 5
    """Hypotheses kept while searching, on both sides."""
    length_penalty: float = 1.0
    """Alpha, on both sides: a score is log-probability / tokens ** alpha."""
    min_identical: float = 0.995
    """Share of lines that must come out the same, of an export that rounds no parameter."""
    max_bleu_difference: float = 0.3
    """How far apart the BLEU of both sides may be, of an export that rounds, with a reference."""
    min_bleu_to_workdir: float = 85.0
    """Without a reference: the BLEU that its output must have against that of the workdir."""


class VerificationFailed(ValueError):
    """An export is not alike enough; the message has the numbers."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verification:
    """What verification.json holds.

    Attributes:
      passed: whether the export is alike enough.
      expected: what that means, in words.
      search: the rules by which both sides searched.
      lines: how many were compared.
      lines_left_out: blank, or longer than the model reads at once.
      sentences_per_second: of "workdir" and "export", after a warm-up, both on the same CPUs
        (unless JAX has an accelerator).
      bytes: of the parameters of the "workdir", and of all files of the "export".
      versions: of the packages that ran.
    """

    format: Format
    passed: bool
    expected: str
    search: dict[str, Any]
    lines: int
    lines_left_out: int
    comparison: Comparison
    sentences_per_second: dict[str, float]
    bytes: dict[str, int]
    versions: dict[str, str]


class Task(NamedTuple):
    """The lines to compare, and where they stand in the file."""

    sources: list[str]
    references: list[str] | None
    line_numbers: list[int]
    warm_up: list[str]
    left_out: int


def verify_export(
    directory: Path, format: Format, loaded: LoadedModel, config: VerifyConfig, *, exact: bool
) -> Verification:
    """Prove the export in `directory` against the model that it was made from.

    Args:
      directory: of the export; verification.json is written into it.
      format: what it was exported to.
      loaded: the model.
      config: the text and the tolerances.
      exact: whether it has the parameters as they are; else it quantises them.

    Raises:
      VerificationFailed: it is not alike enough. The report is written all the same.
      ValueError, OSError: the text cannot be read, or the engine is not installed.
    """
    verification = _compare_sides(directory, format, loaded, config, exact=exact)
    report = json.dumps(dataclasses.asdict(verification), indent=2, ensure_ascii=False)
    (directory / REPORT).write_text(report + "\n", encoding="utf-8")
    if not verification.passed:
        raise VerificationFailed(f"expected {verification.expected}, but:\n{summary(verification)}")
    return verification


def _compare_sides(
    directory: Path, format: Format, loaded: LoadedModel, config: VerifyConfig, *, exact: bool
) -> Verification:
    """Translate on both sides, and tell how alike they are."""
    task = _read_task(config, loaded)
    decoding = _search_rules(format, loaded, config)
    runner = _runner(format, directory, loaded, decoding)
    ours, our_speed = _timed(_our_translate(loaded, decoding), task)
    theirs, their_speed = _timed(runner.translate, task)
    comparison = compare(
        task.sources,
        ours,
        theirs,
        task.references,
        line_numbers=task.line_numbers,
        tokenize=default_tokenize(loaded.config.data.target_language),
    )
    passed, expected = _judge(comparison, config, exact=exact)
    return Verification(
        format=format,
        passed=passed,
        expected=expected,
        search=_rules_in_force(decoding),
        lines=len(task.sources),
        lines_left_out=task.left_out,
        comparison=comparison,
        sentences_per_second={"workdir": our_speed, "export": their_speed},
        bytes={"workdir": _bytes_of_params(loaded), "export": _bytes_of(directory)},
        versions={"flaxformer_mt": __version__, "jax": jax.__version__, **runner.versions},
    )


def summary(verification: Verification) -> str:
    """The numbers, in a few lines."""
    found, speed = verification.comparison, verification.sentences_per_second
    lines = [f"{found.identical:.2%} of {verification.lines} translations are identical"]
    if found.largest_score_difference is not None:
        lines[0] += f", their scores differ by at most {found.largest_score_difference:.1e}"
    for name, quality in (("BLEU", found.bleu), ("chrF", found.chrf)):
        lines.append(
            f"{name} against the {quality.against}: workdir {quality.workdir:.2f}, export "
            f"{quality.export:.2f} ({quality.difference:+.2f})"
        )
    lines.append(
        f"sentences/s: workdir {speed['workdir']:.1f}, export {speed['export']:.1f}; megabytes: "
        f"workdir {verification.bytes['workdir'] / 1e6:.1f}, "
        f"export {verification.bytes['export'] / 1e6:.1f}"
    )
    return "\n".join(lines)


def _read_task(config: VerifyConfig, loaded: LoadedModel) -> Task:
    """The lines that the model reads whole: others it splits, which engines leave to the user."""
    references = None
    if config.reference:
        lines, references = read_parallel(config.file, config.reference)
    else:
        lines = read_text(config.file).lines
    lengths = [len(loaded.tokenizer.source.tokenize(line)) for line in lines]
    longest = loaded.config.data.max_source_length
    kept = [i for i, length in enumerate(lengths) if 1 < length <= longest]
    if not kept:
        raise ValueError(f"{config.file} has no line of 1 to {longest - 1} tokens to verify with")
    return Task(
        sources=[lines[i] for i in kept],
        references=references and [references[i] for i in kept],
        line_numbers=[i + 1 for i in kept],
        warm_up=list({lengths[i]: lines[i] for i in kept}.values()),  # meets every compiled program
        left_out=len(lines) - len(kept),
    )


def _search_rules(format: Format, loaded: LoadedModel, config: VerifyConfig) -> DecodingConfig:
    """The rules that both sides can follow; what may be chosen is as in the workdir."""
    rules = dataclasses.replace(
        loaded.config.decoding,
        beam_size=config.beam_size,
        num_hypotheses=1,
        length_penalty=config.length_penalty,
        length_normalization="average",
        forced_end="free",
        early_stopping="heuristic",  # "exact" sums of averages go on to the limit of length
    )
    if format == "marian":
        return rules
    never_padding = starts_with_padding(loaded.tokenizer.target)
    return dataclasses.replace(
        rules,
        renormalize=True,
        early_stopping="first" if config.length_penalty else "exact",
        allow_special=rules.allow_special and not never_padding,
    )


def _rules_in_force(decoding: DecodingConfig) -> dict[str, Any]:
    names = ("beam_size", "length_penalty", "length_normalization", "early_stopping")
    return {name: getattr(decoding, name) for name in (*names, "forced_end", "renormalize")}


def _runner(
    format: Format, directory: Path, loaded: LoadedModel, decoding: DecodingConfig
) -> Runner:
    if format == "marian":
        return MarianRunner(directory, decoding)
    suppressed = np.flatnonzero(suppressed_tokens(loaded.tokenizer, decoding))
    return CTranslate2Runner(directory, decoding, suppressed=suppressed.tolist())


def _our_translate(
    loaded: LoadedModel, decoding: DecodingConfig
) -> Callable[[Sequence[str]], list[Translation]]:
    # As the other side: what bfloat16 would round is no doing of the export.
    in_float32 = dataclasses.replace(loaded.model.config, dtype="float32")
    translator = Translator(
        loaded.model.clone(config=in_float32),
        loaded.params,
        loaded.tokenizer,
        decoding,
        max_source_length=loaded.config.data.max_source_length,
    )

    def translate(lines: Sequence[str]) -> list[Translation]:
        return [Translation(found[0].text, found[0].score) for found in translator.translate(lines)]

    return translate


def _timed(
    translate: Callable[[Sequence[str]], list[Translation]], task: Task
) -> tuple[list[Translation], float]:
    """The translations, and sentences a second."""
    translate(task.warm_up)
    start = time.perf_counter()
    found = translate(task.sources)
    return found, len(task.sources) / (time.perf_counter() - start)


def _judge(found: Comparison, config: VerifyConfig, *, exact: bool) -> tuple[bool, str]:
    """Whether the export is alike enough, and what was expected of it."""
    if exact:
        expected = f"at least {config.min_identical:.2%} of the translations identical"
        return found.identical >= config.min_identical, expected
    if found.bleu.against == "reference":
        most = config.max_bleu_difference
        return abs(found.bleu.difference) <= most, f"a BLEU at most {most} from the workdir's"
    least = config.min_bleu_to_workdir
    return found.bleu.export >= least, f"a BLEU of at least {least} against the workdir's output"


def _bytes_of(directory: Path) -> int:
    files = [path for path in directory.rglob("*") if path.is_file() and path.name != REPORT]
    return sum(file.stat().st_size for file in files)


def _bytes_of_params(loaded: LoadedModel) -> int:
    return sum(leaf.nbytes for leaf in jax.tree.leaves(loaded.params))
