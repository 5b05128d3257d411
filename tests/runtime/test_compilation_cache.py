"""Compiled programs are kept on disk, and no damage to them stops the next process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_run import CONFIG

from flaxformer_mt.runtime.compilation_cache import delete_oldest
from flaxformer_mt.train import train

pytestmark = [pytest.mark.slow, pytest.mark.default_compiler]

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

IN_PYTHON = """
import sys, jax
before = dict(jax.config.values)
from flaxformer_mt import Translator
compiled = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, duration, **about: compiled.append(about.get("fun_name"))
)
print(Translator.load(sys.argv[1]).translate("The old dog sleeps.", copy_unknown=False)[0])
assert jax.config.values == before
print(compiled.count("jit(search_batch)"))
"""


@pytest.fixture(autouse=True)
def cache_of_users(monkeypatch):
    """Commands keep programs where they do for users, not in the cache of the tests."""
    for name in ("JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"):
        monkeypatch.delenv(name)


@pytest.fixture(scope="module")
def workdir(tmp_path_factory) -> Path:
    workdir = tmp_path_factory.mktemp("trained")
    train(CONFIG, str(workdir), quiet=True)
    return workdir


def translate(
    workdir: Path, caches: Path, **environment: str
) -> tuple[str, str, tuple[int, int, int]]:
    """Returns output, messages, and the counts (cache hits, cache misses, traces of the search)."""
    command = [sys.executable, "-c", TRANSLATE, "--workdir", str(workdir)]
    done = subprocess.run(
        [*command, "--decoding.copy-unknown", "false"],  # copies would need another program
        env=os.environ | {"XDG_CACHE_HOME": str(caches)} | environment,
        input="The old dog sleeps.\n",
        capture_output=True,
        text=True,
        check=True,
    )
    *messages, counts = done.stderr.splitlines()
    usual = ("compiling a program for", "words that the model does not know")
    messages = [text for text in messages if not any(part in text for part in usual)]
    found, not_found, traced = map(int, counts.split())
    return done.stdout, "\n".join(messages), (found, not_found, traced)


def test_a_second_start_compiles_nothing_and_survives_a_damaged_cache(workdir, tmp_path):
    expected, _, (found, not_found, traced) = translate(workdir, tmp_path)
    assert found == 0 and not_found > 0 and traced == 1
    assert translate(workdir, tmp_path) == (expected, "", (not_found, 0, 0))
    (entry,) = tmp_path.rglob("jit_search_batch-*")
    entry.write_bytes(entry.read_bytes()[:1000])
    output, messages, counts = translate(workdir, tmp_path)
    assert output == expected and counts == (not_found - 1, 1, 0)
    assert "Error reading persistent compilation cache entry for 'jit_search_batch'" in messages


def test_a_second_start_in_python_compiles_no_search_and_configures_nothing(workdir, tmp_path):
    environment = {"XDG_CACHE_HOME": str(tmp_path)}
    first, second = (
        subprocess.run(
            [sys.executable, "-c", IN_PYTHON, str(workdir)],
            env=os.environ | environment,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout.splitlines()
        for _ in range(2)
    )
    assert first[0] == second[0]
    assert int(first[1]) > 0 and int(second[1]) == 0


def test_an_unwritable_cache_and_a_disabled_one(workdir, tmp_path):
    a_file, unused, elsewhere = tmp_path / "file", tmp_path / "unused", tmp_path / "elsewhere"
    a_file.write_text("not a directory")
    assert translate(workdir, a_file)[1:] == ("", (0, 0, 1))
    assert translate(workdir, unused, JAX_ENABLE_COMPILATION_CACHE="false")[1:] == ("", (0, 0, 1))
    # In the user's own folder JAX's thresholds hold.
    own = {"JAX_COMPILATION_CACHE_DIR": str(elsewhere)}
    translate(workdir, unused, **own, JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="0")
    assert list(elsewhere.glob("jit_search_batch-*")) and not unused.exists()


def test_the_least_recently_read_entries_are_deleted(tmp_path):
    (tmp_path / "of_another_kind").mkdir()
    names = ["c", "of_another_kind/a", "d", "b"]  # from the last read one to the first
    for age, name in enumerate(names):
        (tmp_path / name).write_bytes(bytes(10))
        os.utime(tmp_path / name, (1e9 - age, 1e9 - 100))
    delete_oldest(tmp_path, max_bytes=20)
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {"c", "of_another_kind/a"}
    delete_oldest(tmp_path / "absent", max_bytes=0)
