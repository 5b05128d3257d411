"""Object stores on this machine: S3 (moto) and Google Cloud Storage (an emulator).

Each runs in a process of its own and has a bucket with the name `bucket`.
"""

import contextlib
import http.client
import importlib.util
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest

_S3 = """
import threading, urllib.request
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
port = server.get_host_and_port()[1]
make = urllib.request.Request(f"http://127.0.0.1:{port}/bucket", method="PUT")
urllib.request.urlopen(make).close()
print("port", port, flush=True)
threading.Event().wait()
"""
# The emulator reads an upload as an e-mail, which takes a last byte "\r" of a file for a part of
# the line break after it. So each file gets one more byte, which is removed again.
_GS = r"""
import threading
from email.parser import BytesParser
from gcp_storage_emulator import server as emulator

class Parser(BytesParser):
    def parsebytes(self, text, headersonly=False):
        end = b"\n--==0==--"
        message = super().parsebytes(text.replace(end, b"=" + end))
        if message.get_content_type() == "multipart/related":
            file = message.get_payload(1)
            file._payload = file._payload[:-1]
        return message

emulator.BytesParser = Parser
server = emulator.create_server("127.0.0.1", 0, in_memory=True, default_bucket="bucket")
server.start()
print("port", server._api._httpd.server_port, flush=True)
threading.Event().wait()
"""
_NEEDED = {"s3": ("moto", "flask_cors", "s3fs"), "gs": ("gcp_storage_emulator", "gcsfs")}


@contextlib.contextmanager
def server(scheme: str) -> Iterator[str]:
    """Yields the address of a new server; skips the test where a package is missing."""
    for module in _NEEDED[scheme]:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"needs the package {module}: pip install '.[test]'")
    program = {"s3": _S3, "gs": _GS}[scheme]
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            lines = iter(process.stdout.readline, "")
            port = next(line for line in lines if line.startswith("port ")).split()[1]
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()


def environment(scheme: str, address: str) -> dict[str, str]:
    """Returns the environment variables with which clients use a server."""
    if scheme == "gs":
        return {"STORAGE_EMULATOR_HOST": address, "GOOGLE_CLOUD_PROJECT": "test"}
    return {
        "AWS_ENDPOINT_URL": address,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }


@contextlib.contextmanager
def failing_once(address: str) -> Iterator[tuple[str, list[str]]]:
    """Yields the address of a proxy that fails the first request of each kind, and these requests.

    It answers 503, as an overloaded object store does.
    """
    failed: list[str] = []

    class Proxy(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length)
            kind = f"{self.command} {urlsplit(self.path).path}"
            if kind not in failed:
                failed.append(kind)
                self.send_response(503)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            target = http.client.HTTPConnection(urlsplit(address).netloc)
            target.request(self.command, self.path, body, dict(self.headers))
            response = target.getresponse()
            content = response.read()
            self.send_response(response.status)
            for name, value in response.getheaders():
                if name.lower() not in ("transfer-encoding", "content-length", "connection"):
                    self.send_header(name, value)
            size = response.getheader("Content-Length") if self.command == "HEAD" else len(content)
            self.send_header("Content-Length", str(size or 0))
            self.end_headers()
            self.wfile.write(content)
            target.close()

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = do_PATCH = answer

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as proxy:
        thread = threading.Thread(target=proxy.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{proxy.server_port}", failed
        finally:
            proxy.shutdown()
            thread.join()
