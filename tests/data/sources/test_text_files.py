import gzip
import lzma
import re
import tempfile
from pathlib import Path

import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flaxformer_mt.data.sources.pair import Pair
from flaxformer_mt.data.sources.quarantine import Record
from flaxformer_mt.data.sources.text_files import (
    lines_of,
    parse_jsonl,
    parse_tsv,
    parsed_blocks,
    read_text,
)


def read_lines(path: Path) -> list[str]:
    return lines_of(read_text(path))


def read(parse, path: Path, *languages: str) -> list[Record]:
    """Reads a file in blocks of two lines."""
    blocks = parsed_blocks(parse, path, languages, 2)
    return [record for _, _, block in blocks for record in block()]


def file_of(directory: Path, content: str | bytes, name: str = "text") -> Path:
    path = directory / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_lines_end_at_newlines_only(tmp_path):
    text = "one\u2028still one\x0bstill\ntwo\r\n\nü four\x85still"
    expected = ["one\u2028still one\x0bstill", "two", "", "ü four\x85still"]
    assert read_lines(file_of(tmp_path, text)) == expected
    assert read_lines(file_of(tmp_path, text + "\n")) == expected


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text().filter(lambda line: "\n" not in line), min_size=1))
def test_every_line_comes_back(lines):
    lines = ["first", *lines]  # else a leading U+FEFF is the mark of the file
    with tempfile.TemporaryDirectory() as directory:
        path = file_of(Path(directory), "".join(line + "\n" for line in lines))
        assert read_lines(path) == [line.removesuffix("\r") for line in lines]


def test_a_byte_order_mark_is_removed(tmp_path):
    assert read_lines(file_of(tmp_path, "\ufeffone\r\ntwo\r\n")) == ["one", "two"]


def zstandard(content: bytes) -> bytes:
    """Returns two frames, as after `cat a.zst b.zst`."""
    halves = content[: len(content) // 2], content[len(content) // 2 :]
    return b"".join(pyarrow.compress(half, codec="zstd", asbytes=True) for half in halves)


@pytest.mark.parametrize(
    ("suffix", "compress"),
    [(".gz", gzip.compress), (".xz", lzma.compress), (".zst", zstandard)],
)
def test_compressed_files_read_like_plain_ones(tmp_path, suffix, compress):
    packed = compress("eins\nzwei ü\n".encode())
    path = file_of(tmp_path, packed, f"text{suffix}")
    assert read_lines(path) == ["eins", "zwei ü"]
    for damaged in (packed[:-8], b"no archive at all"):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=rf"text\{suffix} has the suffix .* cannot be decom"):
            read_lines(path)


def test_an_empty_file_is_refused(tmp_path):
    with pytest.raises(ValueError, match="text is empty; expected one sentence a line"):
        read_lines(file_of(tmp_path, ""))


def test_invalid_utf8_is_reported_with_its_line(tmp_path):
    path = file_of(tmp_path, b"gut\n" * 300_000 + "schön\n".encode("latin1"))
    with pytest.raises(ValueError, match=r"text, line 300001: not UTF-8 \(byte 0xf6 at position 4"):
        read_lines(path)


def test_a_character_cut_in_two_by_the_end_of_the_file_is_invalid(tmp_path):
    with pytest.raises(ValueError, match="line 2: not UTF-8"):
        read_lines(file_of(tmp_path, b"a\nb" + "ü".encode()[:1]))


def test_characters_may_straddle_the_pieces_in_which_a_file_is_checked(tmp_path):
    line = "x" + "語" * 700_000  # 2.1 MB, in which no piece of 1 MiB ends with a character
    assert read_lines(file_of(tmp_path, line)) == [line]


def test_a_missing_file_is_reported_with_what_is_there(tmp_path):
    file_of(tmp_path, "x", "train.en")
    file_of(tmp_path, "x", "train.de")
    expected = re.escape(f"train.fr; {tmp_path.resolve()} holds: train.de, train.en.")
    with pytest.raises(FileNotFoundError, match=expected):
        read_lines(tmp_path / "train.fr")
    with pytest.raises(FileNotFoundError, match="holds: train.de, train.en"):
        read_lines(tmp_path / "no" / "such" / "folder" / "train.fr")
    with pytest.raises(FileNotFoundError, match="holds: train.de, train.en"):
        read_lines(tmp_path / "train.en" / "train.fr")


def test_a_directory_is_refused(tmp_path):
    with pytest.raises(ValueError, match="is a directory"):
        read_lines(tmp_path)


def test_tsv(tmp_path):
    path = file_of(tmp_path, "a b\tä b\r\n\tonly target\nc\td")
    assert read(parse_tsv, path) == [("a b", "ä b"), ("", "only target"), ("c", "d")]


@pytest.mark.parametrize(
    ("lines", "number", "reason"),
    [
        ("a\tb\nc\n", 2, "this one has no tab."),
        ("a\tb\tc\n", 1, "3 columns; `cut"),
        ("a\tb\n\n", 2, "is blank; delete it."),
        ("a\tb\n \r\nc\td\n", 2, "is blank; delete it."),
    ],
)
def test_a_tsv_line_without_two_columns_is_reported(tmp_path, lines, number, reason):
    records = read(parse_tsv, file_of(tmp_path, lines))
    assert [isinstance(record, Pair) for record in records].index(False) == number - 1
    assert reason in records[number - 1].reason


def test_jsonl_in_its_three_forms(tmp_path):
    path = file_of(
        tmp_path,
        '{"de": "Katze", "en": "cat", "id": 7}\n'
        '{"source": "dog\\r\\nhouse", "target": "Hund\\n"}\n'
        '{"translation": {"en": "\\u00fc", "de": "y"}}\n',
    )
    pairs = read(parse_jsonl, path, "en", "de")
    assert pairs == [("cat", "Katze"), ("dog house", "Hund "), ("ü", "y")]
    reason = read(parse_jsonl, path, "en", "fr")[0].reason
    assert 'expected an object with the sentences under "en" and "fr"' in reason


@pytest.mark.parametrize(
    "bad", ["", "{", "[" * 100_000, "[1, 2]", '{"en": "x"}', '{"en": "x", "de": 3}', "null"]
)
def test_a_malformed_jsonl_line_is_reported(tmp_path, bad):
    path = file_of(tmp_path, '{"en": "a", "de": "b"}\n' + bad + "\n")
    good, wrong = read(parse_jsonl, path, "en", "de")
    assert good == ("a", "b") and wrong.kind == "bad JSON"


def test_a_blank_line_in_jsonl_is_called_blank(tmp_path):
    for end in ("\n", " \r\n", "\n" + '{"en": "c", "de": "d"}'):
        path = file_of(tmp_path, '{"en": "a", "de": "b"}\n' + end)
        wrong = read(parse_jsonl, path, "en", "de")[1]
        assert "this line is blank; delete it" in wrong.reason


@pytest.mark.parametrize("mark", ["\ufeff", ""])
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_utf16_is_named(tmp_path, mark, encoding):
    if encoding.startswith("utf-32") and not mark:
        return
    path = file_of(tmp_path, f"{mark}Hund\nschön\n".encode(encoding))
    name = encoding[:6] if mark else encoding.replace("-le", "le").replace("-be", "be")
    message = f"text is {name.upper()}, not UTF-8; convert it first: `iconv -f {name} -t utf-8`"
    with pytest.raises(ValueError, match=message):
        read_lines(path)


def test_half_a_surrogate_pair_in_json_is_reported(tmp_path):
    path = file_of(tmp_path, '{"en": "\\ud800", "de": "b"}\n')
    (wrong,) = read(parse_jsonl, path, "en", "de")
    assert wrong.kind == "bad JSON"
