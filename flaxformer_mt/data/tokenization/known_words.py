"""The words of a small training text. A model trained on it cannot translate other words.

A model trained on many words learns to translate the pieces of new words. A model trained on few
words omits a new word or confuses it with another. So the words are stored only if they are few.
"""

import functools
import unicodedata
from collections.abc import Iterable, Iterator

import regex

UNKNOWN_WORD = "□"
"""A word that stands for any other one, if the training text has it in sources and translations.

A model that was trained with it translates the sentence around an unknown word."""
MAX_KNOWN_WORDS = 8000
"""Largest number of words and punctuation marks that `few_words` returns."""
ADDRESS = regex.compile(r"(?<![\w.+-])[\w.+-]++(?:://|@)\w(?:\S*[\w/])?")
"""An address of the web or of a mailbox, without the punctuation marks after it.

The possessive quantifier "++" does not backtrack, so long words take linear time."""
_WORD = regex.compile(rf"(?w){ADDRESS.pattern}|\b\S.*?(?=\b|$)", regex.DOTALL)
_NO_MARK = regex.compile(r"[\p{L}\p{N}\p{S}]")
_WITHOUT_SPACES = regex.compile(
    r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]"
)


def words_in(text: str) -> Iterator[tuple[int, int]]:
    """Yields (start, end) of each address, word, number or symbol, by Unicode word boundaries.

    It omits punctuation marks.
    """
    for match in _WORD.finditer(text):
        if _NO_MARK.search(match.group()):
            yield match.span()


def form_of(word: str) -> str:
    """Returns a word in Unicode's form NFKC, with its first letter in lower case.

    A model that was trained on "the" knows "The", but not "THE", which has other tokens.
    """
    word = unicodedata.normalize("NFKC", word)
    return word[:1].lower() + word[1:]


def marks_in(text: str) -> Iterator[str]:
    """Yields the punctuation marks of a text, in Unicode's form NFKC."""
    for character in unicodedata.normalize("NFKC", text):
        if unicodedata.category(character).startswith("P"):
            yield character


@functools.lru_cache(maxsize=100_000)
def words_between_spaces(text: str) -> tuple[str, ...]:
    """Returns `form_of` each word of a text that contains no white space.

    Finding word boundaries is slow, and text has few distinct words, so results are cached.
    """
    return tuple(form_of(text[start:end]) for start, end in words_in(text))


def few_words(lines: Iterable[str]) -> frozenset[str] | None:
    """Returns `form_of` each word of the lines, and their punctuation marks.

    Returns None if there are more than `MAX_KNOWN_WORDS` of them, or if the script has no spaces
    between words, as in Chinese.
    """
    words: set[str] = set()
    seen: set[str] = set()
    for line in lines:
        for text in set(line.split()) - seen:
            if _WITHOUT_SPACES.search(text):
                return None
            seen.add(text)
            words.update(words_between_spaces(text), marks_in(text))
        if len(words) > MAX_KNOWN_WORDS:
            return None
    return frozenset(words)
