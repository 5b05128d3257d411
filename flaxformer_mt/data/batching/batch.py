"""Batches of token ids, padded to a few fixed shapes. NumPy only."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int32, Integer


class Example(NamedTuple):
    """One tokenized sentence pair, with EOS, without BOS and padding."""

    inputs: Int32[np.ndarray, "s"]
    targets: Int32[np.ndarray, "t"]


class BatchShape(NamedTuple):
    """The shape of a batch. Each shape compiles the training step once."""

    rows: int  # B
    source_length: int  # S
    target_length: int  # T

    def __str__(self) -> str:
        return f"{self.rows} x ({self.source_length} -> {self.target_length})"


class PlannedBatch(NamedTuple):
    """A batch before its arrays are made: the indices of its pairs."""

    shape: int
    """Index into the shapes of the plan."""
    pairs: Integer[np.ndarray, "_"]
    """Indices of the pairs, row after row."""
    row_sizes: Integer[np.ndarray, "_"]
    """Number of pairs in each non-empty row."""


class Batch(NamedTuple):
    """Token ids of both sides, with the positions and segments of the sentences in each row.

    Segment 0 is padding. Segments 1, 2, ... are the sentences of a row (one in a bucketed batch); a
    sentence and its translation have the same number. Positions count from 0 within each sentence.
    Padding has ids and positions 0.
    """

    inputs: Int32[np.ndarray, "B S"]
    targets: Int32[np.ndarray, "B T"]
    inputs_positions: Int32[np.ndarray, "B S"]
    targets_positions: Int32[np.ndarray, "B T"]
    inputs_segment_ids: Int32[np.ndarray, "B S"]
    targets_segment_ids: Int32[np.ndarray, "B T"]


def pad_batch(examples: Sequence[Example], shape: BatchShape) -> Batch:
    """Returns a batch with one example in each row, padded to the shape.

    Raises:
      ValueError: more examples than `shape.rows`, or an example longer than the shape.
    """
    return pack_batch([[example] for example in examples], shape)


def pack_batch(rows: Sequence[Sequence[Example]], shape: BatchShape) -> Batch:
    """Returns a batch with several examples in each row, one after the other, padded.

    Args:
      rows: the examples of each row. Missing rows, up to `shape.rows`, are padding.
      shape: the shape of the batch.

    Raises:
      ValueError: more rows than `shape.rows`, or examples longer than a row.
    """
    if len(rows) > shape.rows:
        raise ValueError(
            f"{len(rows)} rows of examples do not fit into the {shape.rows} of a batch of shape "
            f"{shape}; split them into batches of at most {shape.rows}."
        )
    sources = [[example.inputs for example in row] for row in rows]
    targets = [[example.targets for example in row] for row in rows]
    source = _fill_rows(sources, shape.rows, shape.source_length, "source")
    target = _fill_rows(targets, shape.rows, shape.target_length, "target")
    return Batch(source[0], target[0], source[1], target[1], source[2], target[2])


def _fill_rows(
    rows: Sequence[Sequence[Int32[np.ndarray, "_"]]], num_rows: int, length: int, side: str
) -> Int32[np.ndarray, "3 B L"]:
    """Returns tokens, positions and segment ids of one side; L is S or T. Padding is 0."""
    filled = np.zeros((3, num_rows, length), np.int32)
    tokens, positions, segment_ids = filled  # each [B L]
    columns = np.arange(length, dtype=np.int32)
    for row, sentences in enumerate(rows):
        start = 0
        for number, sentence in enumerate(sentences, start=1):
            end = start + len(sentence)
            if end > length:
                raise ValueError(
                    f"row {row} has {sum(map(len, sentences))} {side} tokens but the batch has "
                    f"{length} columns for them; choose a longer shape or drop the example."
                )
            tokens[row, start:end] = sentence
            positions[row, start:end] = columns[: end - start]
            segment_ids[row, start:end] = number
            start = end
    return filled
