"""The words of a small training text: a model translates no others.

A model of much text learns to translate the pieces of new words. A model of few words does not: it
drops a new word, or takes another word for it. So only few words are kept.
"""

from collections.abc import Iterable, Iterator

import regex

MAX_KNOWN_WORDS = 5000
"""With more words than these, `few_words` returns None."""
_WORD = regex.compile(r"(?w)\b\S.*?(?=\b|$)", regex.DOTALL)


def words_in(text: str) -> Iterator[tuple[int, int]]:
    """Yields (start, end) of each word, number or mark, by the word boundaries of Unicode."""
    for match in _WORD.finditer(text):
        yield match.span()


def is_word(text: str) -> bool:
    """Returns whether `text` has a letter, a digit or a symbol; marks such as ";" have none."""
    return regex.search(r"[\p{L}\p{N}\p{S}]", text) is not None


def few_words(lines: Iterable[str]) -> frozenset[str] | None:
    """Returns the words of all lines without regard to case; None if they are many."""
    words: set[str] = set()
    seen: set[str] = set()
    for line in lines:
        for text in set(line.split()) - seen:
            seen.add(text)
            words.update(text[start:end].casefold() for start, end in words_in(text))
        if len(words) > MAX_KNOWN_WORDS:
            return None
    return frozenset(words)
