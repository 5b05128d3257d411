"""From lines to segments: none for a blank line, several for a line that is too long."""

import itertools
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple, TypeVar

import numpy as np
from jaxtyping import Int

from flaxformer_mt.data.sources.language_tags import split_tag, tag_of
from flaxformer_mt.data.tokenization.tokenizer import Tokenizer
from flaxformer_mt.translation.long_lines import split_text

S = TypeVar("S")
SEGMENTS_OF_LONG_LINE = 256
"""A line with more segments is translated in parts of this size, to show its progress."""


class Segment(NamedTuple):
    """A line as the model reads it, or a part of a line that is too long."""

    line: int
    inputs: Int[np.ndarray, " s"]
    """EOS at the end."""
    num_unread: int = 0
    """Tokens that were cut off."""


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
    tagged = []
    for line, text in enumerate(lines, start=first_line):
        tag, rest = split_tag(text)
        if language and tag and tag != tag_of(language) and rest:
            raise ValueError(
                f"line {line} begins with {tag}, but the target language is {language}: leave one "
                "of them out"
            )
        if (
            tokenizer.needs_tag
            and not language
            and rest.strip()
            and tag[2:-2] not in tokenizer.languages
        ):
            raise ValueError(
                f"line {line} begins with {tag or 'no tag of a target language'}, and no target "
                f"language was given: give one of {known} (--target-language), or begin the "
                f"line with its tag, such as {tag_of(tokenizer.languages[0])}"
            )
        tagged.append(
            f"{tag_of(language)} {text}" if language and not tag and text.strip() else text
        )
    return tagged


def segment_lines(
    lines: Iterable[str],
    tokenizer: Tokenizer,
    *,
    max_source_length: int,
    over_long: Literal["split", "truncate"],
    first_line: int,
    quiet: bool = False,
) -> list[Segment]:
    """Returns the segments of all lines, in order; warns about each line that is too long.

    Each segment of a split line begins with the tag of the line. `quiet` suppresses the warnings.
    """
    vocabulary = tokenizer.source
    segments = []
    for line, text in enumerate(lines, start=first_line):
        tokens = vocabulary.tokenize(text) if text.strip() else []
        pieces = [tokens]
        if len(tokens) > max_source_length and over_long == "split":
            tag, rest = split_tag(text)
            if tag[2:-2] not in tokenizer.languages:
                tag, rest = "", text
            start = f"{tag} " if tag else ""

            def fits(piece: str, start: str = start) -> bool:
                return len(vocabulary.tokenize(start + piece)) <= max_source_length

            texts = split_text(rest, fits)
            pieces = [vocabulary.tokenize(start + piece) for piece in texts]
            if not quiet:
                what = f"split into {len(texts):,} pieces"
                if len(texts) > SEGMENTS_OF_LONG_LINE:
                    what += f", which take as long as {len(texts):,} lines"
                _warn(line, len(tokens), "source", max_source_length, what)
        for piece in pieces:
            if len(piece) > 1:  # otherwise EOS only: characters that the tokenizer drops
                inputs = truncate(
                    piece,
                    max_source_length,
                    vocabulary.eos_id,
                    line=line,
                    side="source",
                    quiet=quiet,
                )
                segments.append(Segment(line, inputs, len(piece) - len(inputs)))
    return segments


def in_parts(segments: Sequence[S], lines: Sequence[int]) -> Iterator[Sequence[S]]:
    """Yields all segments as one part, or in several parts if a line has very many segments.

    A part then has `SEGMENTS_OF_LONG_LINE` segments. `lines` has the line of each segment, in
    ascending order.
    """
    size = max(1, len(segments))
    if any(len(list(group)) > SEGMENTS_OF_LONG_LINE for _, group in itertools.groupby(lines)):
        size = SEGMENTS_OF_LONG_LINE
    for start in range(0, len(segments), size):
        yield segments[start : start + size]


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
            _warn(line, len(tokens), side, limit, f"only the first {limit - 1} are read")
        tokens = [*tokens[: limit - 1], eos_id]
    return np.asarray(tokens, np.int32)


def _warn(line: int, length: int, side: str, limit: int, what: str) -> None:
    warnings.warn(
        f"line {line}: {length:,} {side} tokens, but max_{side}_length is {limit}; {what}.",
        stacklevel=2,
    )
