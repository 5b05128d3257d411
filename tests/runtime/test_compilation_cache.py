"""Compiled programs outlive a process, and nothing that may happen to them stops the next one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_run import CONFIG

from flaxformer_mt.runtime.compilation_cache import make_room
from flaxformer_mt.train import train

TRANSLATE = """
import sys, jax
from flaxformer_mt.inference import programs
from flaxformer_mt.translate import main
events = []
search = programs._search
programs._search = lambda *given: [events.append("traced"), search(*given)][1]
jax.monitoring.register_event_listener(lambda event, **_: events.append(event.split("/")[-1]))
status = main(sys.argv[1:])
print(*(events.count(kind) for kind in ("cache_hits", "cache_misses", "traced")), file=sys.stderr)
sys.exit(status)
"""


@pytest.fixture(scope="module")
def workdir(tmp_path_factory) -> Path:
    workdir = tmp_path_factory.mktemp("trained")
    train(CONFIG, str(workdir), quiet=True)
    return workdir


def translate(
    workdir: Path, caches: Path, **environment: str
) -> tuple[str, str, tuple[int, int, int]]:
    """What is written, what is told, how many programs were (found, not found) on disk; and how
    often the search was traced."""
    done = subprocess.run(
        [sys.executable, "-c", TRANSLATE, "--workdir", str(workdir)],
        env=os.environ
        | {"JAX_ENABLE_COMPILATION_CACHE": "true", "XDG_CACHE_HOME": str(caches)}
        | environment,
        input="The old dog sleeps.\n",
        capture_output=True,
        text=True,
        check=True,
    )
    *told, counts = done.stderr.splitlines()
    found, not_found, traced = map(int, counts.split())
    return done.stdout, "\n".join(told), (found, not_found, traced)


def test_a_second_start_compiles_nothing_and_a_damaged_cache_does_no_harm(workdir, tmp_path):
    expected, _, (found, not_found, traced) = translate(workdir, tmp_path)
    assert found == 0 and not_found > 0 and traced == 1
    assert translate(workdir, tmp_path) == (expected, "", (not_found, 0, 0))
    (entry,) = tmp_path.rglob("jit_search_batch-*")
    entry.write_bytes(entry.read_bytes()[:1000])
    output, told, counts = translate(workdir, tmp_path)
    assert output == expected and counts == (not_found - 1, 1, 0)
    assert "Error reading persistent compilation cache entry for 'jit_search_batch'" in told


def test_a_cache_that_cannot_be_written_and_one_that_is_not_wanted(workdir, tmp_path):
    a_file, unused, elsewhere = tmp_path / "file", tmp_path / "unused", tmp_path / "elsewhere"
    a_file.write_text("not a directory")
    assert translate(workdir, a_file)[1:] == ("", (0, 0, 1))
    assert translate(workdir, unused, JAX_ENABLE_COMPILATION_CACHE="false")[1:] == ("", (0, 0, 1))
    # With a folder of the user's own, JAX's own thresholds hold as well.
    own = {"JAX_COMPILATION_CACHE_DIR": str(elsewhere)}
    translate(workdir, unused, **own, JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="0")
    assert list(elsewhere.glob("jit_search_batch-*")) and not unused.exists()


def test_what_was_not_read_for_the_longest_time_makes_room(tmp_path):
    (tmp_path / "of_another_kind").mkdir()
    names = ["c", "of_another_kind/a", "d", "b"]  # from the one read last to the one read first
    for age, name in enumerate(names):
        (tmp_path / name).write_bytes(bytes(10))
        os.utime(tmp_path / name, (1e9 - age, 1e9 - 100))
    make_room(tmp_path, most_bytes=20)
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {"c", "of_another_kind/a"}
    make_room(tmp_path / "absent", most_bytes=0)
