"""Downloads from a local server: resumed, checked, shared by processes."""

import errno
import hashlib
import resource
import threading

import numpy as np
import pytest

from flaxformer_mt.data.sources.public import downloads
from flaxformer_mt.data.sources.public.downloads import CHECKSUMS, fetch

URL = "http://corpora.example/v1/text.tgz"
SECURE_URL = "https://corpora.example/v1/text.tgz"
OLD, NEW = (np.random.default_rng(seed).bytes(3_000_000) for seed in (1, 2))
OLD_SHA256, OLD_MD5 = hashlib.sha256(OLD).hexdigest(), hashlib.md5(OLD).hexdigest()


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(downloads, "_WAIT_SECONDS", 0)


@pytest.fixture
def no_own_checksums(web, monkeypatch):
    monkeypatch.delenv(CHECKSUMS)


@pytest.mark.parametrize("url", [URL, SECURE_URL])
def test_a_broken_download_continues(web, url):
    web.serve({url: OLD})
    web.cut[url] = 2_000_000
    assert fetch(url).read_bytes() == OLD
    (_, first), (_, second) = web.requests
    assert first == ""
    assert 0 < int(second.removeprefix("bytes=").removesuffix("-")) <= 2_000_000


def test_tries_are_counted_without_progress_only(web, monkeypatch):
    """Ten breaks in one file, although five tries without a new byte would end the start."""
    monkeypatch.setattr(downloads, "_BLOCK_BYTES", 1000)
    web.serve({URL: OLD})
    web.cut_every = 300_000
    assert fetch(URL).read_bytes() == OLD
    assert web.count(URL) >= 10


def test_a_server_without_ranges_sends_the_file_again(web):
    web.serve({URL: OLD})
    web.cut[URL], web.knows_ranges = 2_000_000, False
    assert fetch(URL).read_bytes() == OLD


def test_the_next_start_continues_and_the_last_one_downloads_nothing(web, monkeypatch):
    web.serve({URL: OLD})
    web.cut[URL] = 2_000_000
    with monkeypatch.context() as once:
        once.setattr(downloads, "_TRIES", 1)
        with pytest.raises(ConnectionError, match=r"cannot download .* bytes are kept, and the"):
            fetch(URL)
    assert fetch(URL).read_bytes() == OLD
    assert web.requests[1][1].startswith("bytes=")
    assert fetch(URL).read_bytes() == OLD
    assert web.count(URL) == 2


def test_a_full_disk_names_the_file_and_the_next_start_continues(web):
    web.serve({URL: OLD})
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(OLD) // 2, unlimited[1]))
        with pytest.raises(OSError, match=r"File too large: '.*\.part'"):
            fetch(URL)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
    assert fetch(URL).read_bytes() == OLD
    assert web.requests[1][1].startswith("bytes=")


def test_parts_of_two_versions_are_not_joined(web, monkeypatch):
    web.serve({URL: OLD})
    web.cut[URL] = 2_000_000
    with monkeypatch.context() as once:
        once.setattr(downloads, "_TRIES", 1)
        with pytest.raises(ConnectionError):
            fetch(URL)
    web.serve({URL: NEW})
    assert fetch(URL).read_bytes() == NEW


@pytest.mark.usefixtures("no_own_checksums")
@pytest.mark.parametrize("checksum", [OLD_SHA256, OLD_MD5])
def test_a_wrong_checksum_is_refused_until_the_user_accepts_it(
    web, checksum, tmp_path, monkeypatch
):
    web.serve({URL: NEW})
    found = hashlib.new({32: "md5", 64: "sha256"}[len(checksum)], NEW).hexdigest()
    for _ in range(2):
        with pytest.raises(ValueError, match=f"{checksum} is expected, .* has {found}.*delete /"):
            fetch(URL, checksum)
    accepted = tmp_path / "accepted.txt"
    accepted.write_text(f"{found} {URL}\n")
    monkeypatch.setenv(CHECKSUMS, str(accepted))
    assert fetch(URL, checksum).read_bytes() == NEW
    assert web.count(URL) == 1
    monkeypatch.delenv(CHECKSUMS)
    with pytest.raises(ValueError, match="wrong checksum"):
        fetch(URL, checksum)


@pytest.mark.usefixtures("no_own_checksums")
def test_a_file_put_there_by_hand_is_checked_and_used(web, tmp_path):
    path = tmp_path / "corpora" / "downloads" / "corpora.example" / "v1" / "text.tgz"
    with pytest.raises(ConnectionError, match=rf"answers 404 .*copy it to {path}\."):
        fetch(URL)
    path.write_bytes(OLD)
    assert fetch(URL, OLD_SHA256) == path
    path.with_name("text.tgz.checked").unlink()
    path.write_bytes(NEW)
    with pytest.raises(ValueError, match="wrong checksum"):
        fetch(URL, OLD_SHA256)


def test_no_network(web, monkeypatch):
    web.serve({URL: OLD})
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # the discard port: nothing listens
    with pytest.raises(
        ConnectionError, match=r"cannot download http.*no network, download .*proxy"
    ):
        fetch(URL)


def test_a_file_that_does_not_fit_on_the_disk(web):
    web.serve({URL: OLD})
    web.claimed_length = 10**18
    message = r"text.tgz needs 1,000,.* bytes, but the disk of .* set FLAXFORMER_MT_CORPORA to"
    with pytest.raises(OSError, match=message):
        fetch(URL)


def test_the_folder_of_corpora_is_local(web, monkeypatch):
    monkeypatch.setenv(downloads.HOME, "gs://bucket/corpora")
    with pytest.raises(ValueError, match="must be a folder of this machine, got gs://bucket"):
        fetch(URL)


@pytest.mark.parametrize(
    ("text", "message"), [("abc  http://x", "must be CHECKSUM URL"), (None, "there is no such")]
)
def test_an_unusable_list_of_checksums(web, tmp_path, monkeypatch, text, message):
    path = tmp_path / "list"
    if text:
        path.write_text(text)
    monkeypatch.setenv(CHECKSUMS, str(path))
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        fetch(URL)


def test_a_file_is_downloaded_once_for_all(web):
    web.serve({URL: OLD})
    threads = [threading.Thread(target=fetch, args=(URL,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert web.count(URL) == 1


def test_a_file_that_is_downloaded_again_is_checked_again(web):
    web.serve({URL: OLD})
    path = fetch(URL)
    path.unlink()
    web.files[URL] = NEW  # the list of checksums still has that of OLD
    with pytest.raises(ValueError, match=r"checksum|SHA-256"):
        fetch(URL)


def test_a_file_system_without_locks_does_not_wait(web, monkeypatch):
    def no_locks(*_):
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", no_locks)
    web.serve({URL: OLD})
    assert fetch(URL).read_bytes() == OLD
