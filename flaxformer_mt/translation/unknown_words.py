"""Source words and marks that the model does not know, and their copies in the translation.

The search cannot choose a word that the vocabulary lacks, so the model drops it or takes another
word for it. So the translation gets a copy of the word, at the position that attends to it most
(Luong et al. 2015, "Addressing the Rare Word Problem in Neural Machine Translation"; Jean et al.
2015). There, the copy replaces an unknown word of the translation; here it is added.
"""

import string
import unicodedata
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import regex
from jaxtyping import Float, Int

from flaxformer_mt.data.tokenization.known_words import (
    ADDRESS,
    UNKNOWN_WORD,
    form_of,
    marks_in,
    words_between_spaces,
    words_in,
)
from flaxformer_mt.data.tokenization.tokenizer import Tokenizer
from flaxformer_mt.data.tokenization.vocabulary import Vocabulary

_BOUNDARY = regex.compile(r"(?w)\b|$")
_LIST_NUMBER = regex.compile(r"\s*\d+[.)]\s+(?=\S)")
_CLAUSE_MARK = regex.compile(r"[;:\p{Pd}]")
_DASH = regex.compile(r"\p{Pd}")
_PLAIN_MARKS: dict[str, str] = {
    **dict.fromkeys("‘’‚‛", "'"),
    **dict.fromkeys("“”„‟«»", '"'),
    **dict.fromkeys("‐‑‒–—―", "-"),
}
_WORD = regex.compile(r"\s*\w+(?:[-'’]\w+)*")
_INNER_STOP = regex.compile(r"\.\s*\S")
_NO_SPACE_BEFORE = regex.compile(r"$|[\s\p{Pe}\p{Pf}\p{Po}]")


MarkKind = Literal["", "opening", "closing", "joining", "separate"]
"""Spacing of marks: opening "(a", closing "a)", joining "a/b", separate "a / b"; "" for a word."""


class UnknownWord(NamedTuple):
    """An unknown word, or marks, of a source: the text, its token range and first character.

    The model does not read marks, so they have no token. They borrow that of the next word, closing
    marks that of the previous one.
    """

    text: str
    start: int
    end: int
    first_character: int = 0
    mark: MarkKind = ""


def find_unknown_words(
    text: str, inputs: Int[np.ndarray, " s"], tokenizer: Tokenizer, *, tag: str = ""
) -> tuple[UnknownWord, ...]:
    """Returns the words of `text` that the model does not know, in order.

    They have a token that the training text lacks, or are not among the known words of the
    tokenizer, if it has these. `UNKNOWN_WORD` is unknown too. Unknown words without white space
    between them count as one. A full stop inside the text belongs to the unknown word before it,
    which is an abbreviation ("Dr. Miller").

    Args:
      inputs: the tokens of `tag + text`, perhaps truncated.
    """
    known, unseen = tokenizer.known_words, tokenizer.unseen_tokens
    if unseen.isdisjoint(inputs.tolist()) and (
        known is None
        or UNKNOWN_WORD not in text
        and all(known.issuperset(words_between_spaces(one)) for one in text.split())
    ):
        return ()
    found: list[UnknownWord] = []
    begin, stop = 0, -1  # the characters of the newest one
    for start, end in words_in(text):
        first = len(tokenizer.source.tokenize(tag + text[:start])) - 1
        first = max(first, int(bool(tag)))  # a tag without text has no token
        if first >= len(inputs) - 1:  # truncated
            break
        last = min(len(tokenizer.source.tokenize(tag + text[:end])), len(inputs)) - 1
        first = min(first, last - 1)  # marks before the word can be in its token
        form = form_of(text[start:end])
        is_new = known is not None and (form not in known or form == UNKNOWN_WORD)
        if is_new or not unseen.isdisjoint(inputs[first:last].tolist()):
            if text[start:end].isalpha() and _INNER_STOP.match(text, end):
                end += 1  # with its full stop
                last = min(len(tokenizer.source.tokenize(tag + text[:end])), len(inputs)) - 1
            if found and not regex.search(r"[\s\p{Cc}]", text[stop:start]):
                found[-1] = UnknownWord(text[begin:end], found[-1].start, last, begin)
            else:
                begin = start
                found.append(UnknownWord(text[start:end], first, last, start))
            stop = end
    return tuple(found)


def can_mask(tokenizer: Tokenizer) -> bool:
    """Returns whether the model was trained with `UNKNOWN_WORD`."""
    return UNKNOWN_WORD in (tokenizer.known_words or ())


def is_in_upper_case(text: str, tokenizer: Tokenizer) -> bool:
    """Returns whether a text is in upper case, and has a word that is known only in lower case.

    A model that was trained on "dog" knows "Dog", but not "DOG" (see `form_of`).
    """
    known = tokenizer.known_words
    if known is None or not text.isupper():
        return False
    words = (text[start:end] for start, end in words_in(text))
    return any(form_of(word) not in known and word.lower() in known for word in words)


class WithoutMarks(NamedTuple):
    """A text without the punctuation marks that the training text lacks: before + text + after."""

    before: str
    """The marks and spaces at its beginning, and the number of a list item."""
    text: str
    """It has a space for each mark that it contained."""
    after: str
    marks: tuple[UnknownWord, ...] = ()
    """The marks in `text`, without their tokens."""


def hide_unknown_marks(text: str, tokenizer: Tokenizer) -> WithoutMarks:
    """Returns a text without its unknown punctuation marks.

    A model that never saw a token, for instance of a quotation mark, may translate it, and the
    words beside it, as anything. The plain form of a mark, such as ' of ’, takes its place if it is
    known. A semicolon, a colon or a dash between clauses becomes a comma. Marks inside an address
    stay.

    For a model that was trained with `UNKNOWN_WORD`, a text of unknown marks alone is one unknown
    word, and the number of a list item is hidden too.
    """
    masks = can_mask(tokenizer)
    tokenize, unseen = tokenizer.source.tokenize, tokenizer.unseen_tokens

    def is_unknown(mark: str) -> bool:
        known = tokenizer.known_marks  # a shared vocabulary also has the marks of the target
        if known and not known.issuperset(marks_in(mark)):
            return True
        return not unseen.isdisjoint(tokenize(mark))

    marks = (c for c in dict.fromkeys(text) if unicodedata.category(c).startswith("P"))
    unknown = "".join(filter(is_unknown, marks))
    for mark in unknown:
        plain = _PLAIN_MARKS.get(mark)
        if plain and not is_unknown(plain):
            text, unknown = text.replace(mark, plain), unknown.replace(mark, "")
    outer = unknown + string.whitespace
    number = _LIST_NUMBER.match(text) if masks else None
    begin = number.end() if number else 0
    if not text[begin:].strip(outer):
        whole = UnknownWord(text.strip(), 0, 0, len(text) - len(text.lstrip()))
        return WithoutMarks("", text, "", (whole,) if masks and whole.text else ())
    if not (unknown or number):
        return WithoutMarks("", text, "")
    before, after = len(text) - len(text[begin:].lstrip(outer)), len(text.rstrip(outer))
    clean, found = text[before:after], list[UnknownWord]()
    either = f"{ADDRESS.pattern}|(?P<marks>[{regex.escape(unknown)}]+)"
    for match in regex.finditer(either, clean) if unknown else ():
        (start, end), marks = match.span(), match["marks"]
        if marks is None:  # an address
            continue
        kind = _kind_of_mark(clean[start - 1], clean[end])
        if _CLAUSE_MARK.fullmatch(marks) and clean[end].isspace() and "," not in unknown:
            start -= int(kind == "separate")  # the space before a dash
            clean = clean[:start] + ",".ljust(end - start) + clean[end:]
            continue
        found.append(UnknownWord(marks, 0, 0, start, kind))
        clean = clean[:start] + " " * len(marks) + clean[end:]
    return WithoutMarks(text[:before], clean, text[after:], tuple(found))


def _kind_of_mark(before: str, after: str) -> MarkKind:
    """Returns how marks stand between these characters."""
    if before.isspace():
        return "separate" if after.isspace() else "opening"
    if after.isspace() or not _WORD.match(after):
        return "closing"
    return "joining" if _WORD.match(before) else "opening"


def mask_unknown_words(
    text: str,
    inputs: Int[np.ndarray, " s"],
    words: Sequence[UnknownWord],
    tokenizer: Tokenizer,
    *,
    tag: str = "",
) -> tuple[Int[np.ndarray, " s"], tuple[UnknownWord, ...]]:
    """Returns the tokens of `tag + text` with `UNKNOWN_WORD` for each unknown word, and the words.

    Unknown words with only white space between them become one. The words are not replaced if the
    model was not trained with `UNKNOWN_WORD`, or if the tokens become more.

    Args:
      text: without the unknown marks.
      words: those of `find_unknown_words` and the marks of `hide_unknown_marks`.
    """
    tokenize, masks = tokenizer.source.tokenize, can_mask(tokenizer)
    masked, found, stop = tag, list[UnknownWord](), 0
    in_order = sorted(words, key=lambda one: one.first_character)
    for word in _joined(text, in_order) if masks else in_order:
        masked += text[stop : word.first_character]
        stop = word.first_character + len(word.text)
        first = len(tokenize(masked)) - 1
        if word.mark:
            masked += " " * len(word.text)
            first -= int(word.mark == "closing")
            if word.mark != "joining" or not _DASH.fullmatch(word.text):  # not of "ice-cream"
                found.append(word._replace(start=first, end=first + 1))
        elif masks:
            masked += UNKNOWN_WORD
            last = len(tokenize(masked)) - 1
            found.append(word._replace(start=min(first, last - 1), end=last))
        else:
            masked += word.text
            found.append(word)
    tokens = tokenize(masked + text[stop:])
    if masks and len(tokens) <= len(inputs):
        return np.asarray(tokens, inputs.dtype), tuple(found)
    kept = words if masks else found
    return inputs, tuple(word for word in kept if 0 < word.end <= len(inputs))


def _joined(text: str, words: Sequence[UnknownWord]) -> list[UnknownWord]:
    """Returns words and marks. Words are one if only white space is between them.

    Marks are part of a word that they touch.
    """
    found = list[UnknownWord]()
    for word in words:
        if found:
            last = found[-1]
            end = last.first_character + len(last.text)
            between = text[end : word.first_character]
            both_words = not (last.mark or word.mark)
            if not between.strip() and (both_words or not between):
                whole = last.text + between + word.text
                found[-1] = UnknownWord(whole, 0, 0, last.first_character)
                continue
        found.append(word)
    return found


def copy_unknown_words(
    text: str,
    tokens: Sequence[int],
    attention: Float[np.ndarray, "T S"],
    words: Sequence[UnknownWord],
    vocabulary: Vocabulary,
) -> str:
    """Returns the translation `text` with the words that it lacks.

    The words replace each `UNKNOWN_WORD` of the translation: the word that gets most of its
    attention, and each word once before any is repeated. Each other word is put before the word of
    `text` that attends to it most; consecutive unknown words stay together. Closing marks are put
    after that word.

    Args:
      tokens: those of `text`, EOS at the end.
      attention: as in `TokenDetails`.
      vocabulary: of `tokens`.
    """
    filling = _words_for_unknown(tokens, attention, words, vocabulary)
    # An unknown word is present if a word of `text` starts with it, ignoring case.
    composed = unicodedata.normalize("NFC", text)

    def is_missing(word: UnknownWord) -> bool:
        if word.mark:
            return True
        pattern = regex.escape(unicodedata.normalize("NFC", word.text))
        return word not in filling and not regex.search(rf"(?wi)\b{pattern}", composed)

    missing = list(filter(is_missing, words))
    insert_positions: list[int] = []
    for index, word in enumerate(missing):
        after_a_word = index and not (word.mark or missing[index - 1].mark)
        if after_a_word and missing[index - 1].end == word.start:
            insert_positions.append(insert_positions[-1])
        else:
            token = int(attention[:, word.start : word.end].sum(axis=1).argmax())
            insert_positions.append(_insert_position(text, vocabulary.detokenize(tokens[:token])))
    opened = list[int]()
    for index, word in enumerate(missing):
        if word.mark == "opening":
            opened.append(index)
        elif word.mark == "closing" and opened:  # its opening mark must stand before it
            start = opened.pop()
            insert_positions[start] = min(insert_positions[start], insert_positions[index])
    in_order = sorted(zip(insert_positions, missing, strict=True), key=lambda item: item[0])
    for position, word in reversed(in_order):
        text = _insert(text, position, word)
    first, *others = text.split(UNKNOWN_WORD, len(filling))
    return first + "".join(w.text + rest for w, rest in zip(filling, others, strict=False))


def _insert(text: str, position: int, word: UnknownWord) -> str:
    """Returns `text` with the word, or marks, at a position; with the spaces that it needs."""
    if word.mark == "closing":
        match = _WORD.match(text, position)
        position = match.end() if match else position
        return text[:position] + word.text + text[position:]
    left, right = text[:position], text[position:]
    if word.mark == "joining":
        return left.rstrip() + word.text + right.lstrip()
    if word.mark == "opening":
        left, right = text[: len(text) - len(right.lstrip())], right.lstrip()
    before = "" if not left or left[-1].isspace() else " "
    after = "" if word.mark == "opening" or _NO_SPACE_BEFORE.match(right) else " "
    return left + before + word.text + after + right


def _words_for_unknown(
    tokens: Sequence[int],
    attention: Float[np.ndarray, "T S"],
    words: Sequence[UnknownWord],
    vocabulary: Vocabulary,
) -> list[UnknownWord]:
    """Returns the word for each token `UNKNOWN_WORD` of a translation, in order."""
    filling, left = list[UnknownWord](), list[UnknownWord]()
    words = [word for word in words if not word.mark]
    for row, token in enumerate(tokens):
        if words and UNKNOWN_WORD in vocabulary.pieces[token]:
            left = left or list(words)
            filling.append(
                max(left, key=lambda one: float(attention[row, one.start : one.end].sum()))
            )
            left.remove(filling[-1])
    return filling


def _insert_position(text: str, before: str) -> int:
    """Returns the start of the word of `text` that follows the text `before`."""
    end = len(text.rstrip(".?!。？！…"))
    return max(at for m in _BOUNDARY.finditer(text) if (at := m.start()) <= min(len(before), end))
