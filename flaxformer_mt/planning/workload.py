"""What a recipe asks of the hardware: batch shapes, and how many real tokens are in them."""

import dataclasses
import tempfile
from pathlib import Path

import numpy as np
from jaxtyping import Int

from flaxformer_mt.config import Config
from flaxformer_mt.data.batching.batch import BatchShape
from flaxformer_mt.data.batching.buckets import bucket_of
from flaxformer_mt.data.batching.packing import pack_lengths
from flaxformer_mt.data.pipeline import DataConfig, build_data, choose_shapes
from flaxformer_mt.data.sources.corpora import first_missing
from flaxformer_mt.data.tokenization.vocabulary import BOS_ID

MEDIAN_LENGTH, SIGMA, NUM_PAIRS = 27, 0.55, 20_000
"""Of the assumed lengths, in tokens: news has about these. Log-normal, cut off at the limits."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Workload:
    """The batches of a recipe.

    Attributes:
      origin: where shapes and vocabulary come from: read, or assumed; a sentence for people.
      shapes: of the batches, in ascending order.
      target_tokens: real target tokens of a full batch of each shape, padding not counted.
      shares: which part of all batches has each shape; sum 1.
      vocabulary: sizes of source and target vocabulary.
      bos_id: what a target begins with.
    """

    origin: str
    shapes: tuple[BatchShape, ...]
    target_tokens: tuple[float, ...]
    shares: tuple[float, ...]
    vocabulary: tuple[int, int]
    bos_id: int = BOS_ID

    @property
    def fill(self) -> float:
        """Part of the target cells of all batches that holds a token."""
        batches = list(zip(self.shapes, self.target_tokens, self.shares, strict=True))
        cells = sum(share * shape.rows * shape.target_length for shape, _, share in batches)
        return sum(share * tokens for _, tokens, share in batches) / cells

    @property
    def largest(self) -> BatchShape:
        """The shape that takes the most memory, as a rule: where attention sees the most cells."""
        return max(self.shapes, key=attention_cells)


def attention_cells(shape: BatchShape) -> int:
    """Scores of one head, in encoder, decoder and between them."""
    rows, source, target = shape
    return rows * (source * source + source * target + target * target)


def make_workload(config: Config, *, workdir: str = "", assume_lengths: bool = False) -> Workload:
    """The batches of the recipe: from its data where that lies here, else from stated assumptions.

    Nothing is downloaded. A tokenizer is learnt in a temporary directory, unless `workdir` has one.

    Raises ValueError or OSError for data that is here and cannot be used.
    """
    missing = missing_data(config.data)
    if assume_lengths or missing:
        why = "--assume-lengths" if assume_lengths else f"{missing} is not here"
        return _assumed(config, why)
    with tempfile.TemporaryDirectory() as temporary:
        kept = Path(workdir, "tokenizer")
        directory = str(kept) if workdir and kept.is_dir() else temporary
        data = build_data(config.data, tokenizer_directory=directory, seed=config.seed)
    pairs, vocabularies = data.epochs.pairs, (data.tokenizer.source, data.tokenizer.target)
    return _workload(
        f"shapes and vocabulary of the recipe's own data, {len(pairs):,} pairs",
        config,
        data.shapes,
        pairs.source_lengths,
        pairs.target_lengths,
        (vocabularies[0].size, vocabularies[1].size),
        vocabularies[1].bos_id,
    )


def missing_data(config: DataConfig) -> str:
    """The first text of the recipe that is not on this machine; "" if all is."""
    corpora = (config.train, config.validation, config.test)
    missing = (first_missing(corpus, directory=config.directory) for corpus in corpora)
    return next(filter(None, missing), "")


def _assumed(config: Config, why: str) -> Workload:
    data, size = config.data, config.data.tokenizer.vocab_size
    source, target = assumed_lengths(data.max_source_length, data.max_target_length)
    shapes = choose_shapes(data, source, target)
    origin = (
        f"ASSUMED ({why}): {NUM_PAIRS:,} pairs of log-normal lengths, median {MEDIAN_LENGTH} "
        f"tokens, sigma {SIGMA}, at most {data.max_source_length} -> {data.max_target_length}; a "
        f"vocabulary of {size:,}"
    )
    return _workload(origin, config, shapes, source, target, (size, size), BOS_ID)


def assumed_lengths(
    max_source_length: int, max_target_length: int
) -> tuple[Int[np.ndarray, "n"], Int[np.ndarray, "n"]]:
    """Tokens of sources and targets, always the same ones; a pair has about the same on each side.

    The longest sentences that are allowed are among them: their shape is compiled too.
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
    origin: str,
    config: Config,
    shapes: tuple[BatchShape, ...],
    source: Int[np.ndarray, "n"],
    target: Int[np.ndarray, "n"],
    vocabulary: tuple[int, int],
    bos_id: int,
) -> Workload:
    """Counts what is real in the batches."""
    if config.data.batching == "pack":
        num_packed = pack_lengths(source, target, shapes[-1]).max() + 1
        tokens_per_row = [float(target.sum() / num_packed)]
        batches = np.ones(1)
    else:
        buckets = bucket_of(shapes, source, target)
        counts = np.bincount(buckets, minlength=len(shapes))
        sums = np.bincount(buckets, weights=target, minlength=len(shapes))
        tokens_per_row = (sums / np.maximum(counts, 1)).tolist()
        batches = counts / [shape.rows for shape in shapes]
    of_shapes = zip(shapes, tokens_per_row, strict=True)
    return Workload(
        origin=origin,
        shapes=shapes,
        target_tokens=tuple(shape.rows * each for shape, each in of_shapes),
        shares=tuple((batches / batches.sum()).tolist()),
        vocabulary=vocabulary,
        bos_id=bos_id,
    )
