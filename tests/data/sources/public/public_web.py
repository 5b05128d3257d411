"""A local proxy that plays the web: it serves archives of the real addresses and layout."""

import gzip
import hashlib
import io
import ssl
import tarfile
import zipfile
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest


class Web(ThreadingHTTPServer):
    """Serves `files` by URL. Clients reach it as their proxy, so it gets the real addresses."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, bytes] = {}
        self.requests: list[tuple[str, str]] = []
        """URL and range of each request."""
        self.cut: dict[str, int] = {}
        """The connection of a URL breaks once after so many bytes."""
        self.cut_every = 0
        """Every connection breaks after so many bytes; 0 = none does."""
        self.knows_ranges = True
        self.claimed_length: int | None = None
        """The length in the headers, if it is not the true one."""
        self.checksums = folder / "checksums.txt"
        trustme = pytest.importorskip("trustme")
        self.authority = trustme.CA()
        self.certificates = folder / "ca.pem"
        self.authority.cert_pem.write_to_path(str(self.certificates))

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def serve(self, files: Mapping[str, bytes]) -> None:
        """Adds files, and puts their checksums into the user's list."""
        self.files |= files
        lines = [f"{hashlib.sha256(file).hexdigest()} {url}\n" for url, file in self.files.items()]
        self.checksums.write_text("".join(lines))

    def count(self, url: str) -> int:
        return [requested for requested, _ in self.requests].count(url)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Web
    host = ""

    def log_message(self, *_) -> None:  # not to stderr
        pass

    def do_CONNECT(self) -> None:
        """Answers for an https server, with a certificate of the test's authority."""
        self.send_response(200)
        self.end_headers()
        self.host = self.path.partition(":")[0]
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.server.authority.issue_cert(self.host).configure_cert(context)
        self.connection = context.wrap_socket(self.connection, server_side=True)
        self.rfile = self.connection.makefile("rb")
        self.wfile = self.connection.makefile("wb", buffering=0)
        self.close_connection = False  # Python's client asks as HTTP/1.0

    def finish(self) -> None:
        super().finish()
        self.connection.close()

    def do_GET(self) -> None:
        url = f"https://{self.host}{self.path}" if self.host else self.path
        span = self.headers["Range"] or ""
        self.server.requests.append((url, span))
        if url not in self.server.files:
            self.send_error(404)
            return
        file = self.server.files[url]
        version = f'"{hashlib.md5(file).hexdigest()}"'
        start = 0
        if span and self.server.knows_ranges and self.headers["If-Range"] in (None, version):
            start = int(span.removeprefix("bytes=").removesuffix("-"))
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(file) - 1}/{len(file)}")
        else:
            self.send_response(200)
        self.send_header("ETag", version)
        self.send_header("Content-Length", str(self.server.claimed_length or len(file) - start))
        self.end_headers()
        end = self.server.cut.pop(url, start + (self.server.cut_every or len(file)))
        self.wfile.write(file[start:end])
        self.close_connection = self.close_connection or end < len(file)


def tar(members: Mapping[str, bytes], mode: str = "w:gz") -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=mode) as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return packed.getvalue()


def zipped(members: Mapping[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return packed.getvalue()


def lines(corpus: str, language: str, count: int = 3) -> bytes:
    """Returns sentences that name their corpus, language and number; ü is two bytes."""
    return "".join(f"{corpus} {language} für {i}\n" for i in range(count)).encode()


def sgm(corpus: str, language: str, count: int = 3) -> bytes:
    """Returns a test set in WMT's form."""
    rows = "".join(f'<seg id="{i + 1}">{corpus} {language} für {i}</seg>\n' for i in range(count))
    head = '<srcset setid="x" srclang="any">\n<doc docid="a" genre="news" origlang="en">\n<p>\n'
    return f"{head}{rows}</p>\n</doc>\n</srcset>\n".encode()


STATMT = "http://www.statmt.org"
MULTI30K = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1"


def wmt_archive(prefix: str, languages: tuple[str, ...] = ("de", "fr")) -> bytes:
    """Returns an archive with a text in several languages and its translation into English."""
    return tar(
        {
            f"{prefix}.{other}-en.{language}": lines(f"{prefix}.{other}-en", language)
            for other in languages
            for language in (other, "en")
        }
    )


def public_archives() -> dict[str, bytes]:
    """Returns small archives at the addresses, and with the members, of the shipped recipes."""
    giga, pairs = "giga-fren.release2.fixed", ("de", "en", "fr")
    newstest2014 = {
        f"test-full/newstest2014-{pair}-{side}.{language}.sgm": sgm("newstest2014", language)
        for pair, languages in {"deen": ("de", "en"), "fren": ("fr", "en")}.items()
        for language in languages
        for side in ("src", "ref")
    }
    return {
        f"{STATMT}/wmt13/training-parallel-europarl-v7.tgz": wmt_archive("training/europarl-v7"),
        f"{STATMT}/wmt13/training-parallel-commoncrawl.tgz": wmt_archive("commoncrawl"),
        f"{STATMT}/wmt14/training-parallel-nc-v9.tgz": wmt_archive("training/news-commentary-v9"),
        f"{STATMT}/wmt13/training-parallel-un.tgz": wmt_archive("un/undoc.2000", ("fr",)),
        f"{STATMT}/wmt10/training-giga-fren.tar": tar(
            {f"{giga}.{one}.gz": gzip.compress(lines(giga, one)) for one in ("fr", "en")}, "w"
        ),
        "https://statmt.org/wmt13/test.tgz": tar(
            {f"test/newstest2013-src.{one}.sgm": sgm("newstest2013", one) for one in pairs}
        ),
        "https://statmt.org/wmt14/test-full.tgz": tar(newstest2014),
        f"{MULTI30K}/multi30k_test_sets_d3ec2a38.tar.gz": tar(
            {f"./test_2016_flickr.{one}": lines("test_2016_flickr", one) for one in pairs}
        ),
        **{
            f"{MULTI30K}/raw/{split}.{one}.gz": gzip.compress(lines(split, one))
            for split in ("train", "val", "test_2016_flickr")
            for one in ("de", "en")
        },
    }
