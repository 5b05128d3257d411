"""What the model is fed: single examples, and rectangles of them, padded to a few fixed shapes.

Numpy only. The sharding room turns a `Batch` into global `jax.Array`s.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int32


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


class Batch(NamedTuple):
    """Token ids of both sides, with what tells sentences from padding.

    Segment 0 is padding; segments 1, 2, ... number the sentences within a row (bucketed batches
    have one a row). Positions count from 0 within each sentence. At padding, ids and positions are
    0 and mean nothing.
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
    if len(examples) > shape.rows:
        raise ValueError(
            f"{len(examples)} examples do not fit into the {shape.rows} rows of a batch of shape "
            f"{shape}; cut them into batches of at most {shape.rows}."
        )
    inputs, inputs_lengths = _pad_rows(
        [example.inputs for example in examples], shape.rows, shape.source_length, "source"
    )
    targets, targets_lengths = _pad_rows(
        [example.targets for example in examples], shape.rows, shape.target_length, "target"
    )
    inputs_positions, inputs_segment_ids = _number(inputs_lengths, shape.source_length)
    targets_positions, targets_segment_ids = _number(targets_lengths, shape.target_length)
    return Batch(
        inputs=inputs,
        targets=targets,
        inputs_positions=inputs_positions,
        targets_positions=targets_positions,
        inputs_segment_ids=inputs_segment_ids,
        targets_segment_ids=targets_segment_ids,
    )


def _pad_rows(
    sentences: Sequence[Int32[np.ndarray, "_"]], rows: int, length: int, side: str
) -> tuple[Int32[np.ndarray, "B S"], Int32[np.ndarray, "B"]]:
    """The sentences as rows of one zero-padded array, and their lengths (0 for rows left over)."""
    tokens = np.zeros((rows, length), np.int32)  # [B S]
    lengths = np.zeros(rows, np.int32)  # [B]
    for row, sentence in enumerate(sentences):
        if len(sentence) > length:
            raise ValueError(
                f"example {row} has {len(sentence)} {side} tokens but the batch has {length} "
                f"columns for them; choose a longer shape or drop the example."
            )
        tokens[row, : len(sentence)] = sentence
        lengths[row] = len(sentence)
    return tokens, lengths


def _number(
    lengths: Int32[np.ndarray, "B"], length: int
) -> tuple[Int32[np.ndarray, "B S"], Int32[np.ndarray, "B S"]]:
    """Positions (0, 1, 2, ...) and segment ids (1) of one sentence a row; both 0 at padding."""
    columns = np.arange(length, dtype=np.int32)  # [S]
    real = (columns < lengths[:, None]).astype(np.int32)  # [B S]
    return columns * real, real
