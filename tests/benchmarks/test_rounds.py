"""Processes that answer, take turns, and are compared within rounds."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.child import ROOT, Child, Entry
from benchmarks.rounds import Sample, Settings, alternate, ask_each, pin, ratios, ready
from flaxformer_mt.cpus import allowed_cpus

ECHO = "tests.benchmarks.echoes:Echo"
QUICK = Settings(repeats=3, wait=0)


def echo(name: str, directory: Path, **job) -> Entry:
    return Entry(name, ECHO, {"name": name, "turns": str(directory / "turns"), **job})


def test_they_take_turns_and_tell_what_came_of_it(tmp_path):
    entries = [echo("a", tmp_path), echo("b", tmp_path, seconds=0.02)]
    with ready(entries, tmp_path, QUICK) as children:
        assert [child.ready["device"] for child in children] == ["cpu", "cpu"]
        samples = alternate(children, QUICK, beam_size=5)
    assert (tmp_path / "turns").read_text() == "ababab"
    assert [answer["beam_size"] for answer in samples["a"].answers] == [5, 5, 5]
    assert samples["b"].answers[0]["peak_memory"] > 1e6
    assert len(samples["b"].busy) == 3
    assert "no answer" in (tmp_path / "a.log").read_text()
    assert all(child._process.returncode == 0 for child in children)


def test_each_works_in_a_process_of_its_own(tmp_path):
    with ready([echo("a", tmp_path), echo("b", tmp_path)], tmp_path, QUICK) as children:
        assert len({os.getpid(), *(child._process.pid for child in children)}) == 3


def test_ours_sets_malloc_before_other_libraries_start_threads():
    """As its own commands do (see `host_memory`)."""
    code = (
        "import sys, benchmarks.child; "
        "print('flaxformer_mt.host_memory' in sys.modules, 'numpy' in sys.modules)"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert found.stdout == "True False\n"


def test_a_failure_is_told_with_its_last_words(tmp_path):
    entry = Entry("unlucky", "tests.benchmarks.echoes:Failing", {})
    child = Child(entry, log=tmp_path / "log")
    with pytest.raises(RuntimeError, match="unlucky ended with status 1(.|\n)*no such luck"):
        child.ask()
    child.close()


def test_who_fails_is_left_out_and_the_others_go_on(tmp_path, capsys):
    entries = [Entry("unlucky", "tests.benchmarks.echoes:Failing", {}), echo("a", tmp_path)]
    with ready(entries, tmp_path, QUICK) as children:
        unlucky, _ = children
        assert list(alternate(children, QUICK)) == ["a"]
        assert list(ask_each(children)) == ["a"]
        with pytest.raises(ValueError, match="no contender is left"):
            alternate([unlucky], QUICK)
    assert (tmp_path / "turns").read_text() == "aaaa"
    assert "no such luck" in capsys.readouterr().err


def test_what_is_not_installed_is_left_out(tmp_path, capsys):
    lacking = Entry("c", ECHO, {}, needs=("no_such_package",))
    with ready([lacking, echo("a", tmp_path)], tmp_path, QUICK) as children:
        assert [child.name for child in children] == ["a"]
    with (
        pytest.raises(ValueError, match="no contender is left to measure"),
        ready([lacking], tmp_path, QUICK),
    ):
        pass
    assert "c is left out: pip install -e '.[bench]'" in capsys.readouterr().err


def test_a_ratio_is_the_median_of_those_within_rounds():
    """The second round was slow for both: ratios of medians would be 2 / 3, 3 / 2."""
    a = Sample({}, [{"seconds": 1.0}, {"seconds": 20.0}, {"seconds": 2.0}])
    b = Sample({}, [{"seconds": 3.0}, {"seconds": 50.0}, {"seconds": 1.0}])
    found = ratios({"a": a, "b": b})
    assert found["a"]["b"] == pytest.approx(2.5)
    assert found["b"]["a"] == pytest.approx(0.4)


@pytest.mark.parametrize("cpus", [[4096], [min(allowed_cpus()), 4096]])
def test_a_cpu_that_is_not_there_is_refused(cpus):
    with pytest.raises(ValueError, match="cannot use the CPUs .*4096.: there are"):
        pin(cpus)
