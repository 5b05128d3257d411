"""When to stop for a deadline: what is told, and what must be left for afterwards."""

import math
import time
from datetime import datetime

import pytest

from flaxformer_mt.training.deadline import Pace, parse_deadline


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5h", 18000), ("1h30m", 5400), ("90s", 90), ("1.5h", 5400), ("2d", 172800), (" 10m ", 600)],
)
def test_a_span_counts_from_now(text, seconds):
    assert parse_deadline(text, now=1000.0) == 1000.0 + seconds


def test_a_moment_is_itself():
    moment = datetime(2030, 5, 1, 18, 30)
    assert parse_deadline("2030-05-01T18:30", now=0.0) == moment.timestamp()


def test_none_is_never():
    assert parse_deadline("", now=5.0) == math.inf


@pytest.mark.parametrize("text", ["soon", "5x", "5", "-5h", "h", "1m1h"])
def test_what_is_neither_is_refused(text):
    with pytest.raises(ValueError, match="--deadline must be a time span such as 5h"):
        parse_deadline(text, now=1000.0)


@pytest.mark.parametrize("text", ["2020-01-01T00:00", "0s"])
def test_the_past_is_refused(text):
    with pytest.raises(ValueError, match="in the past|leaves no time"):
        parse_deadline(text, now=time.time())


def test_what_is_not_known_yet_counts_as_a_tenth_of_the_time():
    pace = Pace(started=0.0)
    assert pace.reserve(deadline=1000.0, pairs=100, beam_size=4) == 200.0
    assert pace.reserve(deadline=1000.0, pairs=0, beam_size=4) == 100.0


def test_what_is_known_is_reserved():
    pace = Pace(started=0.0, longest_step=2.0, window=5.0, save=3.0)
    pace.validated(10.0, pairs=100)
    # Three saves' time; 50 pairs at 0.1 s times the beam, as much again as a validation takes, and
    # compiling; then the step, the window and the validation that may be under way.
    expected = 9 + (50 * 0.1 * 4 + 10 + 2) + 2 + 5 + 10
    assert pace.reserve(deadline=1e6, pairs=50, beam_size=4) == pytest.approx(expected)


def test_it_is_late_when_the_reserve_is_all_that_is_left():
    pace = Pace(started=time.time(), save=1.0)
    assert not pace.too_late(time.time() + 60, pairs=0, beam_size=1)
    assert pace.too_late(time.time() + 2, pairs=0, beam_size=1)
    assert not pace.too_late(math.inf, pairs=0, beam_size=1)
