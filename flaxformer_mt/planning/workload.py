"""The batches of a recipe: their shapes, and how many of their cells hold a token."""

import dataclasses
import tempfile
from pathlib import Path

import numpy as np
from jaxtyping import Int

from flaxformer_mt.config import Config
from flaxformer_mt.data.batching.batch import BatchShape
from flaxformer_mt.data.batching.buckets import bucket_of
from flaxformer_mt.data.batching.packing import pack_lengths
from flaxformer_mt.data.pipeline import build_data, choose_shapes
from flaxformer_mt.data.tokenization.vocabulary import BOS_ID
from flaxformer_mt.inference.grouping import length_menu

MEDIAN_LENGTH, SIGMA, NUM_PAIRS = 27, 0.55, 20_000
"""Assumed lengths in tokens: log-normal, cut off at the limits; news text is about like this."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Workload:
    """The batches of a recipe.

    Attributes:
      origin: whether shapes and vocabulary are read from data or assumed; a sentence.
      shapes: of the batches, in ascending order.
      target_tokens: of a full batch of each shape, without padding.
      shares: fraction of all batches that has each shape.
      source_lengths: that translation compiles its programs for.
      vocabulary: sizes of the source and the target vocabulary.
      bos_id: first token of every target.
    """

    origin: str
    shapes: tuple[BatchShape, ...]
    target_tokens: tuple[float, ...]
    shares: tuple[float, ...]
    source_lengths: tuple[int, ...]
    vocabulary: tuple[int, int]
    bos_id: int = BOS_ID

    @property
    def fill(self) -> float:
        """Fraction of the target cells of all batches that holds a token."""
        cells = sum(
            share * shape.rows * shape.target_length
            for shape, share in zip(self.shapes, self.shares, strict=True)
        )
        return float(np.dot(self.shares, self.target_tokens)) / cells

    @property
    def largest(self) -> "Workload":
        """The shape with the most attention logits and the longest source alone.

        The shape is as full of tokens as the average batch.
        """
        shape = max(self.shapes, key=attention_cells)
        tokens = shape.rows * shape.target_length * self.fill
        return dataclasses.replace(
            self,
            shapes=(shape,),
            target_tokens=(tokens,),
            shares=(1.0,),
            source_lengths=self.source_lengths[-1:],
        )


def attention_cells(shape: BatchShape) -> int:
    """Returns the attention logits of one head in encoder, decoder and source attention."""
    rows, source, target = shape
    return rows * (source * source + source * target + target * target)


def read_workload(config: Config, *, workdir: str = "") -> Workload:
    """Returns the batches of the recipe's own data; may download it as training would.

    The tokenizer is that of `workdir`; without one it is learned in a temporary directory.

    Raises ValueError or OSError for data that cannot be read.
    """
    with tempfile.TemporaryDirectory() as temporary:
        tokenizer = Path(workdir, "tokenizer")
        directory = str(tokenizer) if workdir and tokenizer.is_dir() else temporary
        data = build_data(config.data, tokenizer_directory=directory, seed=config.seed)
    pairs, source, target = data.epochs.pairs, data.tokenizer.source, data.tokenizer.target
    workload = _workload(config, data.shapes, pairs.source_lengths, pairs.target_lengths)
    return dataclasses.replace(
        workload,
        origin=f"of the recipe's own data, {len(pairs):,} pairs",
        vocabulary=(source.size, target.size),
        bos_id=target.bos_id,
    )


def assume_workload(config: Config) -> Workload:
    """Returns the batches of sentences of assumed lengths; reads no data."""
    source, target = assumed_lengths(config.data.max_source_length, config.data.max_target_length)
    return _workload(config, choose_shapes(config.data, source, target), source, target)


def assumed_lengths(
    max_source_length: int, max_target_length: int
) -> tuple[Int[np.ndarray, "n"], Int[np.ndarray, "n"]]:
    """Returns the tokens of sources and targets, always the same; both sides are about as long.

    One sentence has the maximal length, so that the largest shape is among those to compile.
    """
    rng = np.random.default_rng(0)
    common = rng.normal(np.log(MEDIAN_LENGTH), SIGMA, NUM_PAIRS)
    sides = []
    for longest in (max_source_length, max_target_length):
        lengths = np.exp(common + rng.normal(0.0, 0.1, NUM_PAIRS)).round().astype(np.int64)
        lengths[0] = longest
        sides.append(np.clip(lengths, 2, longest))
    return sides[0], sides[1]


def _workload(
    config: Config,
    shapes: tuple[BatchShape, ...],
    source: Int[np.ndarray, "n"],
    target: Int[np.ndarray, "n"],
) -> Workload:
    """The batches of sentences of these lengths, with the vocabulary of the config."""
    if config.data.batching == "pack":
        num_rows = pack_lengths(source, target, shapes[-1]).max() + 1
        tokens_per_row, batches = np.array([target.sum() / num_rows]), np.ones(1)
    else:
        buckets = bucket_of(shapes, source, target)
        counts = np.bincount(buckets, minlength=len(shapes))
        sums = np.bincount(buckets, weights=target, minlength=len(shapes))
        tokens_per_row = sums / np.maximum(counts, 1)
        batches = counts / [shape.rows for shape in shapes]
    size, data = config.data.tokenizer.vocab_size, config.data
    return Workload(
        origin=f"ASSUMED: {NUM_PAIRS:,} pairs of log-normal lengths, median {MEDIAN_LENGTH} "
        f"tokens, sigma {SIGMA}, at most {data.max_source_length} -> {data.max_target_length}; a "
        f"vocabulary of {size:,} (--read-data true reads the recipe's data)",
        shapes=shapes,
        target_tokens=tuple((tokens_per_row * [shape.rows for shape in shapes]).tolist()),
        shares=tuple((batches / batches.sum()).tolist()),
        source_lengths=length_menu(data.max_source_length),
        vocabulary=(size, size),
    )
