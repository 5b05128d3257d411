"""Plans which pairs are in which batch of an epoch: a pure function of (seed, epoch).

The plan does not depend on the number of processes or devices, nor on earlier epochs. So a run that
resumes on other hardware trains on the same batches.
"""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Integer

from flaxformer_mt.data.batching.batch import Batch, BatchShape, PlannedBatch, pack_batch
from flaxformer_mt.data.batching.buckets import bucket_of
from flaxformer_mt.data.batching.mixture import epoch_size, part_of_epoch, sample_mixture
from flaxformer_mt.data.tokenization.tokenized import Examples, SubwordSampler

ShardRows = Callable[[BatchShape], Integer[np.ndarray, "r"]]
"""Returns the row numbers that this process reads from a batch of this shape."""

Batcher = Callable[[Examples, Sequence[BatchShape], Integer[np.ndarray, "n"]], list[PlannedBatch]]
"""Makes batches from pairs in a given order: `bucket_pairs`, or `packing.pack_pairs`."""


def bucket_pairs(
    pairs: Examples, shapes: Sequence[BatchShape], order: Integer[np.ndarray, "n"]
) -> list[PlannedBatch]:
    """Puts one pair into each row, in the smallest batch shape that fits the pair.

    At most one batch of each shape has empty rows. Pairs that do not fill a batch move to the next
    larger shape, unless this costs more padding than the empty rows.

    Raises:
      ValueError: a pair is longer than the last shape.
    """
    buckets = bucket_of(shapes, *pairs.lengths(order))
    if np.any(buckets == len(shapes)):
        raise ValueError(
            f"{np.count_nonzero(buckets == len(shapes))} pairs are longer than the largest batch "
            f"shape, {shapes[-1]}; choose the shapes for the lengths of all pairs."
        )
    batches: list[PlannedBatch] = []
    rest = order[:0]
    for bucket, shape in enumerate(shapes):
        in_bucket = np.concatenate([rest, order[buckets == bucket]])
        full = len(in_bucket) // shape.rows * shape.rows
        row_sizes = np.ones(shape.rows, np.uint32)
        for start in range(0, full, shape.rows):
            batches.append(PlannedBatch(bucket, in_bucket[start : start + shape.rows], row_sizes))
        rest = in_bucket[full:]
        if len(rest) and not _moves_up(len(rest), shapes[bucket : bucket + 2]):
            batches.append(PlannedBatch(bucket, rest, row_sizes[: len(rest)]))
            rest = order[:0]
    return batches


@dataclasses.dataclass(frozen=True, eq=False)
class BatchPlan:
    """The batches of one epoch as indices of pairs; `batch(i)` makes batch i."""

    pairs: Examples
    shapes: tuple[BatchShape, ...]
    batches: Sequence[PlannedBatch]

    def __len__(self) -> int:
        return len(self.batches)

    @property
    def order(self) -> Integer[np.ndarray, "n"]:
        """Indices into `pairs`, row after row."""
        return np.concatenate([np.empty(0, np.uint32), *(batch.pairs for batch in self.batches)])

    def shape(self, index: int) -> BatchShape:
        """Returns the shape of batch `index` over all processes."""
        return self.shapes[self.batches[index].shape]

    def batch(self, index: int, rows: Integer[np.ndarray, "r"] | None = None) -> Batch:
        """Returns the rows of batch `index` with the given numbers, in this order; None = all rows.

        A number of `shape.rows` or more gives an empty row, because a partition over devices may
        need more rows than the batch has.

        Raises:
          ValueError: a negative number.
        """
        shape = self.shape(index)
        numbers = np.arange(shape.rows) if rows is None else rows
        if len(numbers) and numbers.min() < 0:
            raise ValueError(
                f"rows of a batch are numbered from 0, got {numbers.min()}; for an empty row, give "
                f"{shape.rows} or more."
            )
        _, pairs, row_sizes = self.batches[index]
        of_row = np.split(pairs, np.cumsum(row_sizes)[:-1])
        examples = [
            [self.pairs.example(pair) for pair in of_row[number].tolist()]
            if number < len(of_row)
            else []
            for number in numbers.tolist()
        ]
        return pack_batch(examples, shape._replace(rows=len(numbers)))

    @property
    def pairs_per_row(self) -> float:
        """Mean number of pairs in a non-empty row."""
        num_rows = sum(len(batch.row_sizes) for batch in self.batches)
        return sum(len(batch.pairs) for batch in self.batches) / max(num_rows, 1)

    @property
    def padding(self) -> float:
        """Fraction of padding in all batches, both sides together."""
        real = sum(int(lengths.sum()) for lengths in self.pairs.lengths(self.order))
        cells = [shape.rows * (shape.source_length + shape.target_length) for shape in self.shapes]
        return 1.0 - real / max(sum(cells[batch.shape] for batch in self.batches), 1)


def plan_in_order(
    pairs: Examples, shapes: Sequence[BatchShape], batcher: Batcher = bucket_pairs
) -> BatchPlan:
    """Plans one pass for evaluation, with every pair once, always in the same order."""
    return BatchPlan(pairs, tuple(shapes), batcher(pairs, shapes, np.arange(len(pairs))))


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Epochs:
    """Plans any epoch of the training data."""

    pairs: Examples
    shapes: tuple[BatchShape, ...]
    seed: int
    corpus_sizes: tuple[int, ...]
    """Number of pairs of each corpus. `pairs` has corpus after corpus."""
    weights: tuple[float, ...]
    """How often an epoch contains each corpus: 2 = twice; 0.5 = a random half, which differs in
    each epoch."""
    batcher: Batcher = bucket_pairs
    """Makes batches from the shuffled pairs. `plan` shuffles the batches too."""
    sampler: SubwordSampler | None = None
    """Tokenizes the pairs again for each epoch (subword sampling)."""
    first: BatchPlan | None = None
    """The result of `plan(0)`, if it is already known."""
    part_size: int = 0
    """An epoch with more pairs than this is planned in several parts, to bound memory; 0 = never.
    Each part counts as an epoch: with three parts, `plan(4)` is the second part of epoch 1."""

    @property
    def num_parts(self) -> int:
        """The number of parts in which an epoch is planned."""
        if not self.part_size:
            return 1
        return max(1, -(-epoch_size(self.corpus_sizes, self.weights) // self.part_size))

    def sample(self, epoch: int, is_stopped: Callable[[], bool] = lambda: False) -> Examples:
        """Returns the pairs of an epoch or part, with new segmentations if there is a sampler.

        Sampled pairs of a part are in its order. `is_stopped` is for `SubwordSampler.pairs_of`.
        """
        if self.sampler is None:
            return self.pairs
        order = None if self.num_parts == 1 else self._order(epoch)
        return self.sampler.pairs_of(epoch // self.num_parts, is_stopped, order)

    def plan(
        self,
        epoch: int,
        pairs: Examples | None = None,
        *,
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> BatchPlan:
        """Returns the batches of one epoch: a function of (seed, epoch) alone.

        `pairs` is the result of `sample(epoch)`, if it is already known. `is_stopped` is as in
        `SubwordSampler.pairs_of`.
        """
        if epoch == 0 and self.first is not None:
            return self.first
        if pairs is None:
            pairs = self.sample(epoch, is_stopped)
        rng = np.random.default_rng((self.seed, epoch))
        if self.num_parts == 1:
            order = rng.permutation(sample_mixture(rng, self.corpus_sizes, self.weights))
        else:
            order = self._order(epoch) if self.sampler is None else np.arange(len(pairs))
        batches = self.batcher(pairs, self.shapes, order)
        shuffled = [batches[i] for i in rng.permutation(len(batches))]
        return BatchPlan(pairs, self.shapes, shuffled)

    def _order(self, epoch: int) -> Integer[np.ndarray, "n"]:
        """Returns the indices of the pairs of part `epoch`, in order."""
        number, part = divmod(epoch, self.num_parts)
        return part_of_epoch(
            self.corpus_sizes,
            self.weights,
            seed=self.seed,
            epoch=number,
            part=part,
            num_parts=self.num_parts,
        )


def _moves_up(num_pairs: int, here_and_next: Sequence[BatchShape]) -> bool:
    """Returns whether these pairs take fewer cells in the next bucket than in their own batch."""
    if len(here_and_next) < 2:
        return False
    here, above = here_and_next
    cells_here = here.rows * (here.source_length + here.target_length)
    return num_pairs * (above.source_length + above.target_length) < cells_here
