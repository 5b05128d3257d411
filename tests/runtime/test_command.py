"""Only commands change settings of the process: not an import, and not a call of the library."""

import dataclasses
import gc
import os
import signal
import subprocess
import sys
import types

import pytest
from tiny_run import WITHOUT_DROPOUT

from flaxformer_mt.cli import exit_code
from flaxformer_mt.data.sources.corpora import CorpusConfig
from flaxformer_mt.runtime import command, host
from flaxformer_mt.train import train

ONE_STEP = dataclasses.replace(
    WITHOUT_DROPOUT,
    data=dataclasses.replace(WITHOUT_DROPOUT.data, validation=CorpusConfig()),
    training=dataclasses.replace(WITHOUT_DROPOUT.training, num_steps=1),
)
IMPORTS = """
import atexit, gc, os, pkgutil, signal, sys

changes = []

def audit(event, arguments):
    if event == "ctypes.dlsym" and arguments[1] == "mallopt":
        changes.append("mallopt")

def watch(name, original):  # calls by other packages do not count
    def wrapper(*arguments, **options):
        frame = sys._getframe(1)
        while frame.f_globals["__name__"] in ("os", "_collections_abc"):
            frame = frame.f_back
        if frame.f_globals["__name__"].startswith("flaxformer_mt"):
            changes.append((name, frame.f_globals["__name__"]))
        return original(*arguments, **options)
    return wrapper

sys.addaudithook(audit)
atexit.register = watch("atexit.register", atexit.register)
signal.signal = watch("signal.signal", signal.signal)
type(os.environ).__setitem__ = watch("environ", type(os.environ).__setitem__)
handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
threshold = gc.get_threshold()

import flaxformer_mt
changes += [("imported", name) for name in ("jax", "numpy") if name in sys.modules]

modules = [m.name for m in pkgutil.walk_packages(flaxformer_mt.__path__, "flaxformer_mt.")]
for module in modules:
    try:
        __import__(module)
    except ImportError as error:  # an extra that is not installed
        assert "flaxformer_mt" not in (error.name or ""), error

assert handlers == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
assert threshold == gc.get_threshold(), gc.get_threshold()
from flaxformer_mt.runtime.trace_cache import _source_digest
assert _source_digest.cache_info().currsize == 0
print(len(modules) > 100, changes)
"""


def run_python(program: str) -> str:
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_importing_all_modules_changes_nothing():
    *_, answer = run_python(IMPORTS).splitlines()
    assert answer == "True []"


def test_a_command_prepares_the_process():
    program = """
import gc, logging
from flaxformer_mt.cli import exit_code
exit_code(lambda: None)
import orbax.checkpoint
print(gc.get_threshold()[0], logging.getLogger("absl").isEnabledFor(logging.ERROR))
"""
    assert run_python(program).split() == ["100000", "False"]


@pytest.mark.slow
def test_train_changes_nothing_in_the_process_of_its_caller(tmp_path, monkeypatch):
    def refuse(*arguments: object) -> None:
        raise AssertionError(f"changed: {arguments}")

    monkeypatch.setattr(host, "_set_malloc", refuse)
    monkeypatch.setattr(gc, "set_threshold", refuse)
    monkeypatch.setattr(signal, "signal", refuse)
    environment = dict(os.environ)
    train(ONE_STEP, str(tmp_path), quiet=True)
    assert dict(os.environ) == environment


@pytest.mark.slow
def test_train_replaces_the_handlers_only_if_asked_and_restores_them(tmp_path, monkeypatch):
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before, seen = [signal.getsignal(number) for number in numbers], []

    def look(loop):
        seen.append([signal.getsignal(number) for number in numbers] != before)
        return "interrupted"

    monkeypatch.setattr("flaxformer_mt.training.loop.Loop.__call__", look)
    for handle in (False, True):
        train(ONE_STEP, str(tmp_path), quiet=True, handle_signals=handle)
    assert seen == [False, True]
    assert [signal.getsignal(number) for number in numbers] == before


@pytest.mark.parametrize(("platform", "extra"), [("cuda", "[gpu]"), ("tpu,cpu", "[tpu]")])
def test_a_platform_that_jax_cannot_use_is_one_message(monkeypatch, capsys, platform, extra):
    def fail():
        raise AssertionError

    monkeypatch.setenv("JAX_PLATFORMS", platform)
    monkeypatch.setattr("jax.devices", fail)
    assert exit_code(fail) == 2
    error = capsys.readouterr().err
    assert f"JAX cannot use JAX_PLATFORMS={platform}: no such device is visible" in error
    assert extra in error and error.count("\n") == 1


def test_another_failed_assertion_keeps_its_traceback():
    def fail():
        raise AssertionError("a bug")

    with pytest.raises(AssertionError, match="a bug"):
        exit_code(fail)


def test_unfinished_writes_after_a_failed_one_print_nothing(monkeypatch):
    shown = []
    monkeypatch.setattr("sys.unraisablehook", shown.append)
    command._hide_closed_event_loops()
    other = types.SimpleNamespace(exc_value=RuntimeError("another bug"))
    for value in (types.SimpleNamespace(exc_value=RuntimeError("Event loop is closed")), other):
        sys.unraisablehook(value)
    assert shown == [other]


def test_a_warning_is_its_message_although_orbax_sets_up_logging():
    code = (
        "import logging\n"
        "import orbax.checkpoint\n"
        "from flaxformer_mt.runtime.command import prepare_process\n"
        "prepare_process()\n"
        "logging.getLogger('flaxformer_mt.module').warning('a message')\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "a message\n")
