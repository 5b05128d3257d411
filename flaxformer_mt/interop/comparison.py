"""How alike the translations of two sides are: the workdir's, and those of its export."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Literal

from flaxformer_mt.evaluation.metrics import MetricScore, Tokenize, bleu, chrf
from flaxformer_mt.interop.runner import Translation

DIFFERENCES_SHOWN = 10


@dataclasses.dataclass(frozen=True, kw_only=True)
class Quality:
    """A metric of both sides against the references; without those, against the workdir's output.

    The workdir then has 100: what it has against itself.
    """

    against: Literal["reference", "workdir"]
    workdir: float
    export: float
    signature: str

    @property
    def difference(self) -> float:
        """How much better the export is."""
        return self.export - self.workdir


@dataclasses.dataclass(frozen=True, kw_only=True)
class Comparison:
    """Two sides, line by line.

    Attributes:
      identical: share of lines with the same text.
      largest_score_difference: over the identical lines; None if there are none.
      bleu: by sacreBLEU, cased.
      chrf: by sacreBLEU.
      first_differences: lines (counted from 1) that are not identical, with both texts.
    """

    identical: float
    largest_score_difference: float | None
    bleu: Quality
    chrf: Quality
    first_differences: list[dict[str, Any]]


def compare(
    sources: Sequence[str],
    workdir: Sequence[Translation],
    export: Sequence[Translation],
    references: Sequence[str] | None,
    *,
    line_numbers: Sequence[int],
    tokenize: Tokenize,
) -> Comparison:
    """Compare the translations of `sources`, which stand at `line_numbers` of their file."""
    ours, theirs = [one.text for one in workdir], [one.text for one in export]
    pairs = list(zip(workdir, export, strict=True))
    same = [one.text == other.text for one, other in pairs]
    gaps = [abs(one.score - other.score) for one, other in pairs if one.text == other.text]
    lines = zip(line_numbers, sources, ours, theirs, strict=True)
    differences = [
        {"line": number, "source": source, "workdir": one, "export": other}
        for number, source, one, other in lines
        if one != other
    ]
    return Comparison(
        identical=sum(same) / len(same),
        largest_score_difference=max(gaps, default=None),
        bleu=_quality(ours, theirs, references, lambda h, r: bleu(h, r, tokenize=tokenize)),
        chrf=_quality(ours, theirs, references, chrf),
        first_differences=differences[:DIFFERENCES_SHOWN],
    )


def _quality(
    ours: Sequence[str],
    theirs: Sequence[str],
    references: Sequence[str] | None,
    metric: Callable[[Sequence[str], Sequence[str]], MetricScore],
) -> Quality:
    against = "workdir" if references is None else "reference"
    references = ours if references is None else references
    export = metric(theirs, references)
    return Quality(
        against=against,
        workdir=metric(ours, references).value,
        export=export.value,
        signature=export.signature,
    )
