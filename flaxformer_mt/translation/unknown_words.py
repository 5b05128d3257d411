"""Source words that the model does not know, and their copies in the translation.

The search cannot choose a word that the vocabulary lacks, so the model drops it or takes another
word for it. A copy at the place of most attention shows it to the reader (Luong et al. 2015,
"Addressing the Rare Word Problem in Neural Machine Translation"; Jean et al. 2015). There, the copy
replaces an unknown word of the translation; here it is added.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import regex
from jaxtyping import Float, Int

from flaxformer_mt.data.tokenization.known_words import is_word, words_in
from flaxformer_mt.data.tokenization.tokenizer import Tokenizer
from flaxformer_mt.data.tokenization.vocabulary import Vocabulary

_BOUNDARY = regex.compile(r"(?w)\b|$")


class UnknownWord(NamedTuple):
    """A word of a source, and its tokens there."""

    text: str
    start: int
    end: int


def find_unknown_words(
    text: str, inputs: Int[np.ndarray, " s"], tokenizer: Tokenizer, *, tag: str = ""
) -> tuple[UnknownWord, ...]:
    """Returns the words of `text` that the model does not know, in order.

    These have an unknown token, or are not among the known words of the tokenizer, if it has these.

    Args:
      inputs: the tokens of `tag + text`, perhaps truncated.
    """
    spans = list(words_in(text))
    known = tokenizer.known_words
    new = [known is not None and _is_new(text[start:end], known) for start, end in spans]
    if not any(new) and tokenizer.source.unk_id not in inputs:
        return ()
    found: list[UnknownWord] = []
    char_end = -1
    for (start, end), is_new in zip(spans, new, strict=True):
        first, last = (
            min(len(tokenizer.source.tokenize(tag + text[:char])), len(inputs)) - 1
            for char in (start, end)
        )
        if first < last and (is_new or tokenizer.source.unk_id in inputs[first:last]):
            if found and char_end == start:  # signs without a space between them
                found[-1] = found[-1]._replace(text=found[-1].text + text[start:end], end=last)
            else:
                found.append(UnknownWord(text[start:end], first, last))
            char_end = end
        elif first == last and found and char_end == start:  # the same token
            found[-1], char_end = found[-1]._replace(text=found[-1].text + text[start:end]), end
    return tuple(found)


def _is_new(word: str, known: frozenset[str]) -> bool:
    return is_word(word) and word.casefold() not in known


def copy_unknown_words(
    text: str,
    tokens: Sequence[int],
    attention: Float[np.ndarray, "T S"],
    words: Sequence[UnknownWord],
    vocabulary: Vocabulary,
) -> str:
    """Returns the translation `text` with the words that it lacks.

    Each is put before the word of `text` that attends to it most; a word that follows another one
    in the source follows it here too.

    Args:
      tokens: those of `text`, EOS at the end.
      attention: as in `TokenDetails`.
      vocabulary: of `tokens`.
    """
    present = [text[start:end].casefold() for start, end in words_in(text)]
    missing = [word for word in words if not _is_in(word.text, present)]
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
        space = "" if not left or left[-1].isspace() else " "
        text = left + space + word.text + (" " if right[:1].isalnum() else "") + right
    return text


def _is_in(word: str, present: Sequence[str]) -> bool:
    return any(other.startswith(word.casefold()) for other in present)


def _place(text: str, before: str) -> int:
    """Returns the start of the word of `text` that follows the text `before`."""
    end = len(text.rstrip(".?!。？！…"))
    return max(at for m in _BOUNDARY.finditer(text) if (at := m.start()) <= min(len(before), end))
