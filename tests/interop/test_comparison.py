"""How alike two sides are: the shares and differences by hand."""

import pytest

from flaxformer_mt.interop.comparison import Comparison, compare
from flaxformer_mt.interop.runner import Translation

WORKDIR = [Translation("a b c d e", -0.5), Translation("f g h i j", -0.25), Translation("k", -1.0)]
EXPORT = [Translation("a b c d e", -0.5), Translation("f g h i x", -0.75), Translation("k", -1.5)]


def of(export: list[Translation], references: list[str] | None) -> Comparison:
    sources = ["one", "two", "three"]
    return compare(sources, WORKDIR, export, references, line_numbers=[1, 5, 6], tokenize="13a")


def test_shares_and_score_differences_are_those_of_the_identical_lines():
    found = of(EXPORT, ["a b c d e", "f g h i x", "k"])
    assert found.identical == pytest.approx(2 / 3)
    assert found.largest_score_difference == 0.5
    assert found.first_differences == [
        {"line": 5, "source": "two", "workdir": "f g h i j", "export": "f g h i x"}
    ]


def test_with_references_both_sides_are_measured_against_them():
    found = of(EXPORT, ["a b c d e", "f g h i x", "k"])
    for quality in (found.bleu, found.chrf):
        assert quality.against == "reference"
        assert quality.export == pytest.approx(100)
        assert quality.difference == pytest.approx(100 - quality.workdir)
        assert 0 < quality.workdir < 100
    assert "tok:13a" in found.bleu.signature


def test_without_references_the_export_is_measured_against_the_workdir():
    found = of(EXPORT, None)
    for quality in (found.bleu, found.chrf):
        assert quality.against == "workdir"
        assert quality.workdir == pytest.approx(100)
        assert 0 < quality.export < 100


def test_where_nothing_is_identical_there_is_no_score_difference():
    found = of([Translation("z", -0.5)] * 3, None)
    assert (found.identical, found.largest_score_difference) == (0, None)
