"""The pairs of an epoch: how often it contains the pairs of each corpus, and their order.

`sample_mixture` returns the pairs of a whole epoch. For a large corpus, `part_of_epoch` returns the
pairs of one part of a shuffled epoch. It computes the pair at each position from (seed, epoch,
position) alone, without a stored permutation. A permutation of 40 million pairs would need 320 MB,
and its batches several times that.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Integer, UInt64

_ROUNDS = 6
_CHUNK = 1 << 20  # positions that are computed together


def temperature_weights(sizes: Sequence[int], temperature: float) -> tuple[float, ...]:
    """Returns weights that give corpus i a share proportional to n_i ** (1 / temperature).

    n_i is its number of pairs. An epoch still has sum(n_i) pairs, up to rounding. Temperature 1
    gives weights of 1. Higher temperatures make the shares more equal (Arivazhagan et al. 2019,
    "Massively Multilingual Neural Machine Translation in the Wild", section 4.2). An empty corpus
    gets weight 1.
    """
    pairs = np.array(sizes, np.float64)
    shares = np.maximum(pairs, 1) ** (1 / temperature) * (pairs > 0)
    if not shares.any():
        return (1.0,) * len(sizes)
    seen = pairs.sum() * shares / shares.sum()
    return tuple(np.where(pairs > 0, seen / np.maximum(pairs, 1), 1.0).tolist())


def _times_and_part(size: int, weight: float) -> tuple[int, int]:
    """Returns how often an epoch contains a whole corpus, and how many further pairs of it."""
    times = int(weight)
    return times, round((weight - times) * size)


def sample_mixture(
    rng: np.random.Generator, corpus_sizes: Sequence[int], weights: Sequence[float]
) -> Integer[np.ndarray, "n"]:
    """Returns the indices of the pairs of an epoch, corpus after corpus, according to `weights`."""
    kind = np.uint32 if sum(corpus_sizes) < 1 << 32 else np.int64  # half the memory
    chosen, start = [], 0
    for size, weight in zip(corpus_sizes, weights, strict=True):
        times, part = _times_and_part(size, weight)
        chosen += [np.arange(start, start + size, dtype=kind)] * times
        if part:
            chosen.append((start + rng.permutation(size)[:part]).astype(kind))
        start += size
    return np.concatenate([np.empty(0, kind), *chosen])


def part_of_epoch(
    corpus_sizes: Sequence[int],
    weights: Sequence[float],
    *,
    seed: int,
    epoch: int,
    part: int,
    num_parts: int,
) -> Integer[np.ndarray, "n"]:
    """Returns the pairs in part `part` of a shuffled epoch with `num_parts` equal parts, in order.

    All parts together contain each pair as often as `sample_mixture` does.
    """
    counts = list(map(_num_pairs, corpus_sizes, weights))
    total = sum(counts)
    start, end = part * total // num_parts, (part + 1) * total // num_parts
    found = np.empty(end - start, np.uint32 if sum(corpus_sizes) < 1 << 32 else np.uint64)
    for first in range(start, end, _CHUNK):
        positions = np.arange(first, min(first + _CHUNK, end), dtype=np.uint64)
        shuffled = permute(positions, total, key=(seed, epoch, 0))
        mixed = _mix(shuffled, corpus_sizes, weights, counts, seed, epoch)
        found[first - start : first - start + len(mixed)] = mixed
    return found


def epoch_size(corpus_sizes: Sequence[int], weights: Sequence[float]) -> int:
    """Returns the number of pairs of an epoch."""
    return sum(map(_num_pairs, corpus_sizes, weights))


def permute(
    positions: UInt64[np.ndarray, "n"], total: int, *, key: Sequence[int]
) -> UInt64[np.ndarray, "n"]:
    """Returns the values of a pseudorandom permutation of range(total) at these positions.

    A Feistel network permutes the numbers below a power of 4. A result of `total` or more is
    permuted again, until it is below `total` (cycle walking).
    """
    half = np.uint64((max(total - 1, 1).bit_length() + 1) // 2)
    mask = np.uint64((1 << int(half)) - 1)
    keys = np.random.default_rng(tuple(key)).integers(1 << 63, size=_ROUNDS, dtype=np.uint64)
    result, outside = positions.copy(), np.arange(len(positions))
    while len(outside):
        left, right = result[outside] >> half, result[outside] & mask
        for round_key in keys:
            left, right = right, left ^ (_hash(right ^ round_key) & mask)
        result[outside] = (left << half) | right
        outside = outside[result[outside] >= total]
    return result


def _hash(x: UInt64[np.ndarray, "n"]) -> UInt64[np.ndarray, "n"]:
    """Returns 64 mixed bits of each number (SplitMix64)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _num_pairs(size: int, weight: float) -> int:
    """Returns how many pairs of a corpus an epoch has."""
    times, part = _times_and_part(size, weight)
    return times * size + part


def _mix(
    shuffled: UInt64[np.ndarray, "n"],
    corpus_sizes: Sequence[int],
    weights: Sequence[float],
    counts: Sequence[int],
    seed: int,
    epoch: int,
) -> UInt64[np.ndarray, "n"]:
    """Returns the pairs at these positions of an unshuffled epoch: corpus after corpus."""
    result = np.empty_like(shuffled)
    begin = first_pair = 0
    for number, (size, weight, count) in enumerate(zip(corpus_sizes, weights, counts, strict=True)):
        here = (shuffled >= begin) & (shuffled < begin + count)
        local = shuffled[here] - np.uint64(begin)
        whole = np.uint64(_times_and_part(size, weight)[0] * size)
        sampled = local >= whole
        pairs = local % np.uint64(max(size, 1))
        pairs[sampled] = permute(local[sampled] - whole, size, key=(seed, epoch, number + 1))
        result[here] = pairs + np.uint64(first_pair)
        begin, first_pair = begin + count, first_pair + size
    return result
