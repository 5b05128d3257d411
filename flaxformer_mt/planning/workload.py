"""Estimates the batches of a recipe from assumed sentence lengths, without reading data."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from flaxformer_mt.config import Config
from flaxformer_mt.data.batching.batch import BatchShape
from flaxformer_mt.data.batching.buckets import bucket_of
from flaxformer_mt.data.batching.packing import pack_lengths
from flaxformer_mt.data.pipeline import choose_shapes

MEDIAN_LENGTH, SIGMA, NUM_PAIRS = 27, 0.55, 20_000
"""Assumed lengths in tokens: log-normal, clipped at the limits, similar to news text."""


class AssumedBatch(NamedTuple):
    """The full batches of one shape."""

    shape: BatchShape
    target_tokens: float
    """Target tokens of one batch, without padding."""
    share: float
    """Fraction of all batches that have this shape."""


def assume_batches(config: Config) -> list[AssumedBatch]:
    """Returns the batches for sentences of assumed lengths, in ascending order of shape."""
    source, target = _assume_lengths(config.data.max_source_length, config.data.max_target_length)
    shapes = choose_shapes(config.data, source, target)
    if config.data.batching == "pack":
        (shape,) = shapes
        num_rows = pack_lengths(source, target, shape).max() + 1
        return [AssumedBatch(shape, target.sum() / num_rows * shape.rows, 1.0)]
    bucket = bucket_of(shapes, source, target)
    pairs = np.bincount(bucket, minlength=len(shapes))
    tokens = np.bincount(bucket, weights=target, minlength=len(shapes))
    rows = np.array([shape.rows for shape in shapes])
    target_tokens, batches = tokens / np.maximum(pairs, 1) * rows, pairs / rows
    return list(map(AssumedBatch, shapes, target_tokens, batches / batches.sum()))


def largest_batch(batches: Sequence[AssumedBatch]) -> AssumedBatch:
    """Returns a batch of the shape with the most attention logits, with average padding."""
    cells = sum(batch.share * batch.shape.rows * batch.shape.target_length for batch in batches)
    fill = sum(batch.share * batch.target_tokens for batch in batches) / cells
    shape = max((batch.shape for batch in batches), key=attention_cells)
    return AssumedBatch(shape, fill * shape.rows * shape.target_length, 1.0)


def attention_cells(shape: BatchShape) -> int:
    """Returns the number of attention logits of one head: encoder, source and decoder attention."""
    rows, source, target = shape
    return rows * (source * source + source * target + target * target)


def describe_assumptions(config: Config) -> str:
    """Returns a sentence about the assumptions of `assume_batches`."""
    data = config.data
    return (
        f"Batch shapes: ASSUMED: {NUM_PAIRS:,} pairs of log-normal lengths, median {MEDIAN_LENGTH} "
        f"tokens, sigma {SIGMA}, at most {data.max_source_length} -> {data.max_target_length}; a "
        f"vocabulary of {data.tokenizer.vocab_size:,}."
    )


def _assume_lengths(*limits: int) -> list[Int[np.ndarray, "n"]]:
    """Returns the numbers of source and of target tokens. Both sides of a pair are similarly long.

    One pair has the maximal lengths, so that the largest shape is compiled.
    """
    rng = np.random.default_rng(0)
    common = rng.normal(np.log(MEDIAN_LENGTH), SIGMA, NUM_PAIRS)
    sides = []
    for limit in limits:
        lengths = np.exp(common + rng.normal(0.0, 0.1, NUM_PAIRS)).round().astype(np.int64)
        lengths[0] = limit
        sides.append(np.clip(lengths, 2, limit))
    return sides
