"""Contender processes answer, work in turn, and are compared within rounds."""

import dataclasses
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.child import ROOT, Child, Entry, last_words
from benchmarks.rounds import (
    Sample,
    Settings,
    alternate,
    ask_each,
    compete_alone,
    pin,
    ratios,
    ready,
    workplace,
)
from flaxformer_mt.runtime.host import allowed_cpus

ECHO = "tests.benchmarks.echoes:Echo"
QUICK = Settings(repeats=3, wait=0)


def echo(name: str, directory: Path, **job) -> Entry:
    return Entry(name, ECHO, {"name": name, "turns": str(directory / "turns"), **job})


def test_contenders_alternate_and_return_answers(tmp_path):
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


def test_each_contender_has_its_own_process(tmp_path):
    with ready([echo("a", tmp_path), echo("b", tmp_path)], tmp_path, QUICK) as children:
        assert len({os.getpid(), *(child._process.pid for child in children)}) == 3


def test_ours_sets_malloc_before_other_libraries_start_threads():
    """As our commands do (see `runtime.host`)."""
    code = (
        "import sys, benchmarks.child; "
        "print('flaxformer_mt.runtime.host' in sys.modules, 'numpy' in sys.modules)"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert found.stdout == "True False\n"


def test_a_failure_is_reported_with_its_last_message(tmp_path):
    entry = Entry("unlucky", "tests.benchmarks.echoes:Failing", {})
    child = Child(entry, log=tmp_path / "log")
    child.wait_until_ready()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="^unlucky ended with status 1: ValueError: no such"):
            child.ask()
    child.close()


def test_last_message_without_a_traceback():
    assert last_words("one\ntwo\n") == "one\ntwo"
    assert last_words("") == ""


def test_a_failing_contender_is_removed_and_the_others_continue(tmp_path, capsys):
    entries = [Entry("unlucky", "tests.benchmarks.echoes:Failing", {}), echo("a", tmp_path)]
    with ready(entries, tmp_path, QUICK) as children:
        unlucky, _ = children
        assert list(alternate(children, QUICK)) == ["a"]
        assert list(ask_each(children)) == ["a"]
        assert capsys.readouterr().err.count("no such luck") == 1
        with pytest.raises(ValueError, match="no contender is left"):
            alternate([unlucky], QUICK)
    assert (tmp_path / "turns").read_text() == "aaaa"


def test_contenders_for_a_gpu_get_ready_at_the_same_time(tmp_path, capsys):
    """Each compiles for minutes. One that fails meanwhile is left out."""
    (tmp_path / "place").mkdir()
    job = {"guests": 2, "place": str(tmp_path / "place")}
    meeting = "tests.benchmarks.echoes:Meeting"
    entries = [Entry("a", meeting, job), Entry("b", meeting, job)]
    entries.insert(1, Entry("unlucky", meeting, job | {"welcome": False}))
    with ready(entries, tmp_path, dataclasses.replace(QUICK, device="gpu")) as children:
        assert [child.name for child in children] == ["a", "b"]
        assert list(alternate(children, QUICK)) == ["a", "b"]
    assert "unlucky ended with status 1: ValueError: not welcome" in capsys.readouterr().err


def test_machine_limits_are_not_counted_as_a_contender(tmp_path):
    """They can be measured alone. But if there were contenders, at least one must be left."""
    entries = [echo("limits of b", tmp_path), Entry("a", "tests.benchmarks.echoes:Failing", {})]
    with ready(entries, tmp_path, QUICK) as children:
        assert list(alternate(children[:1], QUICK)) == ["limits of b"]
        with pytest.raises(ValueError, match="no contender is left"):
            alternate(children, QUICK)


def test_equal_names_are_measured_once(tmp_path):
    """For example with --workers 0 1 on one core."""
    twice = [echo("a", tmp_path), echo("a", tmp_path)]
    with ready(twice, tmp_path, QUICK) as children:
        assert list(alternate(children, QUICK)) == ["a"]
    assert list(compete_alone(twice, tmp_path, QUICK)) == ["a"]
    assert (tmp_path / "turns").read_text() == "aaaaaa"


def test_compete_alone_starts_each_contender_again_in_each_round(tmp_path, capsys):
    entries = [Entry("b", "tests.benchmarks.echoes:Failing", {}), echo("a", tmp_path)]
    assert list(compete_alone(entries, tmp_path, QUICK)) == ["a"]
    assert capsys.readouterr().err.count("a gets ready") == 3
    with pytest.raises(ValueError, match="no contender is left"):
        compete_alone(entries[:1], tmp_path, QUICK)


def test_sigterm_leaves_no_process_and_no_file(tmp_path):
    noted, folder = tmp_path / "process", tmp_path / "tmp"
    folder.mkdir()
    code = (
        "from benchmarks.child import Entry; from benchmarks.rounds import *\n"
        f"slow = Entry('slow', 'tests.benchmarks.echoes:Slow', {{'process': {str(noted)!r}}})\n"
        "with workplace(Settings()) as directory: compete([slow], directory, Settings())"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, env=os.environ | {"TMPDIR": str(folder)}
    )
    end = time.monotonic() + 60
    while not (noted.exists() and noted.read_text()) and time.monotonic() < end:
        time.sleep(0.1)
    parent.terminate()
    assert parent.wait(timeout=60) == 143
    assert list(folder.iterdir()) == []
    with pytest.raises(ProcessLookupError):
        os.kill(int(noted.read_text()), 0)


def test_an_unwritable_output_is_refused_before_anything_starts(tmp_path):
    with pytest.raises(OSError), workplace(Settings(out=str(tmp_path))):
        pytest.fail("it started")


def test_a_contender_that_is_not_installed_is_left_out(tmp_path, capsys):
    lacking = Entry("c", ECHO, {}, needs=("no_such_package",))
    with ready([lacking, echo("a", tmp_path)], tmp_path, QUICK) as children:
        assert [child.name for child in children] == ["a"]
    with (
        pytest.raises(ValueError, match="no contender is left to measure"),
        ready([lacking], tmp_path, QUICK),
    ):
        pass
    assert "c is left out: pip install -e '.[bench]'" in capsys.readouterr().err


def test_a_ratio_is_the_median_of_the_ratios_within_rounds():
    """The second round was slow for both: the ratios of the medians would be 2 / 3 and 3 / 2."""
    a = Sample({}, [{"seconds": 1.0}, {"seconds": 20.0}, {"seconds": 2.0}])
    b = Sample({}, [{"seconds": 3.0}, {"seconds": 50.0}, {"seconds": 1.0}])
    found = ratios({"a": a, "b": b})
    assert found["a"]["b"] == pytest.approx(2.5)
    assert found["b"]["a"] == pytest.approx(0.4)


@pytest.mark.parametrize("cpus", [[4096], [min(allowed_cpus()), 4096]])
def test_a_cpu_that_does_not_exist_is_refused(cpus):
    with pytest.raises(ValueError, match="cannot use the CPUs .*4096.: there are"):
        pin(cpus)
