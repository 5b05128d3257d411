"""Tables with columns of text: Parquet files, and data sets of Hugging Face."""

import dataclasses
import functools
import importlib.util
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from flaxformer_mt.data.sources.pair import Pair
from flaxformer_mt.data.sources.quarantine import BadRecord, BadRecordError
from flaxformer_mt.data.sources.text_files import record_pair


@dataclasses.dataclass(frozen=True, eq=False)
class RecordPairs:
    """The pairs of a table with rows `records[i]`. A `PairSource`.

    It raises BadRecordError for a row without two sides.
    """

    records: Any
    languages: tuple[str, str]
    name: str
    """The name of the table, for messages."""

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, index: int) -> Pair:
        record = self.records[index]
        try:
            return record_pair(record, *self.languages)
        except ValueError as error:
            kind = "row without both sides"
            bad = BadRecord(kind, self.name, index + 1, str(error), str(record))
            raise BadRecordError(bad) from error


def parquet_blocks(
    path: Path, languages: tuple[str, str], size: int
) -> Iterator[tuple[int, float, Callable[[], RecordPairs]]]:
    """Yields blocks of `size` rows of a Parquet file, as `registry.BlockOfRecords`.

    The columns are named as the keys of `jsonl_pairs`.
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
                read = functools.partial(RecordPairs, rows, languages, str(path))
                yield len(batch), done / file.metadata.num_rows, read
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise ValueError(f"{path} cannot be read as Parquet: {error}") from error
    if not done:
        raise ValueError(f"{path} is empty; expected one pair a row.")


def _needed(names: Sequence[str], languages: tuple[str, str]) -> list[int]:
    """Returns the columns with text; all if there are none. (Python may lack a value of others.)"""
    wanted = {*languages, "source", "target", "translation"}
    return [i for i, name in enumerate(names) if name in wanted] or list(range(len(names)))


def hugging_face_files(name: str) -> tuple[Path, ...]:
    """Returns the files of a local folder, as `open_hugging_face` names it; else none."""
    folder = Path(name.partition("#")[0]).resolve()
    return tuple(sorted(f for f in folder.rglob("*") if f.is_file())) if folder.is_dir() else ()


def open_hugging_face(name: str, split: str, languages: tuple[str, str]) -> RecordPairs:
    """Opens a data set of huggingface.co, or of a local folder, through the package `datasets`.

    Args:
      name: "owner/name" or a folder, optionally with a configuration, as in "wmt/wmt14#de-en".
      split: a split of the data set, such as "train" or "train[:1%]".
      languages: of source and target; the columns are named as the keys of `jsonl_pairs`.

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
    return RecordPairs(records, languages, f"hf:{name}:{split}")
