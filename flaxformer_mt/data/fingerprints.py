"""What the batches of a run are made of, in a few digits, for a resumed run to compare.

A run goes through the batches that its seed says only as long as the text, the vocabulary and the
settings are what they were.
"""

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np

from flaxformer_mt.data.batching.packing import pack_pairs
from flaxformer_mt.data.batching.plan import Epochs
from flaxformer_mt.data.tokenization.tokenized import TokenizedPairs

BATCHES = "batches"
"""The key of all that decides the batches beside the pairs."""


def fingerprint_data(names: Sequence[str], epochs: Epochs) -> dict[str, str]:
    """A hash of each training corpus as token ids, and one of how they become batches.

    Args:
      names: of the corpora, in order; one that comes again gets "#2" and so on.
      epochs: their pairs, and what cuts and orders them.

    Returns:
      {name: 16 hexadecimal digits}, with `BATCHES` as the last name.
    """
    prints, start = {}, 0
    for name, size in zip(_unique(names), epochs.corpus_sizes, strict=True):
        prints[name] = _of_pairs(epochs.pairs, start, start + size)
        start += size
    sampling = None if epochs.resampler is None else epochs.resampler.tokenizer.settings
    recipe = (
        epochs.seed,
        [tuple(shape) for shape in epochs.shapes],
        "pack" if epochs.cut is pack_pairs else "bucket",
        list(epochs.weights),
        sampling and sampling.get("sampling_alpha"),
    )
    return {**prints, BATCHES: _digits(repr(recipe).encode())}


def changed(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """A line for each difference between two fingerprints, in words; none if nothing was known.

    The same text under another name, in another directory say, is the same.
    """
    if not before or list(before.values()) == list(now.values()):
        return []
    lines = []
    for name in [*before, *(name for name in now if name not in before)]:
        if name not in now:
            lines.append(f"{name} is gone")
        elif name not in before:
            lines.append(f"{name} is new")
        elif before[name] != now[name]:
            lines.append(
                "what makes batches of the pairs has changed: the seed, the lengths and sizes of "
                "batches, bucketing or packing, the corpora and their weights, or sampling"
                if name == BATCHES
                else f"{name} has changed"
            )
    return lines or ["the corpora stand in another order"]


def _of_pairs(pairs: TokenizedPairs, start: int, end: int) -> str:
    """Of the pairs from `start` to `end`."""
    parts = []
    for ids, offsets in (
        (pairs.inputs, pairs.inputs_offsets),
        (pairs.targets, pairs.targets_offsets),
    ):
        parts.append(np.diff(offsets[start : end + 1]).astype("<i8"))
        parts.append(ids[offsets[start] : offsets[end]].astype("<i4", copy=False))
    return _digits(*(memoryview(part) for part in parts))


def _digits(*parts: bytes | memoryview) -> str:
    digest = hashlib.blake2b(digest_size=8)
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def _unique(names: Sequence[str]) -> list[str]:
    """The names, from the second on that is equal with a number."""
    unique: list[str] = []
    for place, name in enumerate(names):
        earlier = names[:place].count(name)
        unique.append(f"{name} #{earlier + 1}" if earlier or name == BATCHES else name)
    return unique
