"""From lines to what the model reads: nothing for a blank line, several pieces for one too long."""

import warnings
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Int

from flaxformer_mt.data.vocabulary import Vocabulary
from flaxformer_mt.decoding.long_lines import split_text


class Segment(NamedTuple):
    """A line, or a piece of a line that was too long, as the model reads it."""

    line: int
    inputs: Int[np.ndarray, " s"]
    """EOS at the end."""
    num_unread: int = 0
    """Tokens that were cut off."""


def segment_lines(
    lines: Iterable[str],
    vocabulary: Vocabulary,
    *,
    max_source_length: int,
    over_long: Literal["split", "truncate"],
    first_line: int,
) -> list[Segment]:
    """The segments of every line, in order, with a warning for each line that is too long."""

    def fits(text: str) -> bool:
        return len(vocabulary.tokenize(text)) <= max_source_length

    segments = []
    for line, text in enumerate(lines, start=first_line):
        tokens = vocabulary.tokenize(text) if text.strip() else []
        pieces = [tokens]
        if len(tokens) > max_source_length and over_long == "split":
            texts = split_text(text, fits)
            pieces = [vocabulary.tokenize(piece) for piece in texts]
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
