"""What the model is fed: single examples, and rectangles of them, padded to a few fixed shapes.

Numpy only. The sharding room turns a `Batch` into global `jax.Array`s.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int32, Int64


class Example(NamedTuple):
    """One tokenised sentence pair: the end token inside, no start token, no padding."""

    inputs: Int32[np.ndarray, "s"]
    targets: Int32[np.ndarray, "t"]


class BatchShape(NamedTuple):
    """The size of a batch: each distinct one costs one compilation of the training step."""

    rows: int  # B
    source_length: int  # S
    target_length: int  # T

    def __str__(self) -> str:
        return f"{self.rows} x ({self.source_length} -> {self.target_length})"


class PlannedBatch(NamedTuple):
    """A batch as numbers of pairs, which is all that a plan keeps of it."""

    shape: int
    """Index of its shape among the shapes of the plan."""
    pairs: Int64[np.ndarray, "_"]
    """Indices of its pairs, row after row."""
    row_sizes: Int64[np.ndarray, "_"]
    """How many of them are in each row that has any."""


class Batch(NamedTuple):
    """Token ids of both sides, with what tells sentences from padding.

    Segment 0 is padding; segments 1, 2, ... number the sentences within a row (bucketed batches
    have one a row), a sentence and its translation alike. Positions count from 0 within each
    sentence. At padding, ids and positions are 0 and mean nothing.
    """

    inputs: Int32[np.ndarray, "B S"]
    targets: Int32[np.ndarray, "B T"]
    inputs_positions: Int32[np.ndarray, "B S"]
    targets_positions: Int32[np.ndarray, "B T"]
    inputs_segment_ids: Int32[np.ndarray, "B S"]
    targets_segment_ids: Int32[np.ndarray, "B T"]


def pad_batch(examples: Sequence[Example], shape: BatchShape) -> Batch:
    """Puts one example into each row and fills up with padding: columns, then whole rows.

    Raises:
      ValueError: more examples than `shape.rows`, or one that is longer than the shape.
    """
    return pack_batch([[example] for example in examples], shape)


def pack_batch(rows: Sequence[Sequence[Example]], shape: BatchShape) -> Batch:
    """Puts several examples into each row, end to end, and fills up with padding.

    Args:
      rows: the examples of each row, any number of them; rows left over at the end are padding.
      shape: the size of the batch.

    Raises:
      ValueError: more rows than `shape.rows`, or examples that are longer than a row.
    """
    if len(rows) > shape.rows:
        raise ValueError(
            f"{len(rows)} rows of examples do not fit into the {shape.rows} of a batch of shape "
            f"{shape}; cut them into batches of at most {shape.rows}."
        )
    sources = [[example.inputs for example in row] for row in rows]
    targets = [[example.targets for example in row] for row in rows]
    source = _fill_rows(sources, shape.rows, shape.source_length, "source")
    target = _fill_rows(targets, shape.rows, shape.target_length, "target")
    return Batch(
        inputs=source.tokens,
        targets=target.tokens,
        inputs_positions=source.positions,
        targets_positions=target.positions,
        inputs_segment_ids=source.segment_ids,
        targets_segment_ids=target.segment_ids,
    )


class _Side(NamedTuple):
    """One side of a batch; L is S or T."""

    tokens: Int32[np.ndarray, "B L"]
    positions: Int32[np.ndarray, "B L"]
    segment_ids: Int32[np.ndarray, "B L"]


def _fill_rows(
    rows: Sequence[Sequence[Int32[np.ndarray, "_"]]], num_rows: int, length: int, side: str
) -> _Side:
    """The sentences of each row end to end, numbered from 1, in arrays that are 0 elsewhere."""
    tokens, positions, segment_ids = np.zeros((3, num_rows, length), np.int32)  # each [B L]
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
    return _Side(tokens, positions, segment_ids)
