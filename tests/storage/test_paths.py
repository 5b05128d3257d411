"""One module opens files here and in buckets."""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from flaxformer_mt.data.sources.text_files import read_text
from flaxformer_mt.storage import paths
from flaxformer_mt.storage.paths import (
    as_path,
    contains,
    download,
    file_sizes,
    is_remote,
    join,
    local_file,
    move_file,
    move_tree,
    new_folder,
    remove_tree,
    upload,
    write_file,
)


@pytest.fixture
def forget_packages(monkeypatch: pytest.MonkeyPatch):
    """Makes fsspec import the package of an address anew."""
    for scheme in ("gs", "s3"):
        monkeypatch.delitem(sys.modules["fsspec.registry"]._registry, scheme, raising=False)
    paths._prepare.cache_clear()
    yield
    paths._prepare.cache_clear()


@pytest.mark.parametrize("name", ["runs/one", "/runs/one", "C:/runs", "demo:train", "a:/b", ""])
def test_a_name_is_a_path_of_this_machine(name):
    assert as_path(name) == Path(name)
    assert not is_remote(name)


def test_a_tilde_is_the_home_directory_or_part_of_a_name(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert join("", "~/train.en") == tmp_path / "train.en"
    assert join("~", "train.en") == tmp_path / "train.en"
    assert join("", "~train.en") == Path("~train.en")


def test_an_address_keeps_its_slashes(object_store):
    for address in ("s3://bucket/run", Path("s3://bucket/run")):
        if object_store == "gs":
            address = type(address)(str(address).replace("s3:", "gs:"))
        assert str(as_path(address)) == f"{object_store}://bucket/run"
    assert as_path("file:///runs/one") == Path("/runs/one")
    assert str(join(f"{object_store}://bucket", "a/b")) == f"{object_store}://bucket/a/b"
    assert str(join(".", f"{object_store}://bucket/a")) == f"{object_store}://bucket/a"
    assert join("~", "a") == Path.home() / "a"


@pytest.mark.parametrize(
    ("scheme", "module", "extra"), [("gs", "gcsfs", "gcs"), ("s3", "s3fs", "s3")]
)
def test_a_missing_package_names_its_extra(monkeypatch, forget_packages, scheme, module, extra):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ValueError, match=rf"pip install 'flaxformer_mt\[{extra}\]'"):
        as_path(f"{scheme}://bucket/run")


def test_an_unknown_kind_of_address_is_refused():
    with pytest.raises(ValueError, match="gx:// is no known kind of address"):
        as_path("gx://bucket/run")


def test_files_and_folders_of_a_bucket(bucket, tmp_path):
    folder = as_path(bucket)
    write_file(folder / "a" / "one", b"1")
    write_file(folder / "a" / "b" / "two", b"22")
    assert file_sizes(folder / "a") == {"b/two": 2, "one": 1}
    move_tree(folder / "a", folder / "c")
    assert file_sizes(folder) == {"c/b/two": 2, "c/one": 1}
    download(folder / "c", tmp_path / "copy")
    assert file_sizes(tmp_path / "copy") == {"b/two": 2, "one": 1}
    upload(tmp_path / "copy", folder / "d", ["one"])
    (tmp_path / "file").write_text("new")
    move_file(tmp_path / "file", folder / "d" / "one")
    assert not (tmp_path / "file").exists()
    assert (folder / "d" / "one").read_text() == "new"
    remove_tree(folder / "c")
    remove_tree(folder / "none")
    assert file_sizes(folder) == {"d/one": 3}


def test_a_copy_of_a_file_is_made_once_and_again_after_a_change(bucket):
    address = as_path(bucket) / "text.en"
    write_file(address, b"one\n")
    copy = local_file(address)
    assert copy.read_bytes() == b"one\n"
    os.utime(copy, (1, 1))
    assert local_file(address).stat().st_mtime == 1  # the same copy
    write_file(address, b"two!\n")
    assert local_file(address).read_bytes() == b"two!\n"
    assert read_text(address).startswith("two!")
    with pytest.raises(FileNotFoundError, match=r"there is no file .*/none\.en.*text\.en"):
        read_text(as_path(bucket) / "none.en")


@pytest.mark.parametrize("last", [b"\r", b"\n", b"\r\n", b"=", b""])
def test_no_byte_is_lost(bucket, tmp_path, last):
    (tmp_path / "file").write_bytes(b"1\r2\xff\xc3" + last)
    upload(tmp_path, as_path(bucket), ["file"])
    write_file(as_path(bucket) / "other", b"1\r2\xff\xc3" + last)
    for name in ("file", "other"):
        assert (as_path(bucket) / name).read_bytes() == b"1\r2\xff\xc3" + last


@pytest.mark.slow
def test_a_failed_request_is_repeated(bucket, failed_requests):
    write_file(as_path(bucket) / "one", b"1")
    assert as_path(bucket).joinpath("one").read_bytes() == b"1"
    assert file_sizes(as_path(bucket)) == {"one": 1}
    assert len(failed_requests) >= 3  # writing, reading and listing


def test_threads_write_the_same_file_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"

    def write(number: int) -> bytes:
        write_file(path, bytes([number]) * 100_000)
        return path.read_bytes()

    with ThreadPoolExecutor(4) as pool:
        contents = list(pool.map(write, range(200)))
    assert all(len(content) == 100_000 and len(set(content)) == 1 for content in contents)
    assert list(tmp_path.iterdir()) == [path]


def test_the_root_contains_every_path(tmp_path: Path) -> None:
    assert contains(Path("/"), tmp_path) and contains(tmp_path, tmp_path / "a")
    assert not contains(tmp_path, Path("/")) and not contains(tmp_path / "a", tmp_path / "ab")


def test_a_new_folder_replaces_one_beside_files_with_similar_names(tmp_path):
    target = tmp_path / "out"
    (tmp_path / "out.temporary.txt").write_text("kept", encoding="utf-8")
    (tmp_path / "out.temporary.killed").mkdir()
    for content in ("first", "second"):
        with new_folder(target, lambda *_: None) as fresh:
            fresh.mkdir()
            (fresh / "file").write_text(content, encoding="utf-8")
        assert (target / "file").read_text(encoding="utf-8") == content
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "out.temporary.txt"]
