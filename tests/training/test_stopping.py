"""After a signal, one process stops at once and several after the same update."""

import os
import signal
import subprocess
import sys

import pytest
from tiny_run import free_port

from flaxformer_mt.training.stopping import StopRequest, should_stop, stop_on_signals

# Process 0 gets the signal during update 3, process 1 never; they synchronise every 5 updates.
# After SIGTERM they agree on an update without waiting for the next synchronisation.
ONE_OF_TWO = """
import os, signal, sys, time
import jax
from flaxformer_mt.training.stopping import should_stop, stop_on_signals

address, process, name = sys.argv[1], int(sys.argv[2]), sys.argv[3]
interval = 100_000 if name == "SIGTERM" else 5
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup
jax.distributed.initialize(address, num_processes=2, process_id=process)
with stop_on_signals() as stopped:
    for step in range(1, 2000):
        time.sleep(0.01)
        if (process, step) == (0, 3):
            os.kill(os.getpid(), signal.Signals[name])
        if should_stop(stopped, step, synchronize=step % interval == 0):
            break
print("stopped at", step, stopped.number)
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP"])
def test_processes_stop_after_the_same_update(name):
    address = f"localhost:{free_port()}"
    environment = os.environ | {"JAX_NUM_CPU_DEVICES": "1"}
    command = [sys.executable, "-c", ONE_OF_TWO, address]
    processes = [
        subprocess.Popen(
            [*command, number, name], env=environment, stdout=subprocess.PIPE, text=True
        )
        for number in "01"
    ]
    try:
        # Earlier lines come from the connection of the processes.
        answers = [process.communicate(timeout=60)[0].splitlines()[-1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert answers[0] == answers[1]
    step, number = map(int, answers[0].split()[-2:])
    assert number == signal.Signals[name]
    assert step < 1000 if name == "SIGTERM" else step == 5


@pytest.mark.parametrize("synchronize", [True, False])
def test_one_process_stops_at_once(synchronize):
    stopped = StopRequest()
    assert not should_stop(stopped, 1, synchronize=synchronize)
    stopped.set()
    assert should_stop(stopped, 1, synchronize=synchronize)


# The terminal of this process closes, as when a connection breaks.
IN_A_TERMINAL = """
import fcntl, os, signal, sys, termios
from pathlib import Path
from flaxformer_mt.training.stopping import stop_on_signals

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
with stop_on_signals() as stopped:
    print("started", flush=True)
    while not stopped.wait(0.1):
        pass  # a signal just before a wait does not end that wait
    while set(map(os.readlink, ("/proc/self/fd/1", "/proc/self/fd/2"))) != {"/dev/null"}:
        pass  # both outputs leave the terminal
    os.kill(os.getpid(), stopped.number)  # a shell sends it again
    print("this output has no reader", flush=True)
    print("this output has no reader", file=sys.stderr, flush=True)
    Path(sys.argv[1]).write_text(str(stopped.number))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="it looks at /proc")
def test_a_closed_terminal_stops_a_run_which_can_still_save(tmp_path):
    ours, theirs = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", IN_A_TERMINAL, str(tmp_path / "saved")],
        **dict.fromkeys(("stdin", "stdout", "stderr"), theirs),
        start_new_session=True,
    ) as process:
        os.close(theirs)
        seen = b""
        while b"started" not in seen:
            seen += os.read(ours, 1000)
        os.close(ours)
        try:
            assert process.wait(60) == 0
        finally:
            process.kill()
    assert int((tmp_path / "saved").read_text()) == signal.SIGHUP


def test_nohup_keeps_its_effect():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_on_signals() as stopped:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not stopped.wait(0.1)
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_has_its_usual_effect(number):
    before = signal.getsignal(number)
    with stop_on_signals() as stopped:
        assert signal.getsignal(number) != before
        os.kill(os.getpid(), number)
        assert stopped.wait(5)
        assert signal.getsignal(number) == before
    assert signal.getsignal(number) == before


# The hash does not return to the interpreter for minutes, like a compilation.
BUSY = """
import hashlib
from flaxformer_mt.training.stopping import stop_on_signals

with stop_on_signals():
    print("busy", flush=True)
    hashlib.pbkdf2_hmac("sha256", b"", b"", 1_000_000_000)
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_the_first_signal_is_acknowledged_and_the_second_ends_the_process(name):
    number = signal.Signals[name]
    with subprocess.Popen(
        [sys.executable, "-c", BUSY], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.send_signal(number)
        assert process.stderr.readline() == "\n"
        assert f"{name}: stopping after this update;" in process.stderr.readline()
        process.send_signal(number)
        # -SIGTERM if the hash had not begun at the first signal
        assert process.wait(60) in (128 + number, -number)
