"""Which pairs make up which batch of an epoch: a pure function of (seed, epoch).

Nothing here depends on how many processes or devices there are, nor on what was read before: a run
resumed on other hardware goes through the same batches.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
from jaxtyping import Int, Int64

from flaxformer_mt.data.batch import Batch, BatchShape, pad_batch
from flaxformer_mt.data.buckets import bucket_of
from flaxformer_mt.data.tokenized import Resampler, TokenizedPairs

# Of each batch: the index of its shape, and the indices of its pairs.
_Batches = list[tuple[int, Int64[np.ndarray, "_"]]]


@dataclasses.dataclass(frozen=True, eq=False)
class BatchPlan:
    """The batches of one epoch, as indices; `batch(i)` makes the i-th when it is wanted."""

    pairs: TokenizedPairs
    shapes: tuple[BatchShape, ...]
    shape_of: Int[np.ndarray, "num_batches"]
    """Index into `shapes` of each batch."""
    order: Int64[np.ndarray, "n"]
    """Indices into `pairs`, batch after batch."""
    offsets: Int64[np.ndarray, "offsets"]
    """Where each batch begins in `order`."""

    def __len__(self) -> int:
        return len(self.shape_of)

    def indices(self, index: int) -> Int64[np.ndarray, "rows"]:
        """The pairs in batch `index`, row by row; fewer than its rows at the end of a bucket."""
        return self.order[self.offsets[index] : self.offsets[index + 1]]

    def shape(self, index: int) -> BatchShape:
        """The shape of batch `index` over all processes."""
        return self.shapes[self.shape_of[index]]

    def batch(self, index: int, process_index: int = 0, process_count: int = 1) -> Batch:
        """This process's rows of batch `index`: one of `process_count` equal slices.

        Raises:
          ValueError: the rows of the shape do not divide by `process_count`.
        """
        shape = self.shape(index)
        rows, rest = divmod(shape.rows, process_count)
        if rest:
            raise ValueError(
                f"a batch of {shape.rows} rows cannot be shared evenly by {process_count} "
                f"processes; choose the shapes with rows_multiple_of={process_count}."
            )
        mine = self.indices(index)[process_index * rows : (process_index + 1) * rows]
        examples = [self.pairs.example(pair) for pair in mine.tolist()]
        return pad_batch(examples, shape._replace(rows=rows))

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
) -> BatchPlan:
    """One shuffled epoch over a mixture of corpora.

    Args:
      pairs: all corpora, one after the other.
      shapes: nested, in ascending order; see `choose_bucket_shapes`.
      corpus_sizes: how many of `pairs` each corpus has.
      weights: how often each corpus is seen: 2 is twice, 0.5 a random half, another one each epoch.
    """
    rng = np.random.default_rng((seed, epoch))
    order = rng.permutation(_mixture(rng, corpus_sizes, weights))
    batches = _cut_into_batches(pairs, tuple(shapes), order)
    return _assemble(pairs, shapes, [batches[i] for i in rng.permutation(len(batches))])


def plan_in_order(pairs: TokenizedPairs, shapes: Sequence[BatchShape]) -> BatchPlan:
    """One pass for evaluation: every pair exactly once, always in the same order, short first."""
    order = np.arange(len(pairs))
    return _assemble(pairs, shapes, _cut_into_batches(pairs, tuple(shapes), order))


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Epochs:
    """All that the batches of any epoch are computed from. Can be pickled, for worker processes."""

    pairs: TokenizedPairs
    shapes: tuple[BatchShape, ...]
    seed: int
    corpus_sizes: tuple[int, ...]
    weights: tuple[float, ...]
    resampler: Resampler | None = None
    """Tokenises the pairs anew for each epoch (subword regularisation)."""

    def plan(self, epoch: int) -> BatchPlan:
        """The batches of one epoch: a function of (seed, epoch) alone."""
        return plan_epoch(
            self.pairs if self.resampler is None else self.resampler.pairs_of(epoch),
            self.shapes,
            seed=self.seed,
            epoch=epoch,
            corpus_sizes=self.corpus_sizes,
            weights=self.weights,
        )


def _mixture(
    rng: np.random.Generator, corpus_sizes: Sequence[int], weights: Sequence[float]
) -> Int64[np.ndarray, "n"]:
    """Indices of the pairs of this epoch, each as often as the weight of its corpus says."""
    chosen, start = [], 0
    for size, weight in zip(corpus_sizes, weights, strict=True):
        times = int(weight)
        part = round((weight - times) * size)
        chosen += [np.arange(start, start + size)] * times
        if part:
            chosen.append(start + rng.permutation(size)[:part])
        start += size
    return np.concatenate([np.empty(0, np.int64), *chosen])


def _cut_into_batches(
    pairs: TokenizedPairs, shapes: tuple[BatchShape, ...], order: Int64[np.ndarray, "n"]
) -> _Batches:
    """The batches, unshuffled; all are full but at most one of each shape.

    What is left at the end of a bucket moves up into the next one, whose shape holds it too, unless
    there it would take more cells than the empty rows that it would take here.
    """
    buckets = bucket_of(shapes, pairs.source_lengths[order], pairs.target_lengths[order])
    if np.any(buckets == len(shapes)):
        raise ValueError(
            f"{np.count_nonzero(buckets == len(shapes))} pairs are longer than the largest batch "
            f"shape, {shapes[-1]}; choose the shapes from the lengths of all the pairs."
        )
    batches: _Batches = []
    left = order[:0]
    for bucket, shape in enumerate(shapes):
        waiting = np.concatenate([left, order[buckets == bucket]])
        full = len(waiting) // shape.rows * shape.rows
        cuts = range(0, full, shape.rows)
        batches += [(bucket, waiting[start : start + shape.rows]) for start in cuts]
        left = waiting[full:]
        if len(left) and not _moves_up(len(left), shapes[bucket : bucket + 2]):
            batches.append((bucket, left))
            left = order[:0]
    return batches


def _moves_up(num_left: int, here_and_next: tuple[BatchShape, ...]) -> bool:
    """Whether the pairs left over take fewer cells in the next bucket than as a batch here."""
    if len(here_and_next) < 2:
        return False
    here, above = here_and_next
    cells_here = here.rows * (here.source_length + here.target_length)
    return num_left * (above.source_length + above.target_length) < cells_here


def _assemble(
    pairs: TokenizedPairs,
    shapes: Sequence[BatchShape],
    batches: _Batches,
) -> BatchPlan:
    sizes = [len(indices) for _, indices in batches]
    return BatchPlan(
        pairs=pairs,
        shapes=tuple(shapes),
        shape_of=np.array([shape for shape, _ in batches], np.int64),
        order=np.concatenate([np.empty(0, np.int64), *[indices for _, indices in batches]]),
        offsets=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
    )
