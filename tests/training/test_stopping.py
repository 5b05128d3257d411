"""Stopping on request: one process at once, several after the same update."""

import os
import signal
import socket
import subprocess
import sys

import pytest

from flaxformer_mt.training.stopping import StopRequest, should_stop, stop_signal

# Process 0 gets the signal in the midst of update 3, process 1 never; they meet every 5 updates.
# SIGTERM gives little time: they agree on an update themselves, and do not wait until they meet.
ONE_OF_TWO = """
import os, signal, sys, time
import jax
from flaxformer_mt.training.stopping import should_stop, stop_signal

address, process, name = sys.argv[1], int(sys.argv[2]), sys.argv[3]
meeting = 5 if name == "SIGINT" else 100_000
jax.distributed.initialize(address, num_processes=2, process_id=process)
with stop_signal() as stopped:
    for step in range(1, 2000):
        time.sleep(0.01)
        if (process, step) == (0, 3):
            os.kill(os.getpid(), signal.Signals[name])
        if should_stop(stopped, step, late=False, rendezvous=step % meeting == 0):
            break
print("stopped at", step, stopped.number)
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_processes_stop_after_the_same_update(name):
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    environment = os.environ | {"JAX_NUM_CPU_DEVICES": "1"}
    command = [sys.executable, "-c", ONE_OF_TWO, address]
    processes = [
        subprocess.Popen(
            [*command, number, name], env=environment, stdout=subprocess.PIPE, text=True
        )
        for number in "01"
    ]
    try:
        # The last line: before it, the processes greet each other.
        answers = [process.communicate(timeout=60)[0].splitlines()[-1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert answers[0] == answers[1]
    step, number = map(int, answers[0].split()[-2:])
    assert number == signal.Signals[name]
    assert step == 5 if name == "SIGINT" else step < 1000


@pytest.mark.parametrize("rendezvous", [True, False])
def test_one_process_stops_at_once(rendezvous):
    stopped = StopRequest()
    assert not should_stop(stopped, 1, late=False, rendezvous=rendezvous)
    assert should_stop(stopped, 1, late=True, rendezvous=rendezvous)
    stopped.set()
    assert should_stop(stopped, 1, late=False, rendezvous=rendezvous)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_second_signal_acts_as_it_always_does(number):
    before = signal.getsignal(number)
    with stop_signal() as stopped:
        assert signal.getsignal(number) != before
        os.kill(os.getpid(), number)
        assert stopped.wait(5)
        assert signal.getsignal(number) == before
    assert signal.getsignal(number) == before
