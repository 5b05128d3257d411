"""Weights of several corpora: how often an epoch contains the pairs of each."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Integer


def temperature_weights(sizes: Sequence[int], temperature: float) -> tuple[float, ...]:
    """Returns weights with which corpus i has a share of n_i ** (1 / temperature) of the pairs.

    The shares are normalised, and an epoch still has sum(n_i) pairs, up to rounding. Temperature 1
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


def times_and_part(size: int, weight: float) -> tuple[int, int]:
    """Returns how often an epoch repeats all pairs of a corpus, and how many pairs it adds."""
    times = int(weight)
    return times, round((weight - times) * size)


def sample_mixture(
    rng: np.random.Generator, corpus_sizes: Sequence[int], weights: Sequence[float]
) -> Integer[np.ndarray, "n"]:
    """Returns the indices of the pairs of an epoch, corpus after corpus, according to `weights`."""
    kind = np.uint32 if sum(corpus_sizes) < 1 << 32 else np.int64  # half the memory
    chosen, start = [], 0
    for size, weight in zip(corpus_sizes, weights, strict=True):
        times, part = times_and_part(size, weight)
        chosen += [np.arange(start, start + size, dtype=kind)] * times
        if part:
            chosen.append((start + rng.permutation(size)[:part]).astype(kind))
        start += size
    return np.concatenate([np.empty(0, kind), *chosen])
