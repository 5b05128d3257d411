"""Checks of a translation for faults, without a reference.

False alarms (share of good translations with a flag):

    references of Multi30k, validation and test, English to German    0.2 %, 0 %
    references of newstest2014 (without coverage)                     0.4 %
    laws and news, English to Chinese (without coverage)              0.9 %, 0.4 %

Faults made by hand (share that is flagged):

    a phrase of 1 to 4 words, repeated 5 or 8 times      100 %
    the whole source copied; two thirds of it            100 %, 98 %
    the translation ends after its first half             98 % (by coverage alone 71 %)
    the first half, or the middle, is missing             8 %, 23 % (attention shows little)

The checks are the same for all languages: spaces separate words, lengths are in tokens.
"""

import dataclasses
import re
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from flaxformer_mt.data.tokenization.vocabulary import SPACE

Kind = Literal["loop", "copy", "omission", "length", "truncation"]

MAX_REPEATS, MAX_LOOP_TOKENS = 2, 16
"""A sequence of up to 16 tokens may occur twice in a row (a single token three times, as in "..."),
or as often as the most repeated sequence of the source."""
MAX_COPIED = 0.5
"""Share of the longer words of the source that may occur unchanged in the translation. Words with a
capital letter (names), numbers, URLs and placeholders do not count."""
LONG_WORD = 4
"""Least letters of a copied word. Shorter words do not count as copied: "in" and "die" are words of
several languages."""
COPIED_LETTERS = 8
"""Least letters of all copied words: "tolerant" can be right in both languages."""
MIN_COVERAGE, MAX_UNCOVERED = 0.2, 0.25
"""A source token with less attention than 0.2 counts as omitted. A quarter of the tokens may be
omitted. The attention is the mean of all heads and layers, summed over the target tokens. (Each
target token gives 1 in total.)"""
MIN_TOKENS = 10
"""Least number of tokens to check: of the source for coverage, of the longer side for length."""
_WORD = re.compile(r"[^\W\d_]+")
_NOT_TO_TRANSLATE = re.compile(r"[!-~]*(?:://|www\.|[@<>{}\[\]%$&_=/\\])[!-~]*")
"""URLs, addresses, markup, placeholders, paths: ASCII up to the next space."""
_SENTENCE_ENDS = ".!?…。！？؟।"
_CLOSING = "\"'”’“»«)）]」』 "
_CUT_ENDS = ",;-，、；"


class Flag(NamedTuple):
    """One fault of a translation."""

    kind: Kind
    reason: str
    """A sentence for a reader, with the numbers."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class FlagLimits:
    """Limits of the checks that depend on the two languages."""

    min_length_ratio: float = 0.3
    """Least target tokens for each source token."""
    max_length_ratio: float = 3.0
    """Most target tokens for each source token. Adapt both limits to your language pair."""
    final_punctuation: bool = True
    """Flag a translation that ends within a sentence if the source ends with a full stop. Switch it
    off for a target language without full stops, such as Thai."""

    def __post_init__(self) -> None:
        if not 0 <= self.min_length_ratio < self.max_length_ratio:
            raise ValueError(
                "guard.min_length_ratio must be at least 0 and below guard.max_length_ratio, but "
                f"they are {self.min_length_ratio} and {self.max_length_ratio}"
            )


def check(
    source: str,
    source_tokens: Sequence[str],
    target: str,
    target_tokens: Sequence[str],
    *,
    attention: Float[np.ndarray, "T S"] | None = None,
    at_limit: bool = False,
    num_unread: int = 0,
    config: FlagLimits = FlagLimits(),
) -> tuple[Flag, ...]:
    """Returns the faults of `target` as a translation of `source`; none for a blank source.

    Args:
      source, target: the texts.
      source_tokens, target_tokens: the pieces of the texts, with EOS at the end.
      attention: of target tokens to source tokens. Without it, omissions are not found.
      at_limit: whether the search ended the translation at its length limit.
      num_unread: source tokens that were cut off before the model read the source.
      config: the limits.

    For a hypothesis that `Translator.translate(..., details=True)` returned, these are
    `details.source_tokens`, `details.target_tokens` and `details.attention`.
    Raises ValueError if `attention` does not fit the tokens.
    """
    if attention is not None and attention.shape[1] != len(source_tokens):
        raise ValueError(
            f"attention must have one column for each source token, EOS included, but there are "
            f"{attention.shape[1]} for {len(source_tokens)} tokens"
        )
    found: list[tuple[Kind, str]] = []
    if source.strip() and target.strip():
        coverage = None if attention is None else attention.sum(axis=0)
        length = len(target_tokens)
        found = [
            ("loop", _loop(source, source_tokens, target_tokens)),
            ("copy", _copy(source, target)),
            ("omission", _omission(coverage)),
            ("length", _length(len(source_tokens) - 1, length - 1, config)),
            ("truncation", _truncation(source, target, length, at_limit, config)),
        ]
    elif _WORD.search(source) or re.search(r"\d", source):
        found = [("omission", "the translation is empty, the source is not")]
    if num_unread:
        lost = f"the last {num_unread} tokens of the source were not read"
        found.append(("truncation", lost))
    return tuple(Flag(kind, reason) for kind, reason in found if reason)


class _Repetition(NamedTuple):
    """The `length` items from `start` occur `count` times in a row."""

    count: int
    start: int
    length: int


def _most_repeated(items: Sequence[Any], length: int) -> _Repetition:
    """Returns the most repeated sequence of this length; count 1 if nothing is repeated."""
    best, same = _Repetition(1, 0, length), 0
    for index in range(length, len(items)):
        same = same + 1 if items[index] == items[index - length] else 0
        if same // length >= best.count:
            best = _Repetition(same // length + 1, index - same - length + 1, length)
    return best


def _loop(source: str, source_tokens: Sequence[str], target_tokens: Sequence[str]) -> str:
    lengths = range(1, MAX_LOOP_TOKENS + 1)
    loops = [
        loop
        for loop in (_most_repeated(target_tokens[:-1], length) for length in lengths)
        if loop.count > MAX_REPEATS + (loop.length == 1)
    ]
    if not loops:
        return ""
    worst = max(loops, key=lambda loop: (loop.count, -loop.length))
    # Characters count too: "aaaa" or "100000" can have different tokens on the two sides.
    in_source = [
        _most_repeated(items, n).count for items in (source_tokens[:-1], source) for n in lengths
    ]
    if worst.count <= max(in_source):
        return ""
    pieces = target_tokens[worst.start : worst.start + worst.length]
    has_spaces = any(SPACE in piece for piece in target_tokens)
    text = "".join(pieces).replace(SPACE, " ") if has_spaces else " ".join(pieces)
    return f"{text.strip()!r} is repeated {worst.count} times in a row"


def _copy(source: str, target: str) -> str:
    if source.isupper():  # a headline: its words are not all names
        source, target = source.lower(), target.lower()
    is_same = source.split() == target.split()
    words = _words_to_translate(source, 1 if is_same else LONG_WORD)
    kept = set(_WORD.findall(target))
    copied = [word for word in words if word in kept]
    if len(copied) <= MAX_COPIED * len(words) or sum(map(len, copied)) < COPIED_LETTERS:
        return ""
    if is_same:
        return "the translation is the source, unchanged"
    return f"{len(copied)} of the {len(words)} longer words of the source are left unchanged"


def _words_to_translate(source: str, min_letters: int) -> list[str]:
    words = _WORD.findall(_NOT_TO_TRANSLATE.sub(" ", source))
    return [word for word in words if len(word) >= min_letters and word == word.lower()]


def _omission(coverage: Float[np.ndarray, " S"] | None) -> str:
    if coverage is None or len(coverage) - 1 < MIN_TOKENS:
        return ""
    without_eos = coverage[:-1]  # tokens without a source attend to EOS
    num_uncovered = int(np.count_nonzero(without_eos < MIN_COVERAGE))
    if num_uncovered <= MAX_UNCOVERED * len(without_eos):
        return ""
    return (
        f"{num_uncovered} of the {len(without_eos)} source tokens received hardly any attention "
        f"(less than {MIN_COVERAGE:g})"
    )


def _length(source_length: int, target_length: int, config: FlagLimits) -> str:
    if max(source_length, target_length) < MIN_TOKENS:
        return ""
    ratio = target_length / max(source_length, 1)
    lengths = f"{target_length} tokens for a source of {source_length}"
    if ratio < config.min_length_ratio:
        return f"{lengths}: fewer than {config.min_length_ratio:g} for each source token"
    if ratio > config.max_length_ratio:
        return f"{lengths}: more than {config.max_length_ratio:g} for each source token"
    return ""


def _truncation(
    source: str, target: str, target_length: int, at_limit: bool, config: FlagLimits
) -> str:
    if at_limit:
        return f"the search ended the translation at its limit of {target_length} tokens"
    last, last_of_target = source.rstrip(_CLOSING)[-1:], target.rstrip(_CLOSING)[-1:]
    is_cut = last_of_target.isalnum() or last_of_target in _CUT_ENDS
    if config.final_punctuation and last and last in _SENTENCE_ENDS and last_of_target and is_cut:
        end = target.split()[-1][-20:]
        return f"the source ends with {last!r}, but the translation with {end!r}"
    return ""
