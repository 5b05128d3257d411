import datetime
import json
import pickle
import sys

import numpy as np
import pytest

from flaxformer_mt.data.sources.corpora import CorpusConfig, read_corpora
from flaxformer_mt.data.sources.pair import Pair
from flaxformer_mt.data.sources.records import parquet_blocks

PAIRS = [("cat", "Katze"), ("dog and\nbird", "Hund und Vogel"), ("tree", "Baum")]


def read(spec: str, directory, languages=("en", "de")) -> list[Pair]:
    (pairs,) = read_corpora(CorpusConfig(pairs=(spec,)), str(directory), languages)
    return pairs


EXPECTED = [(source.replace("\n", " "), target) for source, target in PAIRS]
COLUMNS = {
    "by language": {"en": [s for s, _ in PAIRS], "de": [t for _, t in PAIRS]},
    "by role": {"id": [1, 2, 3], "source": [s for s, _ in PAIRS], "target": [t for _, t in PAIRS]},
    "nested": {"translation": [{"de": t, "en": s} for s, t in PAIRS]},
}


def write_parquet(path, columns) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.table(columns), path)


@pytest.mark.parametrize("columns", COLUMNS.values(), ids=COLUMNS)
def test_parquet(tmp_path, columns):
    write_parquet(tmp_path / "a.parquet", columns)
    assert read("a.parquet", tmp_path) == EXPECTED
    blocks = parquet_blocks(tmp_path / "a.parquet", ("en", "de"), 2)
    parts = pickle.loads(pickle.dumps([part for _, _, part in blocks]))
    assert [record for part in parts for record in part()] == EXPECTED


def test_unusable_parquet_is_explained(tmp_path):
    write_parquet(tmp_path / "a.parquet", COLUMNS["by language"])
    with pytest.raises(ValueError, match=r'a\.parquet, line 1: expected .* under "fr" and "de"'):
        read("a.parquet", tmp_path, ("fr", "de"))


@pytest.mark.parametrize("read_parts", [False, True])
def test_a_folder_of_parquet_files_is_explained(tmp_path, read_parts):
    (tmp_path / "a.parquet").mkdir()
    write_parquet(tmp_path / "a.parquet" / "part-0.parquet", COLUMNS["by language"])
    with pytest.raises(ValueError, match=r"a\.parquet is a folder; name the files in it"):
        if read_parts:
            next(parquet_blocks(tmp_path / "a.parquet", ("en", "de"), 2))
        read("a.parquet", tmp_path)


def test_a_row_of_other_types_is_explained(tmp_path):
    write_parquet(tmp_path / "a.parquet", {"day": [datetime.date(2026, 1, 2)], "bytes": [b"a"]})
    with pytest.raises(ValueError, match=r"a\.parquet, line 1: expected .* got .*2026-01-02"):
        read("a.parquet", tmp_path)


def test_invalid_utf_8_in_parquet_names_the_file(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    ends = np.array([0, 1, 2], np.int32)
    broken = pyarrow.Array.from_buffers(
        pyarrow.string(), 2, [None, pyarrow.py_buffer(ends), pyarrow.py_buffer(b"a\xff")]
    )
    write_parquet(tmp_path / "a.parquet", {"en": broken, "de": ["x", "y"]})
    with pytest.raises(ValueError, match=r"a\.parquet cannot be read .* UTF8"):
        read("a.parquet", tmp_path)


def test_half_a_surrogate_in_a_bad_record_can_be_written(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"en": "\\ud800"}\n')
    with pytest.raises(ValueError, match=r"a\.jsonl, line 1: expected .* got .*ud800") as caught:
        read("a.jsonl", tmp_path)
    str(caught.value).encode()  # does not fail
    write_parquet(tmp_path / "empty.parquet", {"en": [], "de": []})
    with pytest.raises(ValueError, match="is empty"):
        read("empty.parquet", tmp_path)
    (tmp_path / "text.parquet").write_text("one two")
    with pytest.raises(ValueError, match=r"text\.parquet cannot be read as Parquet"):
        read("text.parquet", tmp_path)


def test_hugging_face(tmp_path, monkeypatch):
    pytest.importorskip("datasets", reason="needs the extra hf")
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    folder = tmp_path / "owner" / "pairs"
    folder.mkdir(parents=True)
    write_parquet(folder / "train-00000-of-00001.parquet", COLUMNS["nested"])
    assert read(f"hf:{folder}:train", tmp_path) == EXPECTED
    assert read(f"hf:{folder}:train[1:]", tmp_path) == EXPECTED[1:]
    with pytest.raises(ValueError, match="cannot be read: .*valid"):
        read(f"hf:{folder}:valid", tmp_path)
    with pytest.raises(ValueError, match='line 1: expected .* under "fr" and "de"'):
        read(f"hf:{folder}:train", tmp_path, ("fr", "de"))


def test_without_datasets_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ValueError, match=r"pip install 'flaxformer-mt\[hf\]'"):
        read(f"hf:{tmp_path}:train", tmp_path)


def test_a_key_translation_that_is_text_is_another_key(tmp_path):
    record = {"en": "a", "de": "x", "translation": "by hand"}
    (tmp_path / "a.jsonl").write_text(json.dumps(record) + "\n")
    assert read("a.jsonl", tmp_path) == [("a", "x")]


def test_parquet_may_have_other_columns(tmp_path):
    """Python has no such time, and needs another package for nanoseconds."""
    pyarrow = pytest.importorskip("pyarrow")
    times = pyarrow.array([2**62] * 2, pyarrow.timestamp("us"))
    columns = {"en": ["a", "b"], "de": ["x", "y"], "time": times}
    write_parquet(tmp_path / "a.parquet", columns)
    assert read("a.parquet", tmp_path) == [("a", "x"), ("b", "y")]
    for _, _, part in parquet_blocks(tmp_path / "a.parquet", ("en", "de"), 10):
        assert part() == [("a", "x"), ("b", "y")]
