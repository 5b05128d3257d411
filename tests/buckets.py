"""Object stores that run on this machine: S3 (moto) and Google Cloud Storage (its emulator).

They run in a process of their own: a server in the process of a test would wait for its lock.
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

_S3 = """
import logging, threading
logging.getLogger("werkzeug").setLevel(logging.ERROR)
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
threading.Event().wait()
"""

_GCS = """
import logging, threading
from gcp_storage_emulator.server import create_server
server = create_server("127.0.0.1", 0, in_memory=True, default_bucket="bucket")
server.start()
print(server._api.server_port if hasattr(server, "_api") else 0, flush=True)
threading.Event().wait()
"""


@contextlib.contextmanager
def s3_server() -> Iterator[dict[str, str]]:
    """Yields the environment variables of clients of an S3 server with the bucket `bucket`."""
    for module in ("moto", "flask", "s3fs"):
        pytest.importorskip(module, reason=f"{module} is not installed: pip install '.[test,s3]'")
    with _server(_S3) as port:
        environment = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        yield environment


@contextlib.contextmanager
def _server(program: str) -> Iterator[int]:
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ,
    ) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()
