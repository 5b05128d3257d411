"""Downloads a file once: resumed after an interruption, verified, with a progress bar.

`requests`, `pooch`, `mtdata` and `tensorflow-datasets` cannot resume a download. Corpora have
gigabytes, and some servers are slow.
"""

import hashlib
import os
import shutil
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import requests
import urllib3

from flaxformer_mt.storage.paths import cache_folder, lock, naming

HOME = "FLAXFORMER_MT_CORPORA"
CHECKSUMS = "FLAXFORMER_MT_CHECKSUMS"

_BLOCK_BYTES = 1 << 20
_TRIES = 5
_WAIT_SECONDS = 0.5  # before the second try; doubles for each further try
_TIMEOUT_SECONDS = (20, 60)  # to connect, and between two blocks
_BROKEN = (requests.RequestException, urllib3.exceptions.HTTPError)


def corpora_home() -> Path:
    """Returns the folder of public corpora: $FLAXFORMER_MT_CORPORA, or one in the user's cache.

    Raises ValueError for a URL.
    """
    if home := os.environ.get(HOME):
        if "://" in home:
            raise ValueError(f"{HOME} must be a folder of this machine, got {home}.")
        return Path(home).expanduser()
    return cache_folder("corpora")


def fetch(url: str, checksum: str = "") -> Path:
    """Returns a local copy of the file at `url`. The first call downloads it.

    Args:
      url: http or https.
      checksum: the expected MD5 or SHA-256, in hexadecimal; "" = unknown. A list in the file
        $FLAXFORMER_MT_CHECKSUMS overrides it.

    Raises:
      ValueError: the file has the wrong checksum.
      ConnectionError: the server cannot be reached, or refuses.
      OSError: the disk has too little space.
    """
    parts = urlsplit(url)
    path = corpora_home() / "downloads" / parts.netloc / parts.path.lstrip("/")
    checksum = _own_checksums().get(url, checksum)
    with lock(path):
        checked = path.with_name(path.name + ".checked")
        if not path.exists():
            checked.unlink(missing_ok=True)
            _download(url, path)
        if checksum and not (checked.exists() and checked.read_text() == checksum):
            _check(path, checksum, url)
            checked.write_text(checksum)
    return path


def _download(url: str, path: Path) -> None:
    partial = path.with_name(path.name + ".part")
    print(f"Downloading {url} to {path}", file=sys.stderr)
    failures = 0  # consecutive tries without new bytes
    while True:
        before = _size(partial)
        try:
            _continue_download(url, partial)
            break
        except _BROKEN as error:
            failures = 1 if _size(partial) > before else failures + 1
            status = getattr(getattr(error, "response", None), "status_code", 0)
            final = 400 <= status < 500 and status not in (408, 429)  # another try would not help
            if failures == _TRIES or final:
                raise _unreachable(url, path, _size(partial), error) from error
            time.sleep(_WAIT_SECONDS * 2 ** (failures - 1))
    partial.replace(path)


def _continue_download(url: str, partial: Path) -> None:
    """Appends the missing bytes to `partial`. Raises one of `_BROKEN` if the connection breaks."""
    version = partial.with_name(partial.name + ".version")  # of the file on the server
    start = _size(partial) if version.exists() else 0
    # Servers may compress text in transit, but a checksum is of the file itself.
    headers = {"Accept-Encoding": "identity"}
    if start:
        headers |= {"Range": f"bytes={start}-", "If-Range": version.read_text()}
    with requests.get(url, headers=headers, stream=True, timeout=_TIMEOUT_SECONDS) as response:
        if response.status_code == requests.codes.requested_range_not_satisfiable:
            partial.unlink()  # it is longer than the file
            raise requests.ConnectionError("the file on the server became shorter")
        response.raise_for_status()
        if response.status_code != requests.codes.partial_content:
            start = 0
            partial.unlink(missing_ok=True)  # before `version` names another file
        etag = response.headers.get("ETag", "W/")
        if name := response.headers.get("Last-Modified") if etag.startswith("W/") else etag:
            version.write_text(name)
        else:
            version.unlink(missing_ok=True)
        length = int(response.headers.get("Content-Length", 0))
        _check_space(length, partial)
        _save(response, partial, start=start, total=start + length if length else None)
    version.unlink(missing_ok=True)


def _check_space(length: int, path: Path) -> None:
    """Raises OSError if the disk of `path` has less than `length` bytes free."""
    free = shutil.disk_usage(path.parent).free
    if length > free:
        raise OSError(
            f"{path.name.removesuffix('.part')} needs {length:,} bytes, but the disk of "
            f"{path.parent} has {free:,}. Delete files there, or set {HOME} to a folder on another "
            "disk."
        )


def _save(response: requests.Response, partial: Path, *, start: int, total: int | None) -> None:
    from tqdm import tqdm  # not needed for translation

    bar = tqdm(
        total=total,
        initial=start,
        unit="B",
        unit_scale=True,
        desc=partial.name.removesuffix(".part"),
        disable=None,  # shown on a terminal
    )
    with bar, naming(partial), open(partial, "ab" if start else "wb") as file:
        for block in response.raw.stream(_BLOCK_BYTES, decode_content=False):
            file.write(block)
            bar.update(len(block))
    if total and _size(partial) != total:
        raise requests.ConnectionError(f"{_size(partial):,} of {total:,} bytes arrived")


def _check(path: Path, expected: str, url: str) -> None:
    """Raises ValueError unless the file has the checksum."""
    with open(path, "rb") as file:
        method = "md5" if len(expected) == 32 else "sha256"
        found = hashlib.file_digest(file, method).hexdigest()
    if found != expected:
        raise ValueError(
            f"{url} has the wrong checksum: {method} {expected} is expected, the file of "
            f"{path.stat().st_size:,} bytes has {found}. If it is damaged, delete {path}, and the "
            "next start downloads it again. If its publisher changed it and you trust the change, "
            f"write the line '{found} {url}' into a text file and set {CHECKSUMS} to the path of "
            "that file."
        )


def _own_checksums() -> dict[str, str]:
    """Returns {URL: checksum} from the user's list, which has lines "CHECKSUM URL"."""
    if not (name := os.environ.get(CHECKSUMS)):
        return {}
    try:
        lines = Path(name).expanduser().read_text(encoding="utf-8").splitlines()
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{CHECKSUMS} names {name}, but there is no such file.") from error
    entries = [line.split() for line in lines if line.strip()]
    if wrong := [entry for entry in entries if len(entry) != 2 or len(entry[0]) not in (32, 64)]:
        raise ValueError(
            f"{name}: a line must be CHECKSUM URL, with an MD5 (32 characters) or SHA-256 (64), "
            f"got {' '.join(wrong[0])!r}."
        )
    return {url: checksum.lower() for checksum, url in entries}


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _unreachable(url: str, path: Path, size: int, error: Exception) -> ConnectionError:
    kept = f" {size:,} bytes are kept, and the next start continues there." if size else ""
    return ConnectionError(
        f"cannot download {url}: {_reason(error)}.{kept} If this machine has no network, download "
        f"the file on another one and copy it to {path}. Behind a proxy, set http_proxy and "
        "https_proxy."
    )


def _reason(error: Exception) -> str:
    """Returns a short reason, without the exceptions that requests and urllib3 wrap around it."""
    response = getattr(error, "response", None)
    if response is not None:
        return f"the server answers {response.status_code} {response.reason}"
    while inner := getattr(error, "reason", None) or next(
        (argument for argument in error.args if isinstance(argument, Exception)), None
    ):
        error = inner
    return str(error).strip().rstrip(".") or type(error).__name__
