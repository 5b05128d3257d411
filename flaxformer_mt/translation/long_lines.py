"""Splits a line into its sentences, and a sentence that is too long into pieces that fit."""

import re
import unicodedata
from collections.abc import Callable

SPACES = re.compile(r"\s*")
BOUNDARIES = tuple(
    re.compile(pattern)
    for pattern in (
        r"""[.!?…]["'”’»)\]]*\s+|[。！？]["'”’」』）]*\s*""",  # ends of sentences
        r"[,;:]\s+|[，、；：]\s*",  # ends of clauses
        r"\s+",  # ends of words
    )
)


def split_sentences(line: str, language: str) -> list[str]:
    """Returns the sentences of `line`, each with the white space after it: joined, they are `line`.

    A sentence has a word of two letters, or an ideograph: "1." and the French "M." belong to the
    sentence after them. It ends with white space, or with a mark such as "。", so "example.Com" is
    not split. `language` is an ISO 639 code. sentencex applies the rules of English to a language
    that it does not know.
    """
    import sentencex  # not above: it takes 0.2 s, and training needs no sentences

    plain = re.sub(r"\s", " ", line)  # sentencex 1.0.32 panics at a no-break space before a mark
    try:
        pieces = sentencex.segment(language, plain)  # pyright: ignore[reportAttributeAccessIssue]
    except BaseException as error:  # a panic of Rust is no Exception
        if type(error).__name__ != "PanicException":
            raise
        pieces = [plain]
    if "".join(pieces) != plain:  # so that no character can disappear
        return [line]
    sentences, start, end = [], 0, 0
    for piece in pieces:
        end += len(piece)
        ends = line[end - 1].isspace() or not line[end - 1].isascii()
        if ends and _has_word(line[start:end]):
            sentences.append(line[start:end])
            start = end
    if sentences and not _has_word(line[start:]):
        sentences[-1] += line[start:]
    elif start < len(line):
        sentences.append(line[start:])
    return sentences


def _has_word(text: str) -> bool:
    letters = list(filter(str.isalpha, text))
    return len(letters) > 1 or any(unicodedata.category(letter) == "Lo" for letter in letters)


def split_text(text: str, fits: Callable[[str], bool]) -> list[str]:
    """Returns pieces of `text` for which `fits` holds; only the space between pieces is lost.

    Each piece is as long as possible and ends where a sentence ends, or else a clause, or else a
    word. Such an end must lie in the last three quarters of the longest possible piece; otherwise
    the piece ends inside a word. A single character is a piece even if it does not fit.
    """
    text = text.strip()
    pieces, start = [], 0
    while start < len(text):
        end = longest_prefix(text, start, fits)
        if end < len(text):
            end = last_boundary(text, start, end)
        pieces.append(text[start:end].rstrip())
        spaces = SPACES.match(text, end)
        assert spaces is not None  # it matches everywhere
        start = spaces.end()
    return pieces


def longest_prefix(text: str, start: int, fits: Callable[[str], bool]) -> int:
    """Returns, approximately, the end of the longest text from `start` that fits.

    It tries lengths by doubling, then by bisection. The text has at least one character. The cost
    depends on its length alone, so a line of a megabyte takes linear time.
    """
    good, bad = 1, 2
    while start + bad <= len(text) and fits(text[start : start + bad]):
        good, bad = bad, 2 * bad
    bad = min(bad, len(text) - start + 1)
    while bad - good > 1:
        middle = (good + bad) // 2
        if fits(text[start : start + middle]):
            good = middle
        else:
            bad = middle
    return start + good


def last_boundary(text: str, start: int, end: int) -> int:
    """Returns the last end of a sentence, or clause, or word, in the last 3/4 of text[start:end].

    Returns `end` if there is none.
    """
    longest = text[start : end + 1]  # the space after a word need not fit
    for boundary in BOUNDARIES:
        matches = boundary.finditer(longest)
        cuts = [match.start() + len(match.group().rstrip()) for match in matches]
        cuts = [cut for cut in cuts if (end - start) // 4 < cut <= end - start]
        if cuts:
            return start + cuts[-1]
    return end
