"""The input of all contenders: files of batches and sentences, and the rules of the search."""

import dataclasses
import os
import pickle
from pathlib import Path
from typing import Any

from flaxformer_mt.data.batching.batch import Batch, BatchShape
from flaxformer_mt.translation.config import DecodingConfig


def write(file: Path, given: Any) -> str:
    """Writes batches, or the token ids of sentences, into a file; returns its name."""
    file.write_bytes(pickle.dumps(given))
    return str(file)


def read(file: str | os.PathLike[str]) -> Any:
    """Reads a file of `write`."""
    return pickle.loads(Path(file).read_bytes())


def shape_of(batch: Batch) -> BatchShape:
    """Returns the shape of a batch."""
    (rows, source_length), (_, target_length) = batch.inputs.shape, batch.targets.shape
    return BatchShape(rows, source_length, target_length)


def search_rules(beam_size: int, *, length: int = 0, batch: int = 64) -> DecodingConfig:
    """Returns a search that ours, Hugging Face and CTranslate2 have, without extra cost for any.

    A score is log-probability / tokens. A beam search ends when `beam_size` hypotheses have ended.
    No token is forbidden, because the others would need extra rules for that.

    Args:
      beam_size: 1 is greedy search.
      length: 0, or the number of tokens of each translation, EOS included.
      batch: sentences in a batch.
    """
    usual = DecodingConfig(
        beam_size=beam_size,
        length_penalty=1.0,
        length_normalization="average",
        early_stopping="first",
        forced_end="free",
        allow_special=True,
        allow_unknown=True,
        max_rows_per_batch=batch,
        tokens_per_batch=batch * 256,
    )
    if not length:
        return usual
    return dataclasses.replace(
        usual, min_target_length=length, max_target_length=length, target_length_margin=length
    )
