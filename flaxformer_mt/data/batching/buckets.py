"""Chooses a few batch shapes for the lengths of a corpus.

The shapes are nested: each is at least as large as the previous one on both sides. A pair goes into
the smallest shape that fits it. Pairs that do not fill a batch move to the next larger shape, so
that an epoch has hardly any empty rows.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Int

from flaxformer_mt.data.batching.batch import BatchShape

# Candidate lengths on each side. More candidates reduce padding by less than 0.5 %.
_MAX_BORDERS = 64
# Largest difference between the fractions of pairs that the two lengths of a shape exclude.
_TOLERANCE = 0.15


def choose_bucket_shapes(
    source_lengths: Int[np.ndarray, "n"],
    target_lengths: Int[np.ndarray, "n"],
    counts: Int[np.ndarray, "n"] | None = None,
    *,
    tokens_per_batch: int,
    num_buckets: int,
    rows_multiple_of: int = 1,
) -> tuple[BatchShape, ...]:
    """Returns at most `num_buckets` nested shapes that fit every pair with the least padding.

    Args:
      source_lengths: source tokens of each pair, EOS included.
      target_lengths: target tokens of each pair, EOS included.
      counts: the number of pairs with these lengths; None = one each.
      tokens_per_batch: upper bound of rows x source_length and of rows x target_length.
      num_buckets: largest number of shapes (each is compiled once).
      rows_multiple_of: a divisor of the number of rows, for batches on several devices.

    Returns:
      Shapes in ascending order. The last has the length of the longest source and target.

    Raises:
      ValueError: no lengths, or `rows_multiple_of` rows of the longest pair exceed the bound.
    """
    if len(source_lengths) == 0 or len(source_lengths) != len(target_lengths):
        raise ValueError(
            f"expected equally many source and target lengths, at least one; got "
            f"{len(source_lengths)} and {len(target_lengths)}."
        )
    if counts is None:
        counts = np.ones(len(source_lengths), np.int64)
    corners, pairs_below = _candidate_corners(source_lengths, target_lengths, counts)
    chosen = corners[_cheapest_chain(corners, pairs_below, num_buckets)]
    return tuple(
        BatchShape(num_rows(max(s, t), tokens_per_batch, rows_multiple_of), s, t)
        for s, t in chosen.tolist()
    )


def bucket_of(
    shapes: Sequence[BatchShape],
    source_lengths: Int[np.ndarray, "n"],
    target_lengths: Int[np.ndarray, "n"],
) -> Int[np.ndarray, "n"]:
    """Returns the index of the smallest shape that fits each pair; `len(shapes)` if none does."""
    source_borders = [shape.source_length for shape in shapes]
    target_borders = [shape.target_length for shape in shapes]
    return np.maximum(
        np.searchsorted(source_borders, source_lengths),
        np.searchsorted(target_borders, target_lengths),
    )


def num_rows(longest: int, tokens_per_batch: int, rows_multiple_of: int) -> int:
    """Returns the number of rows of `longest` tokens in a batch. Raises ValueError if it is 0."""
    rows = tokens_per_batch // longest // rows_multiple_of * rows_multiple_of
    if rows == 0:
        raise ValueError(
            f"tokens_per_batch={tokens_per_batch} is too small: the longest pair has {longest} "
            f"tokens and a batch has at least {rows_multiple_of} rows, which makes "
            f"{longest * rows_multiple_of} tokens. Raise tokens_per_batch, or lower "
            f"max_source_length and max_target_length."
        )
    return rows


def _candidate_corners(
    source_lengths: Int[np.ndarray, "n"],
    target_lengths: Int[np.ndarray, "n"],
    counts: Int[np.ndarray, "n"],
) -> tuple[Int[np.ndarray, "P 2"], Int[np.ndarray, "P"]]:
    """Returns candidate shapes (source, target), largest last, and how many pairs fit each."""
    source_borders = _borders(source_lengths, counts)  # [X]
    target_borders = _borders(target_lengths, counts)  # [Y]
    between = np.zeros((len(source_borders), len(target_borders)), np.int64)  # [X Y]
    x = np.searchsorted(source_borders, source_lengths)
    y = np.searchsorted(target_borders, target_lengths)
    np.add.at(between, (x, y), counts)
    below = between.cumsum(axis=0).cumsum(axis=1)  # [X Y] pairs that fit
    sensible = _similar_fractions(between.sum(axis=1), between.sum(axis=0))  # [X Y]
    rows, columns = np.nonzero(sensible)
    corners = np.stack([source_borders[rows], target_borders[columns]], axis=1)  # [P 2]
    return corners, below[rows, columns]


def _borders(lengths: Int[np.ndarray, "n"], counts: Int[np.ndarray, "n"]) -> Int[np.ndarray, "X"]:
    """Returns candidate lengths: all lengths, or about 64 at quantiles and in geometric steps."""
    present = np.unique(lengths)
    if len(present) <= _MAX_BORDERS:
        return present
    fractions = np.linspace(0, 1, _MAX_BORDERS * 2 // 3)
    by_quantile = np.quantile(lengths, fractions, weights=counts, method="inverted_cdf")
    by_ratio = np.geomspace(present[0], present[-1], _MAX_BORDERS // 3)
    nearest = np.searchsorted(present, np.concatenate([by_quantile, by_ratio]))
    return present[np.unique(np.minimum(nearest, len(present) - 1))]


def _similar_fractions(
    source_counts: Int[np.ndarray, "X"], target_counts: Int[np.ndarray, "Y"]
) -> Bool[np.ndarray, "X Y"]:
    """Returns which combinations [X Y] of lengths exclude similar fractions of the pairs.

    Other combinations are bad shapes, because one side excludes many pairs that fit the other side.
    Without them, the search takes only milliseconds.
    """
    source_fraction = np.cumsum(source_counts) / np.sum(source_counts)  # [X]
    target_fraction = np.cumsum(target_counts) / np.sum(target_counts)  # [Y]
    source_fraction_before = np.concatenate([[0.0], source_fraction[:-1]])
    target_fraction_before = np.concatenate([[0.0], target_fraction[:-1]])
    # Each length adds many pairs at once, so compare the fractions before and after it.
    return (source_fraction_before[:, None] <= target_fraction[None, :] + _TOLERANCE) & (
        target_fraction_before[None, :] <= source_fraction[:, None] + _TOLERANCE
    )


def _cheapest_chain(
    corners: Int[np.ndarray, "P 2"], pairs_below: Int[np.ndarray, "P"], num_buckets: int
) -> Int[np.ndarray, "K"]:
    """Returns the indices of the nested corners that have the least padding; the last is P - 1.

    Dynamic programming. A pair goes into the first corner that fits it. So a chain ... < q < p
    costs (pairs_below[p] - pairs_below[q]) x cells[p] more than the chain that ends in q. The best
    chain of k corners that ends in p extends the best chain of k - 1 corners that ends in some q.
    """
    cells = corners.sum(axis=1).astype(np.float64)  # [P] tokens in one row
    own = pairs_below * cells  # [P]
    smaller = np.all(corners[None, :, :] <= corners[:, None, :], axis=2)  # [P Q]
    np.fill_diagonal(smaller, False)
    saved: Float[np.ndarray, "P Q"] = np.where(
        smaller, cells[:, None] * pairs_below[None, :], -np.inf
    )
    costs, previous = [own], []
    for _ in range(num_buckets - 1):
        extended = costs[-1][None, :] - saved  # [P Q]
        best = extended.argmin(axis=1)  # [P]
        previous.append(best)
        costs.append(own + np.take_along_axis(extended, best[:, None], axis=1)[:, 0])
    length = int(np.argmin([cost[-1] for cost in costs]))
    chain = [len(corners) - 1]
    for best in reversed(previous[:length]):
        chain.append(int(best[chain[-1]]))
    return np.array(chain[::-1])
