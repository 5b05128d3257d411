"""Translation data sets of TensorFlow Datasets, read without TensorFlow."""

import importlib.util
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from flaxformer_mt.data.sources.pair import Pair
from flaxformer_mt.data.sources.records import Rows
from flaxformer_mt.data.sources.text_files import one_line


def open_tfds(
    name: str, split: str, languages: tuple[str, str], data_dir: str | None = None
) -> Rows:
    """Opens one split of a translation data set. The first time, TFDS downloads and prepares it.

    Args:
      name: name in TFDS, such as "wmt14_translate/de-en". It serves both directions.
      split: split in TFDS, such as "train" or "train[:1%]".
      languages: the features to translate from and into.
      data_dir: data directory of TFDS; None = TFDS_DATA_DIR, or the default of TFDS.

    Raises ValueError if TFDS has no such name, split or languages.
    """
    records = _open(name, split, data_dir)
    features = sorted(records[0]) if len(records) else []
    if missing := [language for language in languages if language not in features]:
        raise ValueError(
            f"tfds:{name}:{split} must have the features {languages[0]} (source) and "
            f"{languages[1]} (target), but lacks {' and '.join(missing)}; it has: "
            f"{', '.join(features) or 'none'}."
        )
    return Rows(records, lambda row: Pair(*(one_line(row[key].decode()) for key in languages)))


def _open(name: str, split: str, data_dir: str | None) -> Sequence[dict[str, Any]]:
    # Imported here, because few runs need TFDS. The first import registers its data sets.
    import tensorflow_datasets.translate as tfds_translate
    from tensorflow_datasets import data_source
    from tensorflow_datasets.core.download.download_manager import NonMatchingChecksumError
    from tensorflow_datasets.core.download.extractor import ExtractError
    from tensorflow_datasets.core.download.util import DownloadError

    del tfds_translate
    _extract_without_tensorflow()
    try:
        records: Any = data_source(name, split=split, data_dir=data_dir)
        return records
    except NotImplementedError as error:
        raise ValueError(
            f"tfds:{name}:{split} was prepared in a format without random access. Point "
            "TFDS_DATA_DIR at another directory, and TFDS prepares it there as array_record."
        ) from error
    except (ValueError, AssertionError) as error:  # AssertionError: an unknown version
        reason = str(error).partition("Available datasets")[0].strip()  # hundreds of names follow
        raise ValueError(f"tfds:{name}:{split} cannot be read: {reason}") from error
    except (DownloadError, ExtractError, NonMatchingChecksumError) as error:
        raise ValueError(f"tfds:{name}:{split} cannot be prepared: {error}") from error


def _extract_without_tensorflow() -> None:
    """Replaces the two TensorFlow functions with which TFDS extracts archives.

    See tensorflow/datasets#11058.
    """
    if importlib.util.find_spec("tensorflow") is None:
        from tensorflow_datasets.core.download import extractor

        file_system = SimpleNamespace(gfile=SimpleNamespace(GFile=open))
        strings = SimpleNamespace(as_text=str)
        extractor.tf = SimpleNamespace(io=file_system, compat=strings)  # pyrefly: ignore
