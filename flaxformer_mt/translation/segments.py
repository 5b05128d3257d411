"""From lines to what the model reads: nothing for a blank line, several pieces for one too long."""

import warnings
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Int

from flaxformer_mt.data.sources.language_tags import split_tag, tag_of
from flaxformer_mt.data.tokenization.tokenizer import Tokenizer
from flaxformer_mt.translation.long_lines import split_text


class Segment(NamedTuple):
    """A line, or a piece of a line that was too long, as the model reads it."""

    line: int
    inputs: Int[np.ndarray, " s"]
    """EOS at the end."""
    num_unread: int = 0
    """Tokens that were cut off."""


def tag_lines(
    lines: Sequence[str], tokenizer: Tokenizer, language: str | None, *, first_line: int = 1
) -> list[str]:
    """The lines with the tag of a target language before each, where the model knows such tags.

    Lines that begin with a tag are left as they are, and so are blank ones. Without a language,
    those of a model that needs it must have tags themselves.

    Raises ValueError for a language that is not known (or contradicts a tag), and for a line that
    needs one; the message gives its number and the languages known.
    """
    known = ", ".join(tokenizer.languages)
    if language and language not in tokenizer.languages:
        raise ValueError(
            f"the target language {language!r} is none of those that this model knows: {known}"
            if known
            else f"the target language {language!r} is asked for, but this model translates into "
            "one language alone: leave it out"
        )
    if not known:
        return list(lines)
    tagged = []
    for line, text in enumerate(lines, start=first_line):
        tag, rest = split_tag(text)
        if language and tag and tag != tag_of(language) and rest:
            raise ValueError(
                f"line {line} begins with {tag}, but the target language is {language}: leave out "
                "the one or the other"
            )
        if (
            tokenizer.needs_tag
            and not language
            and rest.strip()
            and tag[2:-2] not in tokenizer.languages
        ):
            raise ValueError(
                f"line {line} begins with {tag or 'no tag of a target language'}, and no target "
                f"language is asked for: give one of {known} (--target-language), or begin the "
                f"line with its tag, as in {tag_of(tokenizer.languages[0])}"
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
) -> list[Segment]:
    """The segments of every line, in order, with a warning for each line that is too long.

    Each piece of a line that is split begins with its tag.
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
            before = f"{tag} " if tag else ""

            def fits(piece: str, before: str = before) -> bool:
                return len(vocabulary.tokenize(before + piece)) <= max_source_length

            texts = split_text(rest, fits)
            pieces = [vocabulary.tokenize(before + piece) for piece in texts]
            _warn(line, len(tokens), "source", max_source_length, f"split into {len(texts)} pieces")
        for piece in pieces:
            if len(piece) > 1:  # otherwise only EOS: characters that the tokenizer drops
                inputs = truncate(
                    piece, max_source_length, vocabulary.eos_id, line=line, side="source"
                )
                segments.append(Segment(line, inputs, len(piece) - len(inputs)))
    return segments


def truncate(
    tokens: Sequence[int],
    limit: int,
    eos_id: int,
    *,
    line: int,
    side: Literal["source", "target"],
) -> Int[np.ndarray, " s"]:
    """`tokens` as an array; if more than `limit`, the first limit - 1 and EOS, with a warning."""
    if len(tokens) > limit:
        _warn(line, len(tokens), side, limit, f"only the first {limit - 1} are read")
        tokens = [*tokens[: limit - 1], eos_id]
    return np.asarray(tokens, np.int32)


def _warn(line: int, length: int, side: str, limit: int, what: str) -> None:
    warnings.warn(
        f"line {line}: {length} {side} tokens, but max_{side}_length is {limit}; {what}.",
        stacklevel=2,
    )
