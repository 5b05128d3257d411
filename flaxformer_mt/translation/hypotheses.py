"""What a translator gives back, and how the pieces of a line that was split become one again."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from flaxformer_mt.data.tokenization.vocabulary import Vocabulary
from flaxformer_mt.evaluation.confidence import Calibration
from flaxformer_mt.evaluation.quality_flags import Flag


class Details(NamedTuple):
    """More about a translation, when it is asked for."""

    source_tokens: list[str]
    """Pieces, the last one EOS; so are the target's."""
    target_tokens: list[str]
    token_log_probs: list[float]
    """One for each target token."""
    attention: Float[np.ndarray, "T S"]
    """Where each target token looked, the mean of all heads and layers; each row sums to 1."""
    confidence: float | None
    """Expected chrF / 100; None where the model is not calibrated (python -m ...calibrate)."""

    @property
    def alignment(self) -> list[tuple[int, int]]:
        """(source token, target token): for each target token but EOS where it looked most."""
        of_words = self.attention[:-1, :-1]
        if not of_words.size:
            return []
        return [(int(source), target) for target, source in enumerate(of_words.argmax(axis=1))]

    def as_json(self, *, with_attention: bool) -> dict[str, Any]:
        """As `translate` and `score` write them."""
        values = {
            "source_tokens": self.source_tokens,
            "tokens": self.target_tokens,
            "token_log_probs": self.token_log_probs,
            "alignment": self.alignment,
            "confidence": self.confidence,
        }
        return values | ({"attention": self.attention.round(4).tolist()} if with_attention else {})


class Hypothesis(NamedTuple):
    """One translation of one sentence."""

    text: str
    tokens: list[int]
    """EOS at the end; empty for a blank line."""
    score: float
    """Log-probability / length penalty. Natural logarithm; comparable within one sentence."""
    utility: float | None = None
    """Strategy "mbr": mean chrF or BLEU, 0 to 100, against all samples; None for a split line."""
    flags: tuple[Flag, ...] | None = None
    """What looks wrong; None if nobody looked."""
    details: Details | None = None


class PairScore(NamedTuple):
    """What the model thinks of a given translation."""

    score: float
    """As in `Hypothesis`: log_prob / length penalty."""
    log_prob: float
    tokens: list[int]
    token_log_probs: list[float]
    """One for each of `tokens`."""
    flags: tuple[Flag, ...] | None = None
    """What looks wrong; None if nobody looked."""
    details: Details | None = None


NO_TOKENS = PairScore(0.0, 0.0, [], [])


def make_hypothesis(tokens: list[int], score: float, vocabulary: Vocabulary) -> Hypothesis:
    """With its text: one line of it, for tokens can spell line breaks too."""
    text = " ".join(vocabulary.detokenize(tokens).splitlines())
    return Hypothesis(text, tokens, score)


def no_details(calibration: Calibration | None) -> Details:
    """Those of a blank line."""
    confidence = calibration([]) if calibration else None
    return Details([], [], [], np.zeros((0, 0), np.float32), confidence)


def join(
    pieces: Sequence[Sequence[Hypothesis]], vocabulary: Vocabulary, calibration: Calibration | None
) -> list[Hypothesis]:
    """The hypotheses of a line, from those of its segments.

    The i-th of a line that was split is made of the i-th of every piece; the scores are added.
    """
    if len(pieces) == 1:
        return list(pieces[0])
    return [_join_parts(parts, vocabulary, calibration) for parts in zip(*pieces, strict=False)]


def _join_parts(
    parts: Sequence[Hypothesis], vocabulary: Vocabulary, calibration: Calibration | None
) -> Hypothesis:
    tokens = [token for part in parts for token in part.tokens[:-1]]
    tokens.append(vocabulary.eos_id)
    joined = make_hypothesis(tokens, sum(part.score for part in parts), vocabulary)
    if all(part.flags is not None for part in parts):
        joined = joined._replace(flags=tuple(flag for part in parts for flag in part.flags or ()))
    details = [part.details for part in parts if part.details]
    return joined._replace(details=_join_details(details, calibration) if details else None)


def _join_details(parts: Sequence[Details], calibration: Calibration | None) -> Details:
    """Without the ends of all parts but the last, which stands for all."""
    *others, last = parts
    log_probs = [log_prob for part in others for log_prob in part.token_log_probs[:-1]]
    log_probs += last.token_log_probs
    height, width = np.sum([np.subtract(part.attention.shape, 1) for part in parts], axis=0) + 1
    attention = np.zeros((height, width), np.float32)
    row = column = 0
    for part in parts:
        block = part.attention if part is last else part.attention[:-1]
        of_text = slice(column, column + block.shape[1] - 1)
        rows = slice(row, row + block.shape[0])
        attention[rows, of_text], attention[rows, -1] = block[:, :-1], block[:, -1]
        row, column = rows.stop, of_text.stop
    return Details(
        source_tokens=[t for part in others for t in part.source_tokens[:-1]] + last.source_tokens,
        target_tokens=[t for part in others for t in part.target_tokens[:-1]] + last.target_tokens,
        token_log_probs=log_probs,
        attention=attention,
        confidence=calibration(log_probs) if calibration else None,
    )
