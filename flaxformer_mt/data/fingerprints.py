"""Hashes of the training data, so that a resumed run detects changes.

A resumed run gets the same batches only if text, vocabulary and settings are the same.
"""

from collections.abc import Mapping, Sequence

from flaxformer_mt.data.batching.packing import pack_pairs
from flaxformer_mt.data.batching.plan import Epochs
from flaxformer_mt.data.tokenization.tokenized import hash_parts

BATCHES = "batches"
"""The key of the hash of the settings that determine the batches of given pairs."""


def fingerprint_data(names: Sequence[str], epochs: Epochs) -> dict[str, str]:
    """Returns a hash of the token ids of each corpus, and a hash of the batching.

    Args:
      names: names of the corpora, in order; a repeated name gets "#2" and so on.
      epochs: the pairs of the corpora, and the batching settings.

    Returns:
      {name: 16 hexadecimal digits}, with `BATCHES` as the last name.
    """
    prints, start = {}, 0
    for name, size in zip(_unique(names), epochs.corpus_sizes, strict=True):
        prints[name] = epochs.pairs.fingerprint(start, start + size)
        start += size
    sampling = None if epochs.sampler is None else epochs.sampler.tokenizer.settings
    recipe = (
        epochs.seed,
        [tuple(shape) for shape in epochs.shapes],
        "pack" if epochs.batcher is pack_pairs else "bucket",
        list(map(float, epochs.weights)),  # 1 and 1.0 must have equal hashes
        sampling and sampling.get("sampling_alpha"),
        *([epochs.num_parts] if epochs.num_parts > 1 else []),
    )
    return {**prints, BATCHES: hash_parts([repr(recipe).encode()])}


def changed(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Returns a sentence for each difference between two fingerprints; none if `before` is empty.

    A corpus that has a new name (such as another directory) but the same text is not a difference.
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
                "the settings of the batches have changed: the seed, the lengths and sizes of "
                "batches, bucketing or packing, the corpora and their weights, sampling, or the "
                "parts of an epoch (text in memory has no parts: see data.in_memory_mb)"
                if name == BATCHES
                else f"{name} has changed"
            )
    return lines or ["the order of the corpora has changed"]


def _unique(names: Sequence[str]) -> list[str]:
    """Returns the names; repeated ones get a number."""
    unique: list[str] = []
    for index, name in enumerate(names):
        earlier = names[:index].count(name)
        unique.append(f"{name} #{earlier + 1}" if earlier or name == BATCHES else name)
    return unique
