"""The web of these tests is a local server."""

import threading
from collections.abc import Iterator

import pytest
from public_web import Web


@pytest.fixture
def web(tmp_path, monkeypatch) -> Iterator[Web]:
    """Yields the only web that this test and its processes can reach, without any file."""
    folder = tmp_path / "web"
    folder.mkdir()
    server = Web(folder)
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, server.address)
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(server.certificates))
    monkeypatch.setenv("FLAXFORMER_MT_CORPORA", str(tmp_path / "corpora"))
    monkeypatch.setenv("FLAXFORMER_MT_CHECKSUMS", str(server.checksums))
    server.serve({})
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()
