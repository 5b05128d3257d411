"""Split text that is too long for the model into pieces that fit."""

import re
from collections.abc import Callable

BOUNDARIES = tuple(
    re.compile(pattern)
    for pattern in (
        r"""[.!?…]["'”’»)\]]*\s+|[。！？]["'”’」』）]*\s*""",  # ends of sentences
        r"[,;:]\s+|[，、；：]\s*",  # ends of clauses
        r"\s+",  # ends of words
    )
)


def split_text(text: str, fits: Callable[[str], bool]) -> list[str]:
    """Split `text` into pieces for which `fits` holds; only the space between pieces is lost.

    Each piece is as long as possible and ends where a sentence ends, or else a clause, or else a
    word. Such an end must lie in the last three quarters of the longest possible piece; otherwise
    the piece is cut there. A single character is a piece even if it does not fit.
    """
    pieces = []
    rest = text.strip()
    while rest:
        end = longest_prefix(rest, fits)
        if end < len(rest):
            end = last_boundary(rest, end)
        pieces.append(rest[:end].rstrip())
        rest = rest[end:].lstrip()
    return pieces


def longest_prefix(text: str, fits: Callable[[str], bool]) -> int:
    """Length of the longest prefix that fits, about, and at least 1: doubling, then bisection.

    The cost depends on the prefix, not on the text: a line of a megabyte takes linear time.
    """
    good, bad = 1, 2
    while bad <= len(text) and fits(text[:bad]):
        good, bad = bad, 2 * bad
    bad = min(bad, len(text) + 1)
    while bad - good > 1:
        middle = (good + bad) // 2
        if fits(text[:middle]):
            good = middle
        else:
            bad = middle
    return good


def last_boundary(text: str, end: int) -> int:
    """The last end of a sentence, clause or word in the last three quarters of `text[:end]`."""
    for boundary in BOUNDARIES:
        matches = boundary.finditer(text[: end + 1])  # the space after a word need not fit
        cuts = [match.start() + len(match.group().rstrip()) for match in matches]
        cuts = [cut for cut in cuts if end // 4 < cut <= end]
        if cuts:
            return cuts[-1]
    return end
