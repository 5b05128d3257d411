"""From lines to segments: one for each sentence, none for a blank line.

A sentence that is too long becomes several segments. The second half of the module finds the
sentences of a line and the pieces of a sentence.
"""

import bisect
import re
import unicodedata
import warnings
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Int

from flaxformer_mt.data.sources.language_tags import split_tag, tag_of
from flaxformer_mt.data.tokenization.tokenizer import Tokenizer
from flaxformer_mt.data.tokenization.vocabulary import Vocabulary
from flaxformer_mt.translation.requests import Request
from flaxformer_mt.translation.unknown_words import (
    WithoutMarks,
    can_mask,
    find_unknown_words,
    hide_unknown_marks,
    is_in_upper_case,
    mask_unknown_words,
)

_BOUNDARIES = (
    re.compile(r"""[.!?…]["'”’»)\]]*\s+|[。！？]["'”’」』）]*\s*"""),  # ends of sentences
    re.compile(r"[,;:]\s+|[，、；：]\s*"),  # ends of clauses
    re.compile(r"\s+"),  # ends of words
)


def tag_lines(
    lines: Sequence[str], tokenizer: Tokenizer, language: str | None, *, first_line: int = 1
) -> list[str]:
    """Returns the lines, each with the tag of the target language if the model has such tags.

    Blank lines and lines that begin with a tag do not change. If no language is given and the model
    needs one, each line must begin with a tag.

    Raises ValueError for an unknown language, for a tag of another language, and for a line without
    the tag that it needs; the message names the line and the known languages.
    """
    known = ", ".join(tokenizer.languages)
    if language and language not in tokenizer.languages:
        raise ValueError(
            f"this model does not know the target language {language!r}; it knows: {known}"
            if known
            else f"the target language {language!r} was given, but this model translates into one "
            "language only: leave it out"
        )
    if not known:
        return list(lines)
    lacks_language = tokenizer.needs_tag and not language
    tagged = []
    for line, text in enumerate(lines, start=first_line):
        tag, rest = split_tag(text)
        if language and tag and tag != tag_of(language) and rest:
            raise ValueError(
                f"line {line} begins with {tag}, but the target language is {language}: leave one "
                "of them out"
            )
        if lacks_language and rest.strip() and tag[2:-2] not in tokenizer.languages:
            raise ValueError(
                f"line {line} begins with {tag or 'no tag of a target language'}, and no target "
                f"language was given: give one of {known} (--target-language of "
                "translate, score and evaluate), or begin the line with its tag, such as "
                f"{tag_of(tokenizer.languages[0])}"
            )
        tagged.append(
            f"{tag_of(language)} {text}" if language and not tag and text.strip() else text
        )
    return tagged


def check_tags(
    lines: Iterable[str], tokenizer: Tokenizer, language: str | None, *, first_line: int = 1
) -> None:
    """Raises ValueError as `tag_lines`; for commands, before they write a line."""
    if language or tokenizer.needs_tag:
        for number, line in enumerate(lines, first_line):
            tag_lines([line], tokenizer, language, first_line=number)


def segment_lines(
    lines: Iterable[str],
    tokenizer: Tokenizer,
    *,
    max_source_length: int,
    over_long: Literal["split", "truncate"],
    first_line: int,
    quiet: bool = False,
    sentences_of: str | None = None,
    whole_lines: Collection[int] = (),
    mask_unknown: bool = False,
) -> list[Request]:
    """Returns a request for each segment of all lines, in order, without prefixes and phrases.

    Warns about each sentence that is too long.

    Args:
      over_long: what to do with a sentence of more than `max_source_length` tokens.
      first_line: number of the first line.
      quiet: suppresses the warnings.
      sentences_of: the language whose rules split a line into sentences; None = no splitting.
      whole_lines: numbers of the lines that are not split into sentences.
      mask_unknown: hides unknown marks (if every mark of the training text has a token) and
        replaces unknown words (`mask_unknown_words`), except in `whole_lines`. Lowers a
        sentence in upper case if the model knows words of it in lower case only.

    Each segment of a split line begins with the tag of the line.
    """
    vocabulary = tokenizer.source
    masks = mask_unknown and (tokenizer.has_all_characters or can_mask(tokenizer))
    requests = []
    for line, text in enumerate(lines, start=first_line):
        language = None if line in whole_lines else sentences_of
        hides = masks and line not in whole_lines
        for sentence in _read_sentences(text, tokenizer, language):
            if hides and is_in_upper_case(sentence.text, tokenizer):
                sentence = sentence._replace(text=sentence.text.lower(), in_upper_case=True)
            tokens = vocabulary.tokenize(sentence.tag + sentence.text)
            pieces = [sentence]
            if len(tokens) > max_source_length and over_long == "split":
                pieces = _split_sentence(sentence, vocabulary, max_source_length)
                if not quiet:
                    what = f"split into {len(pieces):,} pieces"
                    _warn_of_length(line, len(tokens), "source", max_source_length, what)
            for piece in pieces:
                readable = WithoutMarks("", piece.text, "")
                if hides:
                    readable = hide_unknown_marks(piece.text, tokenizer)
                if piece is not sentence or readable.text != piece.text:
                    tokens = vocabulary.tokenize(piece.tag + readable.text)
                if len(tokens) < 2:  # EOS only: characters that the tokenizer drops
                    continue
                inputs = truncate(
                    tokens,
                    max_source_length,
                    vocabulary.eos_id,
                    line=line,
                    side="source",
                    quiet=quiet,
                )
                num_unread = len(tokens) - len(inputs)
                unknown = find_unknown_words(readable.text, inputs, tokenizer, tag=piece.tag)
                if hides and (unknown or readable.marks):
                    words = (*unknown, *readable.marks)
                    inputs, unknown = mask_unknown_words(
                        readable.text, inputs, words, tokenizer, tag=piece.tag
                    )
                request = Request(line, inputs, num_unread, gap=piece.gap, unknown=unknown)
                request = request._replace(before=readable.before, after=readable.after)
                requests.append(request._replace(in_upper_case=piece.in_upper_case))
    return requests


class _Sentence(NamedTuple):
    """A sentence, or a piece of one."""

    text: str
    tag: str = ""
    """The tag of its line, and the space after it."""
    gap: str = ""
    """The white space before it."""
    in_upper_case: bool = False
    """Whether it was written in upper case; `text` is in lower case then."""


def _read_sentences(line: str, tokenizer: Tokenizer, language: str | None) -> list[_Sentence]:
    """Returns the sentences of a line, or the whole line if there is no `language`."""
    tag = split_tag(line)[0]
    if tag[2:-2] not in tokenizer.languages:
        tag = ""
    text = line[len(tag) :]
    if not text.strip():
        return []
    texts = [text] if language is None else split_sentences(text, language)
    if len(texts) <= 1:
        start = line[: len(line) - len(text.lstrip())] if tag else ""
        return [_Sentence(line[len(start) :], start)]
    spaces = [text[len(text.rstrip()) :] for text in texts]
    start = f"{tag} " if tag else ""
    return [
        _Sentence(text.strip(), start, gap)
        for text, gap in zip(texts, ["", *spaces[:-1]], strict=True)
    ]


def _split_sentence(
    sentence: _Sentence, vocabulary: Vocabulary, max_source_length: int
) -> list[_Sentence]:
    def fits(piece: str) -> bool:
        return len(vocabulary.tokenize(sentence.tag + piece)) <= max_source_length

    pieces, end = [], None
    for text in split_text(sentence.text, fits):
        start = sentence.text.index(text, end or 0)
        gap = sentence.gap if end is None else sentence.text[end:start]
        pieces.append(sentence._replace(text=text, gap=gap))
        end = start + len(text)
    return pieces


def truncate(
    tokens: Sequence[int],
    limit: int,
    eos_id: int,
    *,
    line: int,
    side: Literal["source", "target"],
    quiet: bool = False,
) -> Int[np.ndarray, " s"]:
    """Returns `tokens` as an array; warns and keeps limit - 1 and EOS if they are too many."""
    if len(tokens) > limit:
        if not quiet:
            _warn_of_length(line, len(tokens), side, limit, f"only the first {limit - 1} are read")
        tokens = [*tokens[: limit - 1], eos_id]
    return np.asarray(tokens, np.int32)


def _warn_of_length(line: int, length: int, side: str, limit: int, what: str) -> None:
    warn(f"line {line}: {length:,} {side} tokens, but max_{side}_length is {limit}; {what}.")


def warn(text: str) -> None:
    """Warns about the text of the user, also if the same text was shown before."""
    # Without a registry, no text is kept, and equal texts of two calls are both shown. Python shows
    # no line of code, because there is no file of this name.
    warnings.warn_explicit(text, UserWarning, "flaxformer_mt", 1)


# sentencex knows the codes of ISO 639-1 (two letters) only. Those of ISO 639-2 and 639-3:
_CODES = """\
amh:am ara:ar arb:ar arm:hy ben:bn bul:bg bur:my cat:ca ces:cs chi:zh cmn:zh cze:cs dan:da deu:de
dut:nl ell:el eng:en fin:fi fra:fr fre:fr ger:de gre:el guj:gu hin:hi hun:hu hye:hy ita:it jpn:ja
kan:kn kaz:kk mal:ml mar:mr mya:my nld:nl pan:pa pol:pl por:pt rus:ru slk:sk slo:sk spa:es tam:ta
tel:te ukr:uk zho:zh"""
_TWO_LETTERS = {three: two for three, two in (code.split(":") for code in _CODES.split())}


def split_sentences(line: str, language: str) -> list[str]:
    """Returns the sentences of `line`, each with the white space after it: joined, they are `line`.

    A sentence has a word of two letters, or an ideograph: "1." and the French "M." belong to the
    sentence after them. It ends with white space, or with a mark such as "。", so "example.Com" is
    not split. `language` is an ISO 639 code, such as de, deu, de-AT or deu_Latn. sentencex applies
    the rules of English to a language that it does not know.
    """
    import sentencex  # not above: it takes 0.2 s, and training needs no sentences

    code = re.split("[-_]", language.lower())[0]
    plain = re.sub(r"\s", " ", line)  # sentencex 1.0.32 panics at a no-break space before a mark
    try:
        segment: Any = sentencex.segment  # pyrefly: ignore
        pieces = segment(_TWO_LETTERS.get(code, code), plain)
    except BaseException as error:  # a panic of Rust is no Exception
        if type(error).__name__ != "PanicException":
            raise
        pieces = [plain]
    if "".join(pieces) != plain:  # so that no character can disappear
        return [line]
    sentences, start, end, letters = [], 0, 0, ""
    for piece in pieces:
        end += len(piece)
        letters = (letters + "".join(filter(str.isalpha, piece)))[:2]  # two are enough
        ends = line[end - 1].isspace() or not line[end - 1].isascii()
        if ends and _is_word(letters):
            sentences.append(line[start:end])
            start, letters = end, ""
    if sentences and not _is_word(letters):
        sentences[-1] += line[start:]
    elif start < len(line):
        sentences.append(line[start:])
    return sentences


def _is_word(letters: str) -> bool:
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
        end = _longest_prefix(text, start, fits)
        if end < len(text):
            end = _last_boundary(text, start, end)
        pieces.append(text[start:end].rstrip())
        start = end
        while start < len(text) and text[start].isspace():
            start += 1
    return pieces


def _longest_prefix(text: str, start: int, fits: Callable[[str], bool]) -> int:
    """Returns, approximately, the end of the longest text from `start` that fits: at least start+1.

    Lengths are doubled, then bisected. So a line of a megabyte takes linear time.
    """
    longest = 1
    while start + longest < len(text) and fits(text[start : start + longest]):
        longest *= 2
    lengths = range(1, min(longest, len(text) - start) + 1)
    too_long = bisect.bisect(lengths, False, key=lambda n: not fits(text[start : start + n]))
    return start + max(1, too_long)


def _last_boundary(text: str, start: int, end: int) -> int:
    """Returns the last end of a sentence, or clause, or word, in the last 3/4 of text[start:end].

    Returns `end` if there is none.
    """
    longest = text[start : end + 1]  # the space after a word need not fit
    for boundary in _BOUNDARIES:
        matches = boundary.finditer(longest)
        cuts = [match.start() + len(match.group().rstrip()) for match in matches]
        cuts = [cut for cut in cuts if (end - start) // 4 < cut <= end - start]
        if cuts:
            return start + cuts[-1]
    return end
