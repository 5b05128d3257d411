"""Words of the target language: where they end, and the tokens of prefixes and phrases.

The last word of a prefix may be open: "der alte Hun" can become "der alte Hund ist".
"""

import bisect
import functools
import unicodedata
from collections.abc import Collection, Sequence
from typing import NamedTuple

import jax
import numpy as np
import regex
from jaxtyping import Bool, Int

from flaxformer_mt.data.tokenization.vocabulary import SPACE, Vocabulary
from flaxformer_mt.search.rules import Completion

LONGEST = 16
"""Most characters of an open word. The first tokens of a longer word are fixed."""
_LAST = "\U0010ffff"
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
    ends_word: bool = False
    """Whether the next token must not continue the last word."""

    @property
    def most_tokens(self) -> int:
        """The largest number of tokens of the prefix."""
        return len(self.tokens) + len(self.open_word)


class Ways(NamedTuple):
    """The ways to spell an open word, for each of its characters."""

    ranges: Int[np.ndarray, "C 2"]
    """The pieces that begin with the rest of the word: from rank, to rank."""
    parts: Int[np.ndarray, "C C"]
    """Tokens that spell a part of the rest; -1 = none."""


class Completions:
    """The pieces of a target vocabulary in alphabetical order."""

    def __init__(self, pieces: Sequence[str], special: Collection[int]) -> None:
        """Sorts the pieces. `special` are tokens without text."""
        spelling = sorted(
            (piece, token)
            for token, piece in enumerate(pieces)
            if piece and token not in special and not _is_byte(piece)
        )
        self._sorted = [piece for piece, _ in spelling]
        self._tokens = np.array([token for _, token in spelling], np.int32)
        self.token_of = {piece: token for piece, token in spelling}
        self.in_parts = any(piece.startswith(SPACE) for piece in pieces)
        """Whether several pieces can spell a word."""
        self._ranks, self._widths = np.full((1, len(pieces)), -1), np.zeros((1, len(pieces)))
        self._ranks[0, self._tokens] = np.arange(len(spelling))
        self._widths[0, self._tokens] = [len(piece) for piece in self._sorted]

    def range(self, text: str) -> tuple[int, int]:
        """Returns the ranks (from, to) of the pieces that begin with the text."""
        return (
            bisect.bisect_left(self._sorted, text),
            bisect.bisect_left(self._sorted, text + _LAST),
        )

    def ways(self, word: str, suppressed: Bool[np.ndarray, " V"]) -> Ways | None:
        """Returns the ways to spell an open word without suppressed tokens, or None."""
        size = len(word)
        ranges = np.zeros((LONGEST, 2), np.int32)
        parts = np.full((LONGEST, LONGEST), -1, np.int32)
        possible = [False] * size
        for start in reversed(range(size)):
            first, end = ranges[start] = self.range(word[start:])
            possible[start] = not suppressed[self._tokens[first:end]].all()
            for stop in range(start + 1, size if self.in_parts else 0):
                token = self.token_of.get(word[start:stop])
                if possible[stop] and token is not None and not suppressed[token]:
                    parts[start, stop], possible[start] = token, True
        return Ways(ranges, parts) if possible[0] else None

    def rows(
        self, words: Sequence[str], suppressed: Bool[np.ndarray, " V"], rows: int
    ) -> Completion:
        """Returns the arrays of a batch; "" for a sentence without an open word."""
        lengths = np.zeros(rows)
        ranges = np.zeros((rows, LONGEST, 2))
        parts = np.full((rows, LONGEST, LONGEST), -1)
        for row, word in enumerate(words):
            found = self.ways(word, suppressed) if word else None
            if found:
                lengths[row], ranges[row], parts[row] = len(word), *found
        arrays = (lengths, ranges, parts, self._ranks, self._widths)
        return Completion(*(jax.device_put(x.astype(np.int32)) for x in arrays))


class TargetWords:
    """The words of a target vocabulary."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        """Keeps the vocabulary. Its tables are made at first use."""
        self.vocabulary, self.pieces = vocabulary, vocabulary.pieces

    @functools.cached_property
    def boundary(self) -> Bool[np.ndarray, " V"]:
        """True for tokens that do not continue the word before them.

        Where no piece begins with a space, every piece is a word.
        """
        if not any(piece.startswith(SPACE) for piece in self.pieces):
            return np.ones(len(self.pieces), bool)
        after_a_letter = [f"a{_first_character(piece)}" for piece in self.pieces]
        starts = [_WORD_START.match(text, pos=1) is not None for text in after_a_letter]
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

        Its last word is open if the text ends with a letter, mark or digit. White space at the end
        of the text ends the last word.
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
        return Prefix(tokens[:rest], word, text[-1].isspace() and self.ends_inside_word(tokens))

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
    if _is_byte(piece):
        value = int(piece[1:-1], base=16)
        return chr(value) if value < 128 else "a"
    return piece[:1]


def _comparable(text: str) -> str:
    """Returns the text in NFKC, without case and control codes: normalisation may change these."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    visible = "".join(c for c in folded if c.isspace() or unicodedata.category(c)[0] != "C")
    return " ".join(visible.split())


def _is_byte(piece: str) -> bool:
    """Returns whether the piece is one byte of a rare character, such as <0xE4>."""
    return len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">")
