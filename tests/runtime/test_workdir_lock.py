"""One run at a time in a workdir."""

import os
import signal
import socket
import subprocess
import sys

import pytest

from flaxformer_mt.runtime.workdir_lock import LOCK_FILE, own_workdir

HOLD = """
import sys, time
from flaxformer_mt.runtime.workdir_lock import own_workdir
with own_workdir(sys.argv[1]):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_second_owner_is_refused_by_host_and_process_until_the_first_is_done(tmp_path):
    with own_workdir(tmp_path):
        expected = rf"process {os.getpid()} on host {socket.gethostname()}, since"
        with pytest.raises(OSError, match=expected), own_workdir(tmp_path):
            pass
    with own_workdir(tmp_path):
        pass


def test_the_lock_of_a_killed_process_is_gone(tmp_path):
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        with pytest.raises(OSError, match=f"process {process.pid} on"), own_workdir(tmp_path):
            pass
        process.send_signal(signal.SIGKILL)
    with own_workdir(tmp_path):
        assert f'"process": {os.getpid()}' in (tmp_path / LOCK_FILE).read_text()


def test_a_file_system_without_locks_gets_a_warning(tmp_path, monkeypatch):
    def flock(*_):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", flock)
    with pytest.warns(UserWarning, match="file system without locks"), own_workdir(tmp_path):
        pass
