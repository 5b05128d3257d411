"""How good a translation is likely to be: its expected chrF, from the probability of its tokens.

A model is surer of its good translations, but its probabilities are no qualities. On pairs with
references one learns which quality goes with which mean token log-probability: the best fit that
never falls (isotonic regression; Zadrozny & Elkan 2002, "Transforming Classifier Scores into
Accurate Multiclass Probability Estimates").

The mean alone, because more does not help: on Multi30k (1014 validation pairs, a small model,
English to German) the held-out confidences correlate with chrF by 0.66, and so does a linear
regression on the mean, the lowest token, the mean probability and the length.
"""

import dataclasses
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from flaxformer_mt.runtime.dataclass_json import from_dict

CALIBRATION_FILE = "calibration.json"
"""In the workdir."""
NUM_BINS = 10


@dataclasses.dataclass(frozen=True, kw_only=True)
class Calibration:
    """From the log-probabilities of a translation's tokens to its expected chrF / 100.

    calibration = Calibration.fit(token_log_probs_of_each, qualities)
    calibration([-0.1, -0.7, -0.05])  # 0..1
    """

    log_probs: tuple[float, ...]
    """Mean token log-probabilities, rising; between them the line is straight."""
    qualities: tuple[float, ...]
    """The expected quality at each of `log_probs`, from 0 to 1, never falling."""
    checkpoint: str = ""
    """The parameters whose probabilities these are: "averaged" or a step."""

    def __post_init__(self) -> None:
        if len(self.log_probs) != len(self.qualities) or not self.log_probs:
            raise ValueError(
                f"log_probs and qualities must be equally many, and at least one, but they are "
                f"{len(self.log_probs)} and {len(self.qualities)}"
            )
        if not (np.isfinite(self.log_probs).all() and (np.diff(self.log_probs) > 0).all()):
            raise ValueError("log_probs must be finite numbers, each greater than the one before")
        _check_qualities(self.qualities)
        if not (np.diff(self.qualities) >= 0).all():
            raise ValueError("qualities must not fall: what is more probable counts as no worse")

    @classmethod
    def fit(
        cls,
        token_log_probs: Sequence[Sequence[float]],
        qualities: Sequence[float],
        *,
        checkpoint: str = "",
    ) -> "Calibration":
        """From the token log-probabilities of some translations, and how good each of them is.

        Raises ValueError unless there is one quality from 0 to 1 for each, and at least one.
        """
        from scipy.optimize import isotonic_regression  # a quarter of a second, for `fit` alone

        _check_pairs(token_log_probs, qualities)
        means = [mean_log_prob(of_one) for of_one in token_log_probs]
        places, index, counts = np.unique(means, return_inverse=True, return_counts=True)
        of_places = np.bincount(index, weights=np.asarray(qualities, float)) / counts
        fitted = np.clip(isotonic_regression(of_places, weights=counts).x, 0, 1)
        # Of each level its two ends say it all.
        is_level = np.zeros(len(fitted), bool)
        is_level[1:-1] = (fitted[1:-1] == fitted[:-2]) & (fitted[1:-1] == fitted[2:])
        return cls(
            log_probs=tuple(places[~is_level].tolist()),
            qualities=tuple(fitted[~is_level].tolist()),
            checkpoint=checkpoint,
        )

    def __call__(self, token_log_probs: Sequence[float]) -> float:
        """The expected quality, 0 to 1; 1 for a blank line, which has no tokens."""
        if not len(token_log_probs):
            return 1.0
        return float(np.interp(mean_log_prob(token_log_probs), self.log_probs, self.qualities))

    def to_json(self) -> str:
        """As a JSON object; `from_json` gives an equal calibration back."""
        return json.dumps(dataclasses.asdict(self), indent=2) + "\n"

    @staticmethod
    def from_json(text: str) -> "Calibration":
        """What `to_json` wrote; raises ValueError, naming what is wrong, for anything else."""
        return from_dict(Calibration, json.loads(text), where="calibration")


class HeldOut(NamedTuple):
    """How confidences fare on pairs that they were not fitted to."""

    calibration_error: float
    """See `calibration_error`."""
    absolute_error: float
    """Mean distance of confidence and quality."""
    absolute_error_of_constant: float
    """The same of the mean quality: what is reached without looking at the translation."""
    correlation: float
    """Pearson's, of confidence and quality; 0 if one of them is always the same."""


def mean_log_prob(token_log_probs: Sequence[float]) -> float:
    """The mean log-probability of the tokens (EOS too) of one translation.

    Raises ValueError if there are none.
    """
    if not len(token_log_probs):
        raise ValueError("a translation without tokens has no mean log-probability")
    return float(np.mean(token_log_probs))


def calibration_error(
    confidences: Sequence[float] | Float[np.ndarray, " n"],
    qualities: Sequence[float] | Float[np.ndarray, " n"],
    num_bins: int = NUM_BINS,
) -> float:
    """Expected calibration error: |mean confidence - mean quality|, over bins of equal mass.

    The bins follow the confidences, each counts by its size; equal confidences share a bin. Noise
    alone makes it about spread of the qualities / sqrt(size of a bin).
    Raises ValueError for no pairs, lists of unequal length or no bins.
    """
    if len(confidences) != len(qualities) or not len(qualities) or num_bins < 1:
        raise ValueError(
            f"calibration_error needs one confidence for each quality and at least one bin, but "
            f"there are {len(confidences)}, {len(qualities)} and {num_bins}"
        )
    found, true = np.asarray(confidences, float), np.asarray(qualities, float)
    below = np.searchsorted(np.sort(found), found)  # how many are less confident
    bins = below * num_bins // len(found)
    return float(np.abs(np.bincount(bins, weights=found - true)).sum() / len(found))


def held_out(
    token_log_probs: Sequence[Sequence[float]], qualities: Sequence[float], num_bins: int = NUM_BINS
) -> HeldOut:
    """Fit to every second pair and measure on the others, and the reverse; the mean of both.

    Raises ValueError for fewer than 2 pairs in each bin of a half, else as `Calibration.fit`.
    """
    _check_pairs(token_log_probs, qualities)
    if len(qualities) < 4 * num_bins:
        raise ValueError(
            f"{len(qualities)} pairs are too few to measure a calibration on held-out halves: it "
            f"takes at least {4 * num_bins}"
        )
    odd, even = slice(0, None, 2), slice(1, None, 2)
    halves = []
    for fitted, measured in ((odd, even), (even, odd)):
        calibration = Calibration.fit(token_log_probs[fitted], qualities[fitted])
        confidences = np.array([calibration(of_one) for of_one in token_log_probs[measured]])
        true = np.asarray(qualities[measured], float)
        half = HeldOut(
            calibration_error=calibration_error(confidences, true, num_bins),
            absolute_error=float(np.abs(confidences - true).mean()),
            absolute_error_of_constant=float(np.abs(np.mean(qualities[fitted]) - true).mean()),
            correlation=_correlation(confidences, true),
        )
        halves.append(half)
    return HeldOut(*(float(np.mean(both)) for both in zip(*halves, strict=True)))


def _correlation(one: Float[np.ndarray, " n"], other: Float[np.ndarray, " n"]) -> float:
    if one.std() == 0 or other.std() == 0:
        return 0.0
    return float(np.corrcoef(one, other)[0, 1])


def _check_pairs(token_log_probs: Sequence[Sequence[float]], qualities: Sequence[float]) -> None:
    if len(token_log_probs) != len(qualities) or not len(qualities):
        raise ValueError(
            f"a calibration needs one quality for each translation, and at least one, but there "
            f"are {len(token_log_probs)} translations and {len(qualities)} qualities"
        )
    _check_qualities(qualities)


def _check_qualities(qualities: Sequence[float]) -> None:
    if not all(0 <= quality <= 1 for quality in qualities):
        raise ValueError("qualities must lie between 0 and 1: chrF / 100, not chrF")


def read_calibration(workdir: str | os.PathLike[str], checkpoint: str) -> Calibration | None:
    """What `calibrate` wrote for these parameters; None if there is nothing, or for others only.

    Raises ValueError, naming the file, if it cannot be read.
    """
    file = Path(workdir, CALIBRATION_FILE)
    if not file.is_file():
        return None
    try:
        calibration = Calibration.from_json(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{file}: {error}; run calibrate again, or delete the file") from error
    if calibration.checkpoint != checkpoint:
        return None
    return calibration
