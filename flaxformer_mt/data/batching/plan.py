"""Which pairs make up which batch of an epoch: a pure function of (seed, epoch).

Nothing here depends on how many processes or devices there are, nor on what was read before: a run
resumed on other hardware goes through the same batches.
"""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Int, Int64

from flaxformer_mt.data.batching.batch import Batch, BatchShape, PlannedBatch, pack_batch
from flaxformer_mt.data.batching.buckets import bucket_of
from flaxformer_mt.data.batching.mixture import draw_mixture
from flaxformer_mt.data.tokenization.tokenized import Resampler, TokenizedPairs

RowShare = Callable[[BatchShape], Int[np.ndarray, "r"]]
"""The numbers of those rows of a batch of this shape that this process reads."""

Cut = Callable[
    [TokenizedPairs, Sequence[BatchShape], Int64[np.ndarray, "n"]],
    list[PlannedBatch],
]
"""How pairs in an order become batches: `bucket_pairs` here, or `packing.pack_pairs`."""


def bucket_pairs(
    pairs: TokenizedPairs, shapes: Sequence[BatchShape], order: Int64[np.ndarray, "n"]
) -> list[PlannedBatch]:
    """One pair a row, in the smallest shape for it; all batches are full but at most one a shape.

    What is left at the end of a bucket moves up into the next one, whose shape holds it too, unless
    there it would take more cells than the empty rows that it would take here.

    Raises:
      ValueError: a pair that is longer than the last shape.
    """
    buckets = bucket_of(shapes, pairs.source_lengths[order], pairs.target_lengths[order])
    if np.any(buckets == len(shapes)):
        raise ValueError(
            f"{np.count_nonzero(buckets == len(shapes))} pairs are longer than the largest batch "
            f"shape, {shapes[-1]}; choose the shapes from the lengths of all the pairs."
        )
    batches: list[PlannedBatch] = []
    left = order[:0]
    for bucket, shape in enumerate(shapes):
        waiting = np.concatenate([left, order[buckets == bucket]])
        full = len(waiting) // shape.rows * shape.rows
        alone = np.ones(shape.rows, np.int64)
        for start in range(0, full, shape.rows):
            batches.append(PlannedBatch(bucket, waiting[start : start + shape.rows], alone))
        left = waiting[full:]
        if len(left) and not _moves_up(len(left), shapes[bucket : bucket + 2]):
            batches.append(PlannedBatch(bucket, left, alone[: len(left)]))
            left = order[:0]
    return batches


@dataclasses.dataclass(frozen=True, eq=False)
class BatchPlan:
    """The batches of one epoch, as indices; `batch(i)` makes the i-th when it is wanted."""

    pairs: TokenizedPairs
    shapes: tuple[BatchShape, ...]
    shape_of: Int[np.ndarray, "num_batches"]
    """Index into `shapes` of each batch."""
    order: Int64[np.ndarray, "n"]
    """Indices into `pairs`, row after row."""
    row_offsets: Int64[np.ndarray, "row_offsets"]
    """Where each row begins in `order`: bucketed rows have one pair each, packed ones several."""
    batch_offsets: Int64[np.ndarray, "batch_offsets"]
    """Where each batch begins among the rows."""

    def __len__(self) -> int:
        return len(self.shape_of)

    def shape(self, index: int) -> BatchShape:
        """The shape of batch `index` over all processes."""
        return self.shapes[self.shape_of[index]]

    def row(self, index: int, number: int) -> Int64[np.ndarray, "_"]:
        """The pairs in row `number` of batch `index`; none in rows beyond the last that has any."""
        place = self.batch_offsets[index] + number
        if place >= self.batch_offsets[index + 1]:
            return self.order[:0]
        return self.order[self.row_offsets[place] : self.row_offsets[place + 1]]

    def batch(self, index: int, rows: Int[np.ndarray, "r"] | None = None) -> Batch:
        """The rows of batch `index` that have these numbers, in this order; None = all of them.

        A number beyond the rows of the shape gives an empty row: the hardware may need more rows
        than the recipe has.

        Raises:
          ValueError: a negative number.
        """
        shape = self.shape(index)
        numbers = np.arange(shape.rows) if rows is None else rows
        if len(numbers) and numbers.min() < 0:
            raise ValueError(
                f"rows of a batch are numbered from 0, got {numbers.min()}; give the numbers of "
                f"the rows wanted, those from {shape.rows} on being empty."
            )
        examples = [
            [self.pairs.example(pair) for pair in self.row(index, number).tolist()]
            for number in numbers.tolist()
        ]
        return pack_batch(examples, shape._replace(rows=len(numbers)))

    @property
    def pairs_per_row(self) -> float:
        """Mean number of pairs in a row that has any."""
        return len(self.order) / max(len(self.row_offsets) - 1, 1)

    @property
    def padding(self) -> float:
        """Share of the cells of all batches, both sides together, that hold no token."""
        real = (self.pairs.source_lengths + self.pairs.target_lengths)[self.order].sum()
        cells = [shape.rows * (shape.source_length + shape.target_length) for shape in self.shapes]
        return 1.0 - float(real / np.array(cells)[self.shape_of].sum())


def plan_epoch(
    pairs: TokenizedPairs,
    shapes: Sequence[BatchShape],
    *,
    seed: int,
    epoch: int,
    corpus_sizes: Sequence[int],
    weights: Sequence[float],
    cut: Cut = bucket_pairs,
) -> BatchPlan:
    """One shuffled epoch over a mixture of corpora.

    Args:
      pairs: all corpora, one after the other.
      shapes: nested, in ascending order; see `choose_bucket_shapes`.
      corpus_sizes: how many of `pairs` each corpus has.
      weights: how often each corpus is seen: 2 is twice, 0.5 a random half, another one each epoch.
      cut: how the shuffled pairs become batches, which are then shuffled.
    """
    rng = np.random.default_rng((seed, epoch))
    order = rng.permutation(draw_mixture(rng, corpus_sizes, weights))
    batches = cut(pairs, shapes, order)
    return _assemble(pairs, shapes, [batches[i] for i in rng.permutation(len(batches))])


def plan_in_order(
    pairs: TokenizedPairs, shapes: Sequence[BatchShape], cut: Cut = bucket_pairs
) -> BatchPlan:
    """One pass for evaluation: every pair exactly once, always in the same order."""
    return _assemble(pairs, shapes, cut(pairs, shapes, np.arange(len(pairs))))


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Epochs:
    """All that the batches of any epoch are computed from."""

    pairs: TokenizedPairs
    shapes: tuple[BatchShape, ...]
    seed: int
    corpus_sizes: tuple[int, ...]
    weights: tuple[float, ...]
    cut: Cut = bucket_pairs
    resampler: Resampler | None = None
    """Tokenises the pairs anew for each epoch (subword regularisation)."""
    first: BatchPlan | None = None
    """What `plan(0)` returns, where that is known already."""

    def resamples(self, epoch: int) -> bool:
        """Whether `plan` has all text to cut into tokens, which takes long."""
        return self.resampler is not None and (epoch > 0 or self.first is None)

    def plan(self, epoch: int, pairs: TokenizedPairs | None = None) -> BatchPlan:
        """The batches of one epoch: a function of (seed, epoch) alone.

        `pairs` are what the resampler makes of them, where that is known already.
        """
        if epoch == 0 and self.first is not None:
            return self.first
        if pairs is None:
            pairs = self.pairs if self.resampler is None else self.resampler.pairs_of(epoch)
        return plan_epoch(
            pairs,
            self.shapes,
            seed=self.seed,
            epoch=epoch,
            corpus_sizes=self.corpus_sizes,
            weights=self.weights,
            cut=self.cut,
        )


def _moves_up(num_left: int, here_and_next: Sequence[BatchShape]) -> bool:
    """Whether the pairs left over take fewer cells in the next bucket than as a batch here."""
    if len(here_and_next) < 2:
        return False
    here, above = here_and_next
    cells_here = here.rows * (here.source_length + here.target_length)
    return num_left * (above.source_length + above.target_length) < cells_here


def _assemble(
    pairs: TokenizedPairs, shapes: Sequence[BatchShape], batches: Sequence[PlannedBatch]
) -> BatchPlan:
    none = np.empty(0, np.int64)  # for a plan without batches
    row_sizes = np.concatenate([none, *[batch.row_sizes for batch in batches]])
    return BatchPlan(
        pairs=pairs,
        shapes=tuple(shapes),
        shape_of=np.array([batch.shape for batch in batches], np.int64),
        order=np.concatenate([none, *[batch.pairs for batch in batches]]),
        row_offsets=np.concatenate([[0], np.cumsum(row_sizes)]),
        batch_offsets=np.cumsum([0, *[len(batch.row_sizes) for batch in batches]]),
    )
