"""A corpus as token ids in flat arrays. They need much less memory than lists."""

import dataclasses
import functools
import hashlib
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Int, Int32, Int64, Integer

from flaxformer_mt.data.batching.batch import Example
from flaxformer_mt.data.sources.pair import Pair, PairSource
from flaxformer_mt.data.tokenization.tokenizer import Tokenizer
from flaxformer_mt.data.worker_processes import Workers

Ids = Sequence[int] | Int32[np.ndarray, "_"]
"""The token ids of a sentence."""
# Number of pairs to sample in one call, which takes about 0.05 s.
_SAMPLED_CHUNK = 512


@runtime_checkable
class Examples(Protocol):
    """Tokenized pairs, in memory (`TokenizedPairs`) or on disk (`PreparedPairs`)."""

    def __len__(self) -> int:
        """The number of pairs."""
        ...

    def lengths(
        self, order: Integer[np.ndarray, "m"], /
    ) -> tuple[Int[np.ndarray, "m"], Int[np.ndarray, "m"]]:
        """Returns the source lengths and the target lengths of the pairs with indices `order`."""
        ...

    def length_counts(self) -> Int[np.ndarray, "k 3"]:
        """Returns rows (source length, target length, number of pairs with these lengths)."""
        ...

    def example(self, index: int, /) -> Example:
        """Returns the token ids of pair `index`."""
        ...

    def fingerprint(self, start: int, end: int, /) -> str:
        """Returns the hash of the pairs from `start` to `end`."""
        ...


def count_lengths(
    source: Integer[np.ndarray, "n"],
    target: Integer[np.ndarray, "n"],
    counts: Int[np.ndarray, "n"] | None = None,
) -> Int[np.ndarray, "k 3"]:
    """Returns rows (source length, target length, number of pairs with these lengths).

    `counts` has the number of pairs of each item of `source` and `target`; None = one each.
    """
    codes = (source.astype(np.int64) << 32) | target.astype(np.int64)
    found, number = np.unique(codes, return_inverse=True)
    sums = np.bincount(number, counts).astype(np.int64)
    return np.stack([found >> 32, found & 0xFFFFFFFF, sums], axis=1)


def hash_parts(parts: Iterable[bytes | np.ndarray]) -> str:
    """Returns a hash of the concatenated parts, in 16 hexadecimal digits."""
    digest = hashlib.blake2b(digest_size=8)
    for part in parts:
        digest.update(part if isinstance(part, bytes) else part.data)
    return digest.hexdigest()


@dataclasses.dataclass(frozen=True, eq=False)
class TokenizedPairs:
    """Token ids of all pairs, concatenated; pair i is at `offsets[i]` to `offsets[i + 1]`."""

    inputs: Int32[np.ndarray, "source_tokens"]
    inputs_offsets: Int64[np.ndarray, "offsets"]
    targets: Int32[np.ndarray, "target_tokens"]
    targets_offsets: Int64[np.ndarray, "offsets"]

    def __len__(self) -> int:
        return len(self.inputs_offsets) - 1

    @property
    def source_lengths(self) -> Int64[np.ndarray, "n"]:
        """The number of source tokens of each pair, EOS included."""
        return np.diff(self.inputs_offsets)

    @property
    def target_lengths(self) -> Int64[np.ndarray, "n"]:
        """The number of target tokens of each pair, EOS included."""
        return np.diff(self.targets_offsets)

    @property
    def sides(self) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
        """The token ids and the offsets of source and target."""
        return (self.inputs, self.inputs_offsets), (self.targets, self.targets_offsets)

    def lengths(
        self, order: Integer[np.ndarray, "m"]
    ) -> tuple[Int[np.ndarray, "m"], Int[np.ndarray, "m"]]:
        """Returns the source lengths and the target lengths of the pairs with indices `order`."""
        return self.source_lengths[order], self.target_lengths[order]

    def length_counts(self) -> Int[np.ndarray, "k 3"]:
        """Returns rows (source length, target length, number of pairs with these lengths)."""
        return count_lengths(self.source_lengths, self.target_lengths)

    def fingerprint(self, start: int, end: int) -> str:
        """Returns the hash of the pairs from `start` to `end`."""
        parts = []
        for ids, offsets in self.sides:
            parts.append(np.diff(offsets[start : end + 1]).astype("<i8"))
            parts.append(ids[offsets[start] : offsets[end]].astype("<i4", copy=False))
        return hash_parts(parts)

    def example(self, index: int) -> Example:
        """Returns pair `index`, as views of the flat arrays."""
        source, target = self.inputs_offsets, self.targets_offsets
        return Example(
            self.inputs[source[index] : source[index + 1]],
            self.targets[target[index] : target[index + 1]],
        )

    @classmethod
    def concatenate(cls, parts: Sequence["TokenizedPairs"]) -> "TokenizedPairs":
        """Returns the concatenated pairs of all `parts`."""
        return cls(
            inputs=np.concatenate([part.inputs for part in parts]),
            inputs_offsets=_offsets([part.source_lengths for part in parts]),
            targets=np.concatenate([part.targets for part in parts]),
            targets_offsets=_offsets([part.target_lengths for part in parts]),
        )


class Tokenized(NamedTuple):
    """The kept pairs as token ids, and why the others were dropped."""

    pairs: TokenizedPairs
    kept: Int64[np.ndarray, "n"]
    """Index of each kept pair."""
    dropped: Counter[str]
    """Numbers of dropped pairs by reason."""


def tokenize_pairs(
    pairs: Sequence[Pair], tokenizer: Tokenizer, *, max_source_length: int, max_target_length: int
) -> Tokenized:
    """Tokenizes every pair. Drops pairs that have an empty side or exceed a limit.

    Both limits count tokens, EOS included.
    """
    reasons = (
        "empty source",
        "empty target",
        f"source longer than {max_source_length} tokens",
        f"target longer than {max_target_length} tokens",
    )
    inputs = tokenizer.source.tokenize_texts([pair.source for pair in pairs])
    targets = tokenizer.target.tokenize_texts([pair.target for pair in pairs])
    lengths = _lengths(inputs), _lengths(targets)
    # A side is empty (EOS alone) if its text is blank, or if normalisation removes all of it.
    conditions = [side <= 1 for side in lengths]
    conditions += [lengths[0] > max_source_length, lengths[1] > max_target_length]
    reason = np.select(conditions, range(len(reasons)), len(reasons))
    kept = np.flatnonzero(reason == len(reasons))
    dropped = Counter(reasons[index] for index in reason[reason < len(reasons)].tolist())
    inputs, targets = ([side[i] for i in kept.tolist()] for side in (inputs, targets))
    return Tokenized(_flat(inputs, targets), kept, dropped)


def _lengths(sentences: Sequence[Ids]) -> Int64[np.ndarray, "n"]:
    return np.fromiter(map(len, sentences), np.int64, len(sentences))


def _flat(inputs: Sequence[Ids], targets: Sequence[Ids]) -> TokenizedPairs:
    """Returns the token ids of sentences as flat arrays."""
    arrays: list[np.ndarray] = []
    for side in (inputs, targets):
        offsets = _offsets([_lengths(side)])
        ids = np.fromiter(itertools.chain.from_iterable(side), np.int32, offsets[-1])
        arrays += [ids, offsets]
    return TokenizedPairs(*arrays)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class SubwordSampler:
    """Samples a new segmentation of each pair for each epoch (Kudo 2018).

    A sample depends only on (seed, epoch, index of the pair). If a sampled side exceeds its maximum
    length, it keeps the tokens of `plain`, so that the batch shapes fit every epoch.
    """

    text: PairSource
    plain: Examples
    """The pairs of `text`, tokenized without sampling."""
    tokenizer: Tokenizer
    seed: int
    max_source_length: int
    max_target_length: int
    num_workers: int = 0
    """Number of processes that sample, each with a copy of the text; 0 = the calling thread."""

    def pairs_of(
        self,
        epoch: int,
        is_stopped: Callable[[], bool] = lambda: False,
        numbers: Sequence[int] | Integer[np.ndarray, "m"] | None = None,
    ) -> TokenizedPairs:
        """Returns all pairs of an epoch, or only the pairs with indices `numbers`, in this order.

        Raises ValueError soon after `is_stopped` becomes true, OSError if a process was killed.
        """
        if numbers is None:
            numbers = range(len(self.plain))
        starts = range(0, len(numbers), _SAMPLED_CHUNK)
        chunks = (numbers[start : start + _SAMPLED_CHUNK] for start in starts)
        sample = functools.partial(self.sample, epoch)
        parts: list[TokenizedPairs] = []
        with Workers(self.num_workers, here=False, setting="data.num_workers") as workers:
            for part in (workers.map if self.num_workers else map)(sample, chunks):
                if is_stopped():
                    raise ValueError("sampling was stopped")
                parts.append(part)
        return TokenizedPairs.concatenate(parts)

    def sample(
        self, epoch: int, numbers: Sequence[int] | Integer[np.ndarray, "m"]
    ) -> TokenizedPairs:
        """Returns the pairs of an epoch with indices `numbers`."""
        inputs: list[Ids] = []
        targets: list[Ids] = []
        for index in map(int, numbers):
            pair, plain = self.text[index], self.plain.example(index)
            random = _numbers(np.random.default_rng((self.seed, epoch, index)))
            source_ids = self.tokenizer.source.sample(pair.source, random)
            target_ids = self.tokenizer.target.sample(pair.target, random)
            inputs.append(source_ids if len(source_ids) <= self.max_source_length else plain.inputs)
            targets.append(
                target_ids if len(target_ids) <= self.max_target_length else plain.targets
            )
        return _flat(inputs, targets)


def _numbers(rng: np.random.Generator) -> Callable[[], float]:
    """Returns a function like `rng.random` that computes its numbers in blocks, for speed."""
    return itertools.chain.from_iterable(iter(lambda: rng.random(64).tolist(), None)).__next__


def _offsets(lengths: Sequence[Int64[np.ndarray, "_"]]) -> Int64[np.ndarray, "offsets"]:
    return np.concatenate([[0], np.cumsum(np.concatenate(lengths))]).astype(np.int64)
