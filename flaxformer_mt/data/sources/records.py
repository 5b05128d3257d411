"""Tables with columns of text: Parquet files, and data sets of Hugging Face."""

import dataclasses
import functools
import importlib.util
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from flaxformer_mt.data.sources.quarantine import BadRecord, Record
from flaxformer_mt.data.sources.text_files import BlockOfRecords, row_pair


@dataclasses.dataclass(frozen=True, eq=False)
class Rows:
    """The records of a table, which are read on demand."""

    rows: Any
    record_of: Callable[[Any], Record]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Record:
        return self.record_of(self.rows[index])


def _row_record(row: Any, name: str, languages: tuple[str, str]) -> Record:
    """Returns the pair in a row of the table `name`, or a bad record with the reason."""
    try:
        return row_pair(row, *languages)
    except ValueError as error:
        return BadRecord("row without both sides", name, 0, str(error), str(row))


def _row_records(rows: Sequence[Any], name: str, languages: tuple[str, str]) -> list[Record]:
    return [_row_record(row, name, languages) for row in rows]


def parquet_blocks(path: Path, languages: tuple[str, str], size: int) -> Iterator[BlockOfRecords]:
    """Yields blocks of `size` rows of a Parquet file.

    The columns are named as the keys of `parse_jsonl`.
    Raises ValueError for a folder, or an empty or damaged file.
    """
    import pyarrow
    import pyarrow.parquet

    if path.is_dir():
        raise ValueError(f"{path} is a folder; name the files in it: {path}/*.parquet")
    done = 0
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(size):
                batch.validate(full=True)  # UTF-8
                done += len(batch)
                rows = batch.select(_needed(batch.schema.names, languages)).to_pylist()
                read = functools.partial(_row_records, rows, str(path), languages)
                yield len(batch), done / file.metadata.num_rows, read
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise ValueError(f"{path} cannot be read as Parquet: {error}") from error
    if not done:
        raise ValueError(f"{path} is empty; expected one pair a row.")


def _needed(names: Sequence[str], languages: tuple[str, str]) -> list[int]:
    """Returns the columns with text; all if there are none. Others may not convert to Python."""
    wanted = {*languages, "source", "target", "translation"}
    return [i for i, name in enumerate(names) if name in wanted] or list(range(len(names)))


def hugging_face_files(name: str) -> tuple[Path, ...]:
    """Returns the files of a data set in a local folder; none for one of huggingface.co."""
    folder = Path(name.partition("#")[0]).resolve()
    return tuple(sorted(f for f in folder.rglob("*") if f.is_file())) if folder.is_dir() else ()


def open_hugging_face(name: str, split: str, languages: tuple[str, str]) -> Rows:
    """Opens a data set of huggingface.co, or of a local folder, through the package `datasets`.

    Args:
      name: "owner/name" or a folder, optionally with a configuration, as in "wmt/wmt14#de-en".
      split: a split of the data set, such as "train" or "train[:1%]".
      languages: of source and target; the columns are named as the keys of `parse_jsonl`.

    Raises ValueError if the package is missing, or the data set is empty or cannot be read.
    """
    if importlib.util.find_spec("datasets") is None:
        raise ValueError(
            f"hf:{name}:{split} needs the package datasets: pip install 'flaxformer-mt[hf]' (in a "
            "checkout: pip install -e '.[hf]')."
        )
    import datasets

    path, _, configuration = name.partition("#")
    try:
        records = datasets.load_dataset(path, configuration or None, split=split)
    except (ValueError, OSError, RuntimeError, datasets.exceptions.DatasetsError) as error:
        raise ValueError(f"hf:{name}:{split} cannot be read: {error}") from error
    if not len(records):
        raise ValueError(f"hf:{name}:{split} is empty; expected one pair a row.")
    name = f"hf:{name}:{split}"
    return Rows(records, lambda row: _row_record(row, name, languages))
