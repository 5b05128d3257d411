"""Words of the target language: where they end, and the tokens of prefixes and phrases."""

import functools
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import regex
from jaxtyping import Bool

from flaxformer_mt.data.tokenization.vocabulary import Vocabulary
from flaxformer_mt.translation.completions import LONGEST, SPACE, Completions, is_byte

_CJK = r"\p{scx=Han}\p{scx=Hiragana}\p{scx=Katakana}\p{Hangul}"
"""Scripts without spaces between words, or (Korean) with particles attached to words."""
_WORD_START = regex.compile(r"(?w)\b|\p{Hangul}")
"""Matches after a letter where Unicode (UAX 29) has a word boundary. Combining marks and joiners do
not match. Each letter of Thai and other scripts without spaces does."""
_CAN_GROW = regex.compile(rf"[\w--[{_CJK}]]", regex.V1)
"""Matches a letter, mark or digit. A letter or mark after it would change the word."""
_FOLLOWS_WORD = regex.compile(
    r"[\p{Terminal_Punctuation}--[.:]]|\p{Close_Punctuation}|[.:…'\"\p{Pi}\p{Pf}](?!\w)|"
    rf"['’]\p{{L}}{{1,2}}\b|[{_CJK}\p{{Line_Break=SA}}]",
    regex.V1,
)
"""Matches the beginning of a phrase that follows a word without a space. A quotation mark before a
letter does not match: it opens a quotation."""


_INVISIBLE = regex.compile(r"\p{Cf}")
_OPEN = regex.compile(r".*\w", regex.DOTALL)
"""Matches a text whose last word can become longer."""


class Prefix(NamedTuple):
    """The beginning of a translation: some tokens, and then tokens that spell the open word."""

    tokens: tuple[int, ...] = ()
    open_word: str = ""
    """The open word as its pieces spell it: "▁Hun". Its last token may be longer. "" = none."""

    @property
    def most_tokens(self) -> int:
        """The largest number of tokens of the prefix."""
        return len(self.tokens) + len(self.open_word)


class TargetWords:
    """The words of a target vocabulary."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        """Keeps the vocabulary. Its tables are made at first use."""
        self.vocabulary = vocabulary

    @functools.cached_property
    def pieces(self) -> tuple[str, ...]:
        """The text of every token."""
        return self.vocabulary.pieces

    @functools.cached_property
    def boundary(self) -> Bool[np.ndarray, " V"]:
        """True for tokens that do not continue the word before them.

        Where no piece begins with a space, every piece is a word.
        """
        if not any(piece.startswith(SPACE) for piece in self.pieces):
            return np.ones(len(self.pieces), bool)
        starts = [_starts_word(_first_character(piece)) for piece in self.pieces]
        for special in (self.vocabulary.eos_id, self.vocabulary.pad_id, self.vocabulary.bos_id):
            starts[special] = True
        return np.array(starts)

    def ends_inside_word(self, phrase: Sequence[int]) -> bool:
        """Returns whether one more token could change the last word of a phrase."""
        return _CAN_GROW.match(self.vocabulary.detokenize(phrase)[-1:]) is not None

    @functools.cached_property
    def completions(self) -> Completions:
        """The ways to complete a word."""
        vocabulary = self.vocabulary
        special = (vocabulary.pad_id, vocabulary.unk_id, vocabulary.bos_id, vocabulary.eos_id)
        return Completions(self.pieces, special)

    def make_prefix(self, text: str) -> Prefix:
        """Returns the prefix that `text` gives, normalised as all text.

        Its last word is open if the text ends with a letter, mark or digit.
        Raises ValueError if the vocabulary cannot represent the text.
        """
        if not self.completions.in_parts:
            return self._make_prefix_of_words(text)
        tokens = self._tokenize_prefix(text)
        word, rest = "", len(tokens)
        while _OPEN.fullmatch(text) and rest and not word.startswith(SPACE):
            piece = self.pieces[tokens[rest - 1]]
            if piece not in self.completions.token_of or len(piece + word) > LONGEST:
                break
            word, rest = piece + word, rest - 1
        return Prefix(tokens[:rest], word)

    def _make_prefix_of_words(self, text: str) -> Prefix:
        """Returns `make_prefix` for a vocabulary of words. The last word need not be a piece."""
        *words, last = text.split()
        first, end = self.completions.range(last)
        longer = end - first > (last in self.completions.token_of)
        if not longer or len(last) > LONGEST or not _OPEN.fullmatch(text):
            return Prefix(self._tokenize_prefix(text))
        return Prefix(self._tokenize_prefix(" ".join(words)) if words else (), last)

    def _tokenize_prefix(self, text: str) -> tuple[int, ...]:
        wanted = " ".join(text.split())
        return self._checked(self.vocabulary.tokenize(wanted)[:-1], wanted, text)

    def tokenize_phrase(self, phrase: str) -> tuple[int, ...]:
        """Returns the tokens of a phrase inside a sentence, without EOS; normalised as all text.

        There is no space before punctuation that follows a word, nor in a script without spaces.
        Raises ValueError if the vocabulary cannot represent the phrase.
        """
        wanted = " ".join(phrase.split())
        tokens = self.vocabulary.tokenize(wanted)[:-1]
        if _FOLLOWS_WORD.match(self.vocabulary.detokenize(tokens)):
            tokens = self._without_space(tokens)
        return self._checked(tokens, wanted, phrase)

    def _without_space(self, tokens: Sequence[int]) -> Sequence[int]:
        """Returns the tokens without their first space, if they still begin a word."""
        first, rest = self.pieces[tokens[0]], list(tokens[1:])
        if first.startswith(SPACE) and first[1:] in self.pieces:
            rest = [self.pieces.index(first[1:]), *rest]
        elif first != SPACE:
            return tokens
        return rest if rest and self.boundary[rest[0]] else tokens

    def _checked(self, tokens: Sequence[int], wanted: str, given: str) -> tuple[int, ...]:
        written = self.vocabulary.detokenize(tokens)
        unwritable = not tokens or self.vocabulary.unk_id in tokens
        # Normalisation replaces some invisible characters (U+200B) by a space, and removes others.
        wanted_too = _comparable(_INVISIBLE.sub(" ", wanted))
        if unwritable or _comparable(written) not in (_comparable(wanted), wanted_too):
            raise ValueError(
                f"{given!r} cannot be written with the target vocabulary: it would become "
                f"{written!r}"
            )
        return tuple(tokens)


def _first_character(piece: str) -> str:
    """Returns the first character of a piece; a letter for the bytes of other than ASCII."""
    if is_byte(piece):
        value = int(piece[1:-1], base=16)
        return chr(value) if value < 128 else "a"
    return piece[:1]


def _starts_word(character: str) -> bool:
    """Returns whether the character starts a word if it stands after a letter."""
    return _WORD_START.match(f"a{character}", pos=1) is not None


def _comparable(text: str) -> str:
    """Returns the text in NFKC, without case and control codes: normalisation may change these."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    visible = "".join(c for c in folded if c.isspace() or unicodedata.category(c)[0] != "C")
    return " ".join(visible.split())
