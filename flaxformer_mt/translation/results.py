"""The results of a translator, their order, and how those of segments become those of a line."""

import itertools
import unicodedata
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import regex
from jaxtyping import Float

from flaxformer_mt.data.tokenization.vocabulary import Vocabulary, without_line_breaks
from flaxformer_mt.evaluation.quality_flags import Flag
from flaxformer_mt.translation.config import DecodingConfig


class TokenDetails(NamedTuple):
    """The tokens of a translation, their probabilities and their attention."""

    source_tokens: list[str]
    """Pieces, EOS at the end."""
    target_tokens: list[str]
    """Pieces, EOS at the end."""
    token_log_probs: list[float]
    """One for each target token; natural logarithm."""
    attention: Float[np.ndarray, "T S"]
    """Attention of target to source tokens: the mean of all heads and layers; rows sum to 1."""

    @property
    def alignment(self) -> list[tuple[int, int]]:
        """(source token, target token): the source token with most attention; EOS is left out."""
        without_eos = self.attention[:-1, :-1]
        if not without_eos.size:
            return []
        return [(int(source), target) for target, source in enumerate(without_eos.argmax(axis=1))]

    def as_json(self, *, with_attention: bool) -> dict[str, Any]:
        """Returns the values that the commands `translate` and `score` write."""
        values = {
            "source_tokens": self.source_tokens,
            "tokens": self.target_tokens,
            "token_log_probs": self.token_log_probs,
            "alignment": self.alignment,
        }
        return values | (
            {"attention": self.attention.astype(float).round(4).tolist()} if with_attention else {}
        )


class Hypothesis(NamedTuple):
    """One translation of one sentence. `str(hypothesis)` is its text."""

    text: str
    tokens: list[int]
    """Token ids, EOS at the end; none for a blank line."""
    score: float
    """Log-probability / length penalty. Natural logarithm; comparable within one sentence."""
    utility: float | None = None
    """Strategy "mbr": mean chrF or BLEU, 0 to 100, against all samples; None for a split line."""
    flags: tuple[Flag, ...] | None = None
    """Faults that were found; None if `flag_faults` is off."""
    details: TokenDetails | None = None
    unknown: tuple[str, ...] = ()
    """Source words that the model does not know, in order. With `copy_unknown` the text has them;
    the tokens do not."""

    def __str__(self) -> str:
        return self.text


class PairScore(NamedTuple):
    """The score of a given translation."""

    score: float
    """As in `Hypothesis`: log_prob / length penalty."""
    log_prob: float
    tokens: list[int]
    token_log_probs: list[float]
    """One for each of `tokens`."""
    flags: tuple[Flag, ...] | None = None
    """Faults that were found; None if `flag_faults` is off."""
    details: TokenDetails | None = None


NO_DETAILS = TokenDetails([], [], [], np.zeros((0, 0), np.float32))
"""The details of a blank line."""


def ranked(found: Sequence[Hypothesis], config: DecodingConfig) -> list[Hypothesis]:
    """Returns the hypotheses of one sentence in the order of its strategy, without equal texts.

    Strategy "sample" keeps equal texts: their number estimates a probability. "mbr" keeps the
    samples that agree best with all samples.
    """
    if config.strategy != "mbr":
        return list(found) if config.strategy == "sample" else distinct(found)
    # Imported here, because sacreBLEU would delay every other search.
    from flaxformer_mt.evaluation import mbr
    from flaxformer_mt.evaluation.metrics import default_tokenize

    texts = [sample.text for sample in found]
    best = mbr.ranked(texts, config.utility, tokenize=default_tokenize(texts))
    return [found[i]._replace(utility=utility) for i, utility in best[: config.num_hypotheses]]


def distinct(found: Sequence[Hypothesis]) -> list[Hypothesis]:
    """Returns the first hypothesis of each text; others have equal texts but other tokens."""
    first: dict[str, Hypothesis] = {}
    for one in found:
        first.setdefault(one.text, one)
    return list(first.values())


def join_lines(
    num_lines: int,
    segment_origins: Sequence[tuple[int, str]],
    found: Sequence[Sequence[Hypothesis]],
    blank: Hypothesis,
    vocabulary: Vocabulary,
) -> list[list[Hypothesis]]:
    """Returns the hypotheses of each line, from the hypotheses of all segments.

    The i-th hypothesis of a split line consists of the i-th of every segment, or of its last one if
    it has fewer. Scores are added.

    Args:
      segment_origins: index of the line and white space before it, of each segment in order.
      found: hypotheses of each segment.
      blank: the hypothesis of a line without segments.
    """
    results = [[blank] for _ in range(num_lines)]
    with_origins = zip(segment_origins, found, strict=True)
    by_line = itertools.groupby(with_origins, lambda segment: segment[0][0])
    for line, group in by_line:
        of_line = list(group)
        gaps = [gap for (_, gap), _ in of_line]
        segments = [hypotheses for _, hypotheses in of_line]
        results[line] = [
            _concatenate([one[min(i, len(one) - 1)] for one in segments], vocabulary, gaps)
            for i in range(max(map(len, segments)))
        ]
    return results


def _concatenate(
    parts: Sequence[Hypothesis], vocabulary: Vocabulary, gaps: Sequence[str]
) -> Hypothesis:
    """Returns one hypothesis of a line. `gaps` has the white space before each part."""
    if len(parts) == 1:
        return parts[0]
    tokens = [token for part in parts for token in part.tokens[:-1]]
    tokens.append(vocabulary.eos_id)
    text = ""
    for part, gap in zip(parts, gaps, strict=True):
        between = (gap or _space_after(text)) if text and part.text else ""
        text += between + part.text
    unknown = tuple(word for part in parts for word in part.unknown)
    score = sum(part.score for part in parts)
    whole = Hypothesis(without_line_breaks(text), tokens, score, unknown=unknown)
    if all(part.flags is not None for part in parts):
        whole = whole._replace(flags=tuple(flag for part in parts for flag in part.flags or ()))
    details = [part.details for part in parts if part.details]
    return whole._replace(details=_concatenate_details(details) if details else None)


def _space_after(text: str) -> str:
    """Returns the space between two sentences where the source has none, as in Chinese."""
    is_wide = unicodedata.east_asian_width(text[-1]) in "WF"  # with Hangul and emoji
    has_spaces = regex.match(r"\p{Hangul}|\p{So}", text[-1])
    return "" if is_wide and not has_spaces else " "


def _concatenate_details(parts: Sequence[TokenDetails]) -> TokenDetails:
    """Returns the details of a line; only the EOS of the last part remains."""
    *others, last = parts

    def concatenate(name: str) -> list[Any]:
        return [item for part in others for item in getattr(part, name)[:-1]] + getattr(last, name)

    height, width = np.sum([np.subtract(part.attention.shape, 1) for part in parts], axis=0) + 1
    attention = np.zeros((height, width), np.float32)
    row = column = 0
    for part in parts:
        block = part.attention if part is last else part.attention[:-1]
        rows = slice(row, row + block.shape[0])
        columns = slice(column, column + block.shape[1] - 1)
        # Attention to the EOS of a part becomes attention to the EOS of the line.
        attention[rows, columns], attention[rows, -1] = block[:, :-1], block[:, -1]
        row, column = rows.stop, columns.stop
    return TokenDetails(
        concatenate("source_tokens"),
        concatenate("target_tokens"),
        concatenate("token_log_probs"),
        attention,
    )
