"""A corpus as token ids, held in flat arrays: 513 k pairs are two of them, not a million lists."""

import dataclasses
import itertools
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from jaxtyping import Int32, Int64

from flaxformer_mt.data.batching.batch import Example
from flaxformer_mt.data.sources.pair import Pair, PairSource
from flaxformer_mt.data.tokenization.tokenizer import Tokenizer
from flaxformer_mt.data.tokenization.vocabulary import tokenize_texts

# Enough to keep all cores at work; few enough to take no memory worth speaking of.
_TOKENIZED_AT_ONCE = 4096


@dataclasses.dataclass(frozen=True, eq=False)
class TokenizedPairs:
    """Token ids of all pairs end to end; pair i lies from `offsets[i]` to `offsets[i + 1]`."""

    inputs: Int32[np.ndarray, "source_tokens"]
    inputs_offsets: Int64[np.ndarray, "offsets"]
    targets: Int32[np.ndarray, "target_tokens"]
    targets_offsets: Int64[np.ndarray, "offsets"]

    def __len__(self) -> int:
        return len(self.inputs_offsets) - 1

    @property
    def source_lengths(self) -> Int64[np.ndarray, "n"]:
        """Source tokens of each pair, its end token counted."""
        return np.diff(self.inputs_offsets)

    @property
    def target_lengths(self) -> Int64[np.ndarray, "n"]:
        """Target tokens of each pair, its end token counted."""
        return np.diff(self.targets_offsets)

    def example(self, index: int) -> Example:
        """The pair `index`, as views into the flat arrays."""
        source, target = self.inputs_offsets, self.targets_offsets
        return Example(
            self.inputs[source[index] : source[index + 1]],
            self.targets[target[index] : target[index + 1]],
        )

    @classmethod
    def concatenate(cls, parts: Sequence["TokenizedPairs"]) -> "TokenizedPairs":
        """The pairs of all `parts`, one after the other."""
        return cls(
            inputs=np.concatenate([part.inputs for part in parts]),
            inputs_offsets=_offsets([part.source_lengths for part in parts]),
            targets=np.concatenate([part.targets for part in parts]),
            targets_offsets=_offsets([part.target_lengths for part in parts]),
        )


@dataclasses.dataclass(frozen=True, eq=False)
class TokenizedSource:
    """What became of one pair source: its usable pairs, and why the others are not."""

    pairs: TokenizedPairs
    kept: Int64[np.ndarray, "n"]
    """Index in the source of each usable pair."""
    dropped: Counter[str]
    """Pairs left out, counted by reason."""


def tokenize_source(
    source: PairSource, tokenizer: Tokenizer, *, max_source_length: int, max_target_length: int
) -> TokenizedSource:
    """Tokenises every pair, and drops those empty on a side or longer than the limits.

    Both limits count tokens, the end token included.
    """
    inputs, targets, kept = _Growing(), _Growing(), array("q")
    dropped: Counter[str] = Counter()
    for index, (source_ids, target_ids) in enumerate(_tokenize_pairs(source, tokenizer)):
        # Only the end token: blank text, or text that the tokeniser's normalisation wipes out.
        if len(source_ids) <= 1 or len(target_ids) <= 1:
            dropped["empty source" if len(source_ids) <= 1 else "empty target"] += 1
        elif len(source_ids) > max_source_length:
            dropped[f"source longer than {max_source_length} tokens"] += 1
        elif len(target_ids) > max_target_length:
            dropped[f"target longer than {max_target_length} tokens"] += 1
        else:
            inputs.append(source_ids)
            targets.append(target_ids)
            kept.append(index)
    return TokenizedSource(_frozen(inputs, targets), np.array(kept, np.int64), dropped)


def _tokenize_pairs(
    source: PairSource, tokenizer: Tokenizer
) -> Iterator[tuple[list[int], list[int]]]:
    """Token ids of both sides of every pair."""
    for start in range(0, len(source), _TOKENIZED_AT_ONCE):
        end = min(start + _TOKENIZED_AT_ONCE, len(source))
        pairs = [source[index] for index in range(start, end)]
        yield from zip(
            tokenize_texts(tokenizer.source, [pair.source for pair in pairs]),
            tokenize_texts(tokenizer.target, [pair.target for pair in pairs]),
            strict=True,
        )


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Resampler:
    """Cuts the same pairs into other pieces each epoch: subword regularisation (Kudo 2018).

    What is drawn depends on (seed, epoch, index of the pair) alone. A side that would exceed its
    limit keeps its plain tokens, so that the batch shapes chosen at the start hold every epoch.
    """

    texts: tuple[PairSource, ...]
    plain: TokenizedPairs
    """The pairs of all `texts`, one after the other, tokenised without sampling."""
    tokenizer: Tokenizer
    seed: int
    max_source_length: int
    max_target_length: int

    def pairs_of(self, epoch: int, numbers: range | None = None) -> TokenizedPairs:
        """All pairs as this epoch sees them, or those of some numbers."""
        inputs, targets = _Growing(), _Growing()
        for index in range(len(self.plain)) if numbers is None else numbers:
            pair = self._text(index)
            random = _numbers(np.random.default_rng((self.seed, epoch, index)))
            plain = self.plain.example(index)
            source_ids = self.tokenizer.source.sample(pair.source, random)
            target_ids = self.tokenizer.target.sample(pair.target, random)
            inputs.append(source_ids if len(source_ids) <= self.max_source_length else plain.inputs)
            targets.append(
                target_ids if len(target_ids) <= self.max_target_length else plain.targets
            )
        return _frozen(inputs, targets)

    def _text(self, index: int) -> Pair:
        for text in self.texts:
            if index < len(text):
                return text[index]
            index -= len(text)
        raise IndexError("there are fewer pairs")


def _numbers(rng: np.random.Generator) -> Callable[[], float]:
    """What `rng.random` gives one by one, drawn in blocks: in a fifth of the time."""
    return itertools.chain.from_iterable(iter(lambda: rng.random(64).tolist(), None)).__next__


class _Growing:
    """Token ids as they come, four bytes each."""

    def __init__(self) -> None:
        self.ids = array("i")
        self.offsets = array("q", [0])

    def append(self, ids: Sequence[int] | Int32[np.ndarray, "_"]) -> None:
        self.ids.extend(ids)
        self.offsets.append(len(self.ids))


def _frozen(inputs: _Growing, targets: _Growing) -> TokenizedPairs:
    return TokenizedPairs(
        inputs=np.array(inputs.ids, np.int32),
        inputs_offsets=np.array(inputs.offsets, np.int64),
        targets=np.array(targets.ids, np.int32),
        targets_offsets=np.array(targets.offsets, np.int64),
    )


def _offsets(lengths: Sequence[Int64[np.ndarray, "_"]]) -> Int64[np.ndarray, "offsets"]:
    return np.concatenate([[0], np.cumsum(np.concatenate(lengths))]).astype(np.int64)
