"""Source words that the model does not know, and their copies in the translation.

The search cannot choose a word that the vocabulary lacks, so the model drops it or takes another
word for it. A copy at the place of most attention shows it to the reader (Luong et al. 2015,
"Addressing the Rare Word Problem in Neural Machine Translation"; Jean et al. 2015). There, the copy
replaces an unknown word of the translation; here it is added.
"""

import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import regex
from jaxtyping import Float, Int

from flaxformer_mt.data.tokenization.known_words import (
    UNKNOWN_WORD,
    form_of,
    words_between_spaces,
    words_in,
)
from flaxformer_mt.data.tokenization.tokenizer import Tokenizer
from flaxformer_mt.data.tokenization.vocabulary import Vocabulary

_BOUNDARY = regex.compile(r"(?w)\b|$")
_NO_SPACE_BEFORE = regex.compile(r"$|[\s\p{Pe}\p{Pf}\p{Po}]")


class UnknownWord(NamedTuple):
    """A word of a source, its tokens (from start to end) and its first character there."""

    text: str
    start: int
    end: int
    first_character: int = 0


def find_unknown_words(
    text: str, inputs: Int[np.ndarray, " s"], tokenizer: Tokenizer, *, tag: str = ""
) -> tuple[UnknownWord, ...]:
    """Returns the words of `text` that the model does not know, in order.

    They have a token that the training text lacks, or are not among the known words of the
    tokenizer, if it has these. `UNKNOWN_WORD` is unknown too. Unknown words without white space
    between them count as one.

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
            if found and not regex.search(r"[\s\p{Cc}]", text[stop:start]):
                found[-1] = UnknownWord(text[begin:end], found[-1].start, last, begin)
            else:
                begin = start
                found.append(UnknownWord(text[start:end], first, last, start))
            stop = end
    return tuple(found)


def mask_unknown_words(
    text: str,
    inputs: Int[np.ndarray, " s"],
    words: Sequence[UnknownWord],
    tokenizer: Tokenizer,
    *,
    tag: str = "",
) -> tuple[Int[np.ndarray, " s"], tuple[UnknownWord, ...]]:
    """Returns the tokens of `tag + text` with `UNKNOWN_WORD` for each unknown word, and the words.

    Unknown words with only white space between them become one. Nothing changes if the model was
    not trained with `UNKNOWN_WORD`, or if the tokens become more.
    """
    if UNKNOWN_WORD not in (tokenizer.known_words or ()):
        return inputs, tuple(words)
    tokenize = tokenizer.source.tokenize
    masked, found, stop = tag, list[UnknownWord](), 0
    for word in words:
        between = text[stop : word.first_character]
        stop = word.first_character + len(word.text)
        if found and not between.strip():
            found[-1] = found[-1]._replace(text=found[-1].text + between + word.text)
            continue
        first = len(tokenize(masked + between)) - 1
        masked += between + UNKNOWN_WORD
        last = len(tokenize(masked)) - 1
        found.append(UnknownWord(word.text, min(first, last - 1), last))
    tokens = tokenize(masked + text[stop:])
    if len(tokens) > len(inputs):
        return inputs, tuple(words)
    return np.asarray(tokens, inputs.dtype), tuple(found)


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
    `text` that attends to it most; a word that follows another one in the source follows it here
    too.

    Args:
      tokens: those of `text`, EOS at the end.
      attention: as in `TokenDetails`.
      vocabulary: of `tokens`.
    """
    filling = _words_for_unknown(tokens, attention, words, vocabulary)
    # A word of `text` that begins with it counts as it, in any case.
    composed = unicodedata.normalize("NFC", text)

    def is_missing(word: UnknownWord) -> bool:
        pattern = regex.escape(unicodedata.normalize("NFC", word.text))
        return word not in filling and not regex.search(rf"(?wi)\b{pattern}", composed)

    missing = list(filter(is_missing, words))
    places: list[int] = []
    for index, word in enumerate(missing):
        if index and missing[index - 1].end == word.start:
            places.append(places[-1])
        else:
            token = int(attention[:, word.start : word.end].sum(axis=1).argmax())
            places.append(_place(text, vocabulary.detokenize(tokens[:token])))
    in_order = sorted(zip(places, missing, strict=True), key=lambda item: item[0])
    for place, word in reversed(in_order):
        left, right = text[:place], text[place:]
        before = "" if not left or left[-1].isspace() else " "
        after = "" if _NO_SPACE_BEFORE.match(right) else " "
        text = left + before + word.text + after + right
    first, *others = text.split(UNKNOWN_WORD, len(filling))
    return first + "".join(w.text + rest for w, rest in zip(filling, others, strict=False))


def _words_for_unknown(
    tokens: Sequence[int],
    attention: Float[np.ndarray, "T S"],
    words: Sequence[UnknownWord],
    vocabulary: Vocabulary,
) -> list[UnknownWord]:
    """Returns the word for each token `UNKNOWN_WORD` of a translation, in order."""
    filling, left = list[UnknownWord](), list[UnknownWord]()
    for row, token in enumerate(tokens):
        if UNKNOWN_WORD in vocabulary.pieces[token]:
            left = left or list(words)
            filling.append(
                max(left, key=lambda one: float(attention[row, one.start : one.end].sum()))
            )
            left.remove(filling[-1])
    return filling


def _place(text: str, before: str) -> int:
    """Returns the start of the word of `text` that follows the text `before`."""
    end = len(text.rstrip(".?!。？！…"))
    return max(at for m in _BOUNDARY.finditer(text) if (at := m.start()) <= min(len(before), end))
