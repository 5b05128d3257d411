"""What went wrong in a translation, as far as source and translation show it without a reference.

The limits are meant to leave good translations alone. Flagged are, of the references of Multi30k
(validation and test, English to German) 0.2 % and 0 %, of newstest2014 0.4 %, of laws and news from
English to Chinese 0.9 % and 0.4 % (the last three without coverage), of the translations by a small
model of Multi30k 1.4 %, nearly all of them broken indeed. Of faults made by hand: 100 % of phrases
of 1 to 4 words repeated 5 or 8 times; 100 % of sources copied as a whole, 98 % where a third is
translated; 98 % of translations that end after their first half (by coverage alone 71 %). Attention
is a weak witness, though: of translations that lack their first half or the half in the middle,
only 8 % and 23 % are noticed.

Nothing here knows a language: words are what stands between spaces, lengths are counted in tokens.
"""

import dataclasses
import re
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float

Kind = Literal["loop", "copy", "omission", "length", "truncation"]

LONG_WORD = 4
"""Letters that a word must have to count as copied: many languages have an "in" or a "die"."""
COPIED_LETTERS = 8
"""What is copied must have so many letters: "tolerant" may be right in both languages."""
_WORD = re.compile(r"[^\W\d_]+")
_NOT_TO_TRANSLATE = re.compile(r"[!-~]*(?:://|www\.|[@<>{}\[\]%$&_=/\\])[!-~]*")
"""URLs, addresses, markup, placeholders, paths: ASCII up to the next space."""
_SENTENCE_ENDS = ".!?…。！？؟।"
_CLOSING = "\"'”’“»«)）]」』 "
_CUT_ENDS = ",;-，、；"


class Flag(NamedTuple):
    """One thing that looks wrong."""

    kind: Kind
    reason: str
    """A sentence for people, with the numbers."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class GuardConfig:
    """From where on something looks wrong."""

    max_repeats: int = 2
    """The same tokens may stand so often in a row (a single token once more, as in "..."), or as
    often as something does in the source."""
    max_loop_tokens: int = 16
    """Longest stretch of tokens of which a repetition is noticed."""
    max_copied: float = 0.5
    """Share of the longer words of the source that may stand unchanged in the translation. Words
    with a capital letter (names), numbers, URLs and placeholders are not counted."""
    min_coverage: float = 0.2
    """A source token that got less attention than this, summed over all target tokens (each gives
    1, the mean of all heads of all layers), counts as left out."""
    max_uncovered: float = 0.25
    """Share of the source tokens that may be left out."""
    min_length_ratio: float = 0.3
    """Fewer target tokens for each source token are too few ..."""
    max_length_ratio: float = 3.0
    """... and more than this too many. Narrow both around what is usual in your language pair."""
    min_tokens: int = 10
    """Below so many tokens (of source and target, the longer one) a ratio or share says nothing."""
    final_punctuation: bool = True
    """Notice a source that ends with a full stop and a translation that ends within a sentence. Off
    for a target language that writes none, such as Thai."""

    def __post_init__(self) -> None:
        for name in ("max_repeats", "max_loop_tokens", "min_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(
                    f"guard.{name} must be at least 1, but it is {getattr(self, name)}"
                )
        for name in ("max_copied", "max_uncovered"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(
                    f"guard.{name} is a share and must be between 0 and 1 (1 allows everything), "
                    f"but it is {getattr(self, name)}"
                )
        if not 0 <= self.min_coverage < float("inf"):
            raise ValueError(
                f"guard.min_coverage must be at least 0 (0 notices nothing), but it is "
                f"{self.min_coverage}"
            )
        if not 0 <= self.min_length_ratio < self.max_length_ratio:
            raise ValueError(
                f"guard.min_length_ratio must be at least 0 and below guard.max_length_ratio, but "
                f"they are {self.min_length_ratio} and {self.max_length_ratio}"
            )


def check(
    source: str,
    inputs: Sequence[int],
    target: str,
    targets: Sequence[int],
    *,
    coverage: Float[np.ndarray, " S"] | None = None,
    at_limit: bool = False,
    detokenize: Callable[[list[int]], str] | None = None,
    config: GuardConfig | None = None,
) -> list[Flag]:
    """What looks wrong in `target` as a translation of `source`; nothing does in a blank line.

    Args:
      source, target: the texts.
      inputs, targets: their tokens, EOS at the end.
      coverage: the attention that each source token (EOS too) received, summed over the target
        tokens; without it omissions are not looked for.
      at_limit: the search ended the translation because it had become too long.
      detokenize: of the target language, to quote what is repeated; without it, it is counted only.
      config: the limits.

    Raises ValueError if `coverage` does not belong to `inputs`.
    """
    config = config or GuardConfig()
    if coverage is not None and len(coverage) != len(inputs):
        raise ValueError(
            f"coverage must have one number for each source token, EOS included, but there are "
            f"{len(coverage)} for {len(inputs)} tokens"
        )
    if not source.strip():
        return []
    if not target.strip():
        empty = Flag("omission", "the translation is empty, the source is not")
        return [empty] if _WORD.search(source) or re.search(r"\d", source) else []
    found: list[tuple[Kind, str]] = [
        ("loop", _loop(source, inputs, targets, detokenize, config)),
        ("copy", _copy(source, target, config)),
        ("omission", _omission(coverage, config)),
        ("length", _length(len(inputs) - 1, len(targets) - 1, config)),
        ("truncation", _truncation(source, target, len(targets), at_limit, config)),
    ]
    return [Flag(kind, reason) for kind, reason in found if reason]


class _Repetition(NamedTuple):
    """`count` times in a row the `length` items from `start`."""

    count: int
    start: int
    length: int


def _most_repeated(items: Sequence[Any], length: int) -> _Repetition:
    """The longest row of equal stretches of this length; count 1 if nothing is repeated."""
    best, same = _Repetition(1, 0, length), 0
    for place in range(length, len(items)):
        same = same + 1 if items[place] == items[place - length] else 0
        if same // length >= best.count:
            best = _Repetition(same // length + 1, place - same - length + 1, length)
    return best


def _loop(
    source: str,
    inputs: Sequence[int],
    targets: Sequence[int],
    detokenize: Callable[[list[int]], str] | None,
    config: GuardConfig,
) -> str:
    lengths = range(1, config.max_loop_tokens + 1)
    loops = [
        loop
        for loop in (_most_repeated(targets[:-1], length) for length in lengths)
        if loop.count > config.max_repeats + (loop.length == 1)
    ]
    if not loops:
        return ""
    worst = max(loops, key=lambda loop: (loop.count, -loop.length))
    # In its characters too: "aaaa" or "100000" need not be cut into the same tokens on both sides.
    of_source = [_most_repeated(items, n).count for items in (inputs[:-1], source) for n in lengths]
    if worst.count <= max(of_source):
        return ""
    tokens = list(targets[worst.start : worst.start + worst.length])
    text = detokenize(tokens).strip() if detokenize else ""
    what = repr(text) if text else f"a stretch of {worst.length} tokens"
    return f"{what} is repeated {worst.count} times in a row"


def _copy(source: str, target: str, config: GuardConfig) -> str:
    if source.isupper():  # a headline: not all of it is names
        source, target = source.lower(), target.lower()
    is_same = source.split() == target.split()
    words = _words_to_translate(source, 1 if is_same else LONG_WORD)
    kept = set(_WORD.findall(target))
    copied = [word for word in words if word in kept]
    if len(copied) <= config.max_copied * len(words) or sum(map(len, copied)) < COPIED_LETTERS:
        return ""
    if is_same:
        return "the translation is the source, unchanged"
    return f"{len(copied)} of the {len(words)} longer words of the source are left unchanged"


def _words_to_translate(source: str, min_letters: int) -> list[str]:
    words = _WORD.findall(_NOT_TO_TRANSLATE.sub(" ", source))
    return [word for word in words if len(word) >= min_letters and word == word.lower()]


def _omission(coverage: Float[np.ndarray, " S"] | None, config: GuardConfig) -> str:
    if coverage is None or len(coverage) - 1 < config.min_tokens:
        return ""
    of_text = coverage[:-1]  # EOS is looked at when there is nothing to look at
    num_uncovered = int(np.count_nonzero(of_text < config.min_coverage))
    if num_uncovered <= config.max_uncovered * len(of_text):
        return ""
    return (
        f"{num_uncovered} of the {len(of_text)} source tokens received hardly any attention (less "
        f"than {config.min_coverage:g})"
    )


def _length(source_length: int, target_length: int, config: GuardConfig) -> str:
    if max(source_length, target_length) < config.min_tokens:
        return ""
    ratio = target_length / max(source_length, 1)
    lengths = f"{target_length} tokens for a source of {source_length}"
    if ratio < config.min_length_ratio:
        return f"{lengths} are less than {config.min_length_ratio:g} for each"
    if ratio > config.max_length_ratio:
        return f"{lengths} are more than {config.max_length_ratio:g} for each"
    return ""


def _truncation(
    source: str, target: str, target_length: int, at_limit: bool, config: GuardConfig
) -> str:
    if at_limit:
        return f"the search ended the translation at its limit of {target_length} tokens"
    last, last_of_target = source.rstrip(_CLOSING)[-1:], target.rstrip(_CLOSING)[-1:]
    is_cut = last_of_target.isalnum() or last_of_target in _CUT_ENDS
    if config.final_punctuation and last and last in _SENTENCE_ENDS and last_of_target and is_cut:
        end = target.split()[-1][-20:]
        return f"the source ends with {last!r}, but the translation with {end!r}"
    return ""
