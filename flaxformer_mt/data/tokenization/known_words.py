"""The words of a small training text: a model translates no others.

A model of much text learns to translate the pieces of new words. A model of few words does not: it
drops a new word, or takes another word for it. So only few words are kept.
"""

import functools
from collections.abc import Iterable, Iterator

import regex

MAX_KNOWN_WORDS = 5000
"""With more words than these, `few_words` returns None."""
_WORD = regex.compile(r"(?w)\b\S.*?(?=\b|$)", regex.DOTALL)
_NO_MARK = regex.compile(r"[\p{L}\p{N}\p{S}]")
_WITHOUT_SPACES = regex.compile(
    r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]"
)


def words_in(text: str) -> Iterator[tuple[int, int]]:
    """Yields (start, end) of each word, number or symbol, by the word boundaries of Unicode.

    Punctuation marks are no words.
    """
    for match in _WORD.finditer(text):
        if _NO_MARK.search(match.group()):
            yield match.span()


def form_of(word: str) -> str:
    """Returns a word with a small first letter.

    "The" is known to a model that has read "the", but "THE" has other tokens.
    """
    return word[:1].lower() + word[1:]


@functools.lru_cache(maxsize=100_000)
def words_between_spaces(text: str) -> tuple[str, ...]:
    """Returns the words of a text without white space, as `form_of` writes them.

    The cache makes it fast: text has few different words, and word boundaries take long.
    """
    return tuple(form_of(text[start:end]) for start, end in words_in(text))


def few_words(lines: Iterable[str]) -> frozenset[str] | None:
    """Returns the words of all lines, as `form_of` writes them; None if they are many.

    Returns None also for a script that writes no spaces between words, such as Chinese.
    """
    words: set[str] = set()
    seen: set[str] = set()
    for line in lines:
        for text in set(line.split()) - seen:
            if _WITHOUT_SPACES.search(text):
                return None
            seen.add(text)
            words.update(words_between_spaces(text))
        if len(words) > MAX_KNOWN_WORDS:
            return None
    return frozenset(words)
