"""When training must end: told as a time span or as a moment."""

import dataclasses
import math
import re
import time
from datetime import datetime

_SPAN = re.compile(r"(?:(?P<d>[\d.]+)d)?(?:(?P<h>[\d.]+)h)?(?:(?P<m>[\d.]+)m)?(?:(?P<s>[\d.]+)s)?")
_SECONDS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}


def parse_deadline(text: str, now: float) -> float:
    """ "5h", "1h30m", "90s" from now on, or "2026-11-21T18:00", in seconds since 1970; "" is never.

    Raises:
      ValueError: neither of them, or in the past.
    """
    text = text.strip()
    if not text:
        return math.inf
    try:
        moment = _moment(text, now)
    except ValueError:
        raise ValueError(
            f"--deadline must be a time span such as 5h, 1h30m or 90s, or a moment such as "
            f"2026-11-21T18:00, got {text!r}"
        ) from None
    if moment <= now:
        raise ValueError(
            f"--deadline {text} is in the past: it was {_ago(now - moment)} ago"
            if moment < now
            else f"--deadline {text} leaves no time"
        )
    return moment


def _moment(text: str, now: float) -> float:
    span = _SPAN.fullmatch(text)
    if span:
        return now + sum(
            float(value) * _SECONDS[unit] for unit, value in span.groupdict("0").items()
        )
    return datetime.fromisoformat(text).timestamp()


def _ago(seconds: float) -> str:
    for unit, size in (("days", 86400), ("hours", 3600)):
        if seconds > 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds / 60:.1f} minutes"


@dataclasses.dataclass
class Pace:
    """How long things took in this run, as far as known; and so how early to stop.

    Attributes:
      started: of this start, in seconds since 1970.
      longest_step: between two updates, seconds; as compilation counts, it tells of that too.
      window: from one log line to the next: the device may be so much behind the host.
      save: seconds of a checkpoint.
      validation: seconds of a validation.
      per_pair: seconds to translate one validation pair.
    """

    started: float
    longest_step: float = 0.0
    window: float = 0.0
    save: float = 0.0
    validation: float = 0.0
    per_pair: float = 0.0

    def reserve(self, *, deadline: float, pairs: int, beam_size: int) -> float:
        """Seconds to keep for what comes after the last update: saving, averaging, evaluation.

        Args:
          deadline: seconds since 1970. What is not yet known is taken to be a tenth of the time
            from the start of the run until then.
          pairs: to translate at the end.
          beam_size: of that.
        """
        tenth = (deadline - self.started) / 10
        evaluation = self.evaluation(pairs, beam_size) if self.per_pair else tenth
        # Saved, averaged (which reads and writes as much), and saved once more.
        after = (3 * self.save or tenth) + (evaluation if pairs else 0)
        # The step that is under way, and a validation that may be due.
        return after + self.longest_step + self.window + self.validation

    def validated(self, seconds: float, pairs: int) -> None:
        """Notes how long a validation took, `pairs` translated in it."""
        self.validation = max(self.validation, seconds)
        self.per_pair = seconds / pairs if pairs else self.per_pair

    def evaluation(self, pairs: int, beam_size: int) -> float:
        """Seconds of the final score: as validation, times the beam, and compiling anew."""
        return self.per_pair * pairs * beam_size + self.validation + self.longest_step

    def too_late(self, deadline: float, *, pairs: int, beam_size: int) -> bool:
        """Whether to stop training now."""
        if math.isinf(deadline):
            return False
        left = deadline - time.time()
        return left < self.reserve(deadline=deadline, pairs=pairs, beam_size=beam_size)
