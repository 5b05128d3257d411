"""Subword regularisation: samples a segmentation of a text.

SentencePiece can sample too, but two processes with equal seeds sample different pieces (unigram
and BPE, version 0.2.3). Resumed runs and worker processes must sample the same pieces. So the
samples here depend only on the text and the caller's generator.
"""

import heapq
import itertools
import math
from bisect import bisect_right
from collections.abc import Callable, Iterable
from functools import cache, lru_cache
from typing import NamedTuple, TypeAlias

# Words are cached, because they repeat. Whole sentences, as in Chinese, are not. The cache holds
# all words of a small corpus. In a larger corpus, it drops rare words before they repeat.
_CACHED_WORDS = 1 << 16
_LONGEST_CACHED = 32
# SentencePiece gives unknown characters the lowest piece score minus this.
_UNKNOWN_PENALTY = 10.0


class PieceTable(NamedTuple):
    """The pieces of a SentencePiece model, without control, unknown and byte pieces."""

    ids: dict[str, int]
    scores: dict[str, float]
    """Unigram: log-probability. BPE: minus the rank of the merge that makes the piece."""
    byte_ids: tuple[int, ...]
    """Ids of the 256 byte pieces; empty if the model has none."""
    unk_id: int

    def spell(self, pieces: Iterable[str]) -> list[int]:
        """Returns the ids of `pieces`. Unknown pieces become bytes, or the unknown token."""
        ids: list[int] = []
        for piece in pieces:
            if piece in self.ids:
                ids.append(self.ids[piece])
            elif self.byte_ids:
                ids += [self.byte_ids[byte] for byte in piece.encode("utf-8")]
            else:
                ids.append(self.unk_id)
        return self.join_unknown(ids)

    def join_unknown(self, ids: list[int]) -> list[int]:
        """Merges adjacent unknown tokens into one, as SentencePiece does."""
        if self.unk_id not in ids:
            return ids
        pairs = zip([None, *ids], ids, strict=False)
        return [token for before, token in pairs if not before == token == self.unk_id]


class _Arcs(NamedTuple):
    """All pieces that can end at one position of a text."""

    starts: tuple[int, ...]
    spelled: tuple[list[int], ...]
    """The ids of each piece, in reverse order."""
    cumulative: list[float]
    """Cumulative probabilities of the pieces, given that one of them ends here. The last number,
    which is 1 up to rounding, is left out."""


_Merge: TypeAlias = tuple[float, int, str]
"""Negative score, start of the left piece, and the merged piece."""


class UnigramSampler:
    """Samples a segmentation x with a probability proportional to P(x) ** alpha.

    Samples from all segmentations by forward filtering and backward sampling (Kudo 2018, "Subword
    Regularization", section 3.2).
    """

    def __init__(self, table: PieceTable, alpha: float) -> None:
        self._table, self._alpha = table, alpha
        self._longest_piece = max(map(len, table.ids), default=1)
        self._unknown_score = min(table.scores.values(), default=0.0) - _UNKNOWN_PENALTY
        self._cached_arcs = lru_cache(maxsize=_CACHED_WORDS)(self._arcs)
        self._spelled = cache(lambda piece: table.spell([piece])[::-1])

    def sample(self, text: str, random: Callable[[], float]) -> list[int]:
        """Returns piece ids of normalized `text`; `random` returns numbers from [0, 1)."""
        cached = len(text) <= _LONGEST_CACHED
        arcs = self._cached_arcs(text) if cached else self._arcs(text)
        ids: list[int] = []  # in reverse order
        end = len(text)
        while end:
            starts, spelled, cumulative = arcs[end - 1]
            chosen = bisect_right(cumulative, random())
            ids += spelled[chosen]
            end = starts[chosen]
        ids.reverse()
        return self._table.join_unknown(ids)

    def _arcs(self, text: str) -> list[_Arcs]:
        forward = [0.0]  # log of the summed weights of all segmentations of text[:i]
        arcs = []
        for end in range(1, len(text) + 1):
            starts, spelled, weights = [], [], []
            for start in range(max(0, end - self._longest_piece), end):
                score = self._table.scores.get(text[start:end])
                if score is None and end - start == 1:
                    score = self._unknown_score
                if score is not None:
                    starts.append(start)
                    spelled.append(self._spelled(text[start:end]))
                    weights.append(forward[start] + self._alpha * score)
            largest = max(weights)
            scaled = [math.exp(weight - largest) for weight in weights]
            total = sum(scaled)
            forward.append(largest + math.log(total))
            cumulative = list(itertools.accumulate(s / total for s in scaled[:-1]))
            arcs.append(_Arcs(tuple(starts), tuple(spelled), cumulative))
        return arcs


class BpeDropout:
    """Merges characters as the model does, but skips each merge with a probability.

    Provilkov et al. 2020, "BPE-Dropout". As in SentencePiece, a skipped merge is tried again only
    after one of its sides has changed.
    """

    def __init__(self, table: PieceTable, dropout: float) -> None:
        self._table, self._dropout = table, dropout
        self._cached_without_dropout = lru_cache(maxsize=_CACHED_WORDS)(self._without_dropout)

    def sample(self, text: str, random: Callable[[], float]) -> list[int]:
        """Returns piece ids of normalized `text`; `random` returns numbers from [0, 1)."""
        if len(text) > _LONGEST_CACHED:
            return self._merge(text, self._first_merges(text), random)
        first_merges, num_merges, ids = self._cached_without_dropout(text)
        numbers = []
        for _ in range(num_merges):
            numbers.append(random())
            if numbers[-1] < self._dropout:
                again = itertools.chain(numbers, iter(random, None)).__next__
                return self._merge(text, first_merges, again)
        return ids.copy()

    def _first_merges(self, text: str) -> list[_Merge]:
        """Returns the merges of adjacent characters, best first, which makes the list a heap."""
        pairs = [(text[left : left + 2], left) for left in range(len(text) - 1)]
        scores = self._table.scores
        return sorted((-scores[pair], left, pair) for pair, left in pairs if pair in scores)

    def _without_dropout(self, text: str) -> tuple[list[_Merge], int, list[int]]:
        """Returns the first merges, the number of merges without dropout, and the resulting ids."""
        # Numbers of 1 or more skip no merge.
        first_merges, counter = self._first_merges(text), itertools.count(1)
        ids = self._merge(text, first_merges, counter.__next__)
        return first_merges, next(counter) - 1, ids

    def _merge(
        self, text: str, first_merges: list[_Merge], random: Callable[[], float]
    ) -> list[int]:
        scores, length = self._table.scores, len(text)
        # Each piece is at its start. Positions that were merged to the left have "".
        pieces = list(text)
        before, after = list(range(-1, length - 1)), list(range(1, length + 1))
        merges = first_merges.copy()
        while merges:
            _, left, merged = heapq.heappop(merges)
            right = after[left]
            if right == length or not pieces[left] or pieces[left] + pieces[right] != merged:
                continue  # one of the two sides has changed
            if random() < self._dropout:
                continue
            pieces[left], pieces[right] = merged, ""
            after[left] = following = after[right]
            if following < length:
                before[following] = left
                wider = merged + pieces[following]
                if wider in scores:
                    heapq.heappush(merges, (-scores[wider], left, wider))
            if (preceding := before[left]) >= 0:
                wider = pieces[preceding] + merged
                if wider in scores:
                    heapq.heappush(merges, (-scores[wider], preceding, wider))
        return self._table.spell(filter(None, pieces))
