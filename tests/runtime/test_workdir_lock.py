"""One run at a time in a workdir."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading

import pytest

from flaxformer_mt.runtime import workdir_lock
from flaxformer_mt.runtime.workdir_lock import LOCK_FILE, own_workdir
from flaxformer_mt.storage.paths import as_path, write_file

HOLD = """
import sys, time
from flaxformer_mt.runtime import workdir_lock
from flaxformer_mt.runtime.workdir_lock import own_workdir
workdir_lock.RENEWAL = 0.5
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


@pytest.mark.slow
def test_a_bucket_has_one_owner_until_its_process_ends(bucket, monkeypatch):
    monkeypatch.setattr(workdir_lock, "EXPIRY", 5.0)
    command = [sys.executable, "-c", HOLD, bucket]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        with pytest.raises(OSError, match=f"process {process.pid} on"), own_workdir(bucket):
            pass
        process.send_signal(signal.SIGKILL)
    with own_workdir(bucket):
        assert f'"process": {os.getpid()}' in (as_path(bucket) / LOCK_FILE).read_text()
    assert not (as_path(bucket) / LOCK_FILE).exists()


OWNER = {"host": "other", "process": 7, "since": "noon"}


def test_a_lock_of_another_machine_counts_while_its_owner_renews_it(bucket, monkeypatch):
    monkeypatch.setattr(workdir_lock, "EXPIRY", 5.0)
    path, ended = as_path(bucket) / LOCK_FILE, threading.Event()

    def renew() -> None:
        number = 0
        while not ended.is_set():
            number += 1
            write_file(path, json.dumps(OWNER | {"renewal": number}).encode())
            ended.wait(0.5)

    write_file(path, json.dumps(OWNER).encode())
    owner = threading.Thread(target=renew)
    owner.start()
    try:
        with pytest.raises(OSError, match="process 7 on host other, since noon"):
            own_workdir(bucket).__enter__()
    finally:
        ended.set()
        owner.join()


@pytest.mark.slow
def test_a_lock_that_nobody_renews_expires(bucket, monkeypatch, capsys):
    monkeypatch.setattr(workdir_lock, "EXPIRY", 2.0)
    monkeypatch.setattr(workdir_lock, "RENEWAL", 0.2)
    path = as_path(bucket) / LOCK_FILE
    write_file(path, json.dumps(OWNER).encode())
    with own_workdir(bucket):
        assert str(os.getpid()) in path.read_text()
        threading.Event().wait(1)
        assert '"renewal"' in path.read_text()
    assert "waiting for up to 2 s" in capsys.readouterr().err


def test_a_bucket_that_does_not_exist_is_named(bucket):
    missing = bucket.replace("//bucket/", "//no-such-bucket/")
    with pytest.raises(FileNotFoundError, match="cannot write to .*no-such-bucket"):
        own_workdir(missing).__enter__()
