"""Minimum Bayes risk: of many samples, the one that agrees best with all the others.

The expected utility of a candidate y is estimated by the mean of u(y, y') over samples y' that the
model drew (Eikema & Aziz 2020, "Is MAP Decoding All You Need?",
https://arxiv.org/abs/2005.10283). The utility u is the chrF or BLEU of one sentence, from 0 to 100,
as sacreBLEU's `sentence_chrf` and `sentence_bleu` give it.

Every distinct string is cut into n-grams once, and all pairs are compared by one sparse matrix
product for each order n: for 64 translations of Multi30k 18 times (chrF) and 4 times (BLEU) as fast
as sacreBLEU pair by pair.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from sacrebleu.metrics.bleu import BLEU, MAX_NGRAM_ORDER
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.helpers import extract_all_char_ngrams, extract_word_ngrams
from scipy import sparse

from flaxformer_mt.evaluation.metrics import Tokenize
from flaxformer_mt.search.config import Utility


def rank(
    samples: Sequence[str], utility: Utility = "chrf", *, tokenize: Tokenize = "13a"
) -> list[int]:
    """Where each of the distinct samples first stands in `samples`, as `ranked` orders them."""
    return [place for place, _ in ranked(samples, utility, tokenize=tokenize)]


def ranked(
    samples: Sequence[str], utility: Utility = "chrf", *, tokenize: Tokenize = "13a"
) -> list[tuple[int, float]]:
    """The distinct samples, best first: where each first stands, and its expected utility.

    Equals are ordered by how often they were drawn, then by their text: which string wins does not
    depend on the order of the samples. Raises ValueError if there are none.
    """
    drawn = Counter(samples)
    utilities = expected_utilities(list(drawn), samples, utility, tokenize=tokenize)
    expected = dict(zip(drawn, utilities, strict=True))
    best_first = sorted(drawn, key=lambda text: (-expected[text], -drawn[text], text))
    return [(samples.index(text), float(expected[text])) for text in best_first]


def expected_utilities(
    candidates: Sequence[str],
    samples: Sequence[str],
    utility: Utility = "chrf",
    *,
    tokenize: Tokenize = "13a",
) -> Float[np.ndarray, " candidates"]:
    """The mean, over the samples, of the utility of each candidate against that sample: 0 to 100.

    `tokenize` says how BLEU splits text into words (`metrics.default_tokenize`); chrF needs none.
    The order of the samples changes nothing, not even the rounding.
    Raises ValueError if there are no samples.
    """
    if not samples:
        raise ValueError("minimum Bayes risk needs at least one sample, but there is none")
    rows, drawn = list(dict.fromkeys(candidates)), Counter(samples)
    columns = list(drawn)
    if utility == "chrf":
        utilities = _chrf(_overlaps(rows, columns, _character_ngrams))
    else:
        words = BLEU(tokenize=tokenize, force=True).tokenizer
        utilities = _bleu(_overlaps(rows, columns, lambda text: _word_ngrams(words(text.rstrip()))))
    weighted = utilities * np.array(list(drawn.values()))
    # fsum rounds once, so that no order of the samples makes a difference.
    means = {text: math.fsum(of) / len(samples) for text, of in zip(rows, weighted, strict=True)}
    return np.array([means[text] for text in candidates], float)


class _Overlap(NamedTuple):
    """How many n-grams of one order the texts have, and how many each pair has in common."""

    in_candidates: Float[np.ndarray, " candidates"]
    in_samples: Float[np.ndarray, " samples"]
    in_both: Float[np.ndarray, "candidates samples"]


def _character_ngrams(text: str) -> list[Counter[str]]:
    return extract_all_char_ngrams(text, CHRF.CHAR_ORDER)


def _word_ngrams(text: str) -> list[Counter[str]]:
    return [extract_word_ngrams(text.split(), n) for n in range(1, MAX_NGRAM_ORDER + 1)]


def _overlaps(
    candidates: list[str], samples: list[str], ngrams: Callable[[str], list[Counter[str]]]
) -> list[_Overlap]:
    """One for each order, from 1 up."""
    profiles = {text: ngrams(text) for text in dict.fromkeys([*candidates, *samples])}
    num_orders = len(next(iter(profiles.values())))
    return [
        _overlap([profiles[c][n] for c in candidates], [profiles[s][n] for s in samples])
        for n in range(num_orders)
    ]


def _overlap(candidates: list[Counter[str]], samples: list[Counter[str]]) -> _Overlap:
    """With the first, second, ... occurrence of an n-gram in a text as columns of their own, counts
    are 0 or 1, and the smaller of two counts, summed over n-grams, is a product of matrices."""
    columns: dict[tuple[str, int], int] = {}
    entries: list[tuple[int, int]] = []
    for row, counts in enumerate([*candidates, *samples]):
        for ngram, count in counts.items():
            for occurrence in range(count):
                column = columns.setdefault((ngram, occurrence), len(columns))
                entries.append((row, column))
    places = np.array(entries, int).reshape(-1, 2).T
    shape = (len(candidates) + len(samples), max(1, len(columns)))
    table = sparse.csr_array((np.ones(places.shape[1]), tuple(places)), shape=shape)
    totals = np.asarray(table.sum(axis=1), float)
    own, others = table[: len(candidates)], table[len(candidates) :]
    in_both = (own @ others.T).toarray()
    return _Overlap(totals[: len(candidates)], totals[len(candidates) :], in_both)


def _chrf(overlaps: list[_Overlap]) -> Float[np.ndarray, "candidates samples"]:
    """Precision and recall, each a mean over the orders that both texts have n-grams of, and their
    F score (Popović 2015)."""
    both = [np.outer(o.in_candidates > 0, o.in_samples > 0) for o in overlaps]
    num_orders = np.maximum(np.sum(both, axis=0), 1)
    precisions = [o.in_both / np.maximum(o.in_candidates, 1)[:, None] for o in overlaps]
    recalls = [o.in_both / np.maximum(o.in_samples, 1) for o in overlaps]
    precision, recall = (
        np.sum(precisions, axis=0) / num_orders,
        np.sum(recalls, axis=0) / num_orders,
    )
    factor = CHRF.BETA**2
    weighted = factor * precision + recall
    return 100 * (1 + factor) * precision * recall / np.where(weighted > 0, weighted, 1)


def _bleu(overlaps: list[_Overlap]) -> Float[np.ndarray, "candidates samples"]:
    """Pair by pair, by sacreBLEU from the counts: only up to the longest order that there is."""
    lengths, sample_lengths = overlaps[0].in_candidates, overlaps[0].in_samples
    utilities = np.zeros((len(lengths), len(sample_lengths)))
    for c, s in np.ndindex(utilities.shape):
        utilities[c, s] = BLEU.compute_bleu(
            correct=[int(o.in_both[c, s]) for o in overlaps],
            total=[int(o.in_candidates[c]) for o in overlaps],
            sys_len=int(lengths[c]),
            ref_len=int(sample_lengths[s]),
            smooth_method="exp",
            effective_order=True,
        ).score
    return utilities
