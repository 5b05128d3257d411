"""Calibration on data whose right answer is known."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flaxformer_mt.evaluation.confidence import (
    Calibration,
    calibration_error,
    held_out,
    mean_log_prob,
)

PAIRS = st.lists(
    st.tuples(st.floats(-5, 0).map(lambda x: round(x, 1)), st.floats(0, 1)),
    min_size=1,
    max_size=12,
)


def made_up(rng: np.random.Generator, size: int) -> tuple[list[list[float]], list[float]]:
    """Quality exp(mean log-probability), give or take 0.05, for sentences of 1 to 20 tokens."""
    means = -rng.uniform(0.1, 2, size)
    qualities = np.clip(np.exp(means) + rng.normal(0, 0.05, size), 0, 1)
    lengths = rng.integers(1, 21, size)
    return [[m] * n for m, n in zip(means.tolist(), lengths, strict=True)], qualities.tolist()


class TestCalibration:
    def test_finds_the_quality_that_is_there(self, rng: np.random.Generator) -> None:
        calibration = Calibration.fit(*made_up(rng, 2000))
        for mean in (-1.8, -1.0, -0.5, -0.2):
            assert calibration([mean - 0.1, mean + 0.1]) == pytest.approx(np.exp(mean), abs=0.05)
        assert calibration([-50.0]) == pytest.approx(np.exp(-2), abs=0.1)  # as at the end
        assert calibration([0.0]) == pytest.approx(np.exp(-0.1), abs=0.1)

    def test_neighbours_in_the_wrong_order_share_their_mean(self) -> None:
        calibration = Calibration.fit([[-4.0], [-3.0], [-2.0], [-1.0]], [0.1, 0.6, 0.4, 0.8])
        assert [calibration([x]) for x in (-4.0, -3.0, -2.0, -1.0)] == pytest.approx(
            [0.1, 0.5, 0.5, 0.8]
        )
        assert calibration([-3.5]) == pytest.approx(0.3)

    def test_equal_probabilities_count_each(self) -> None:
        calibration = Calibration.fit([[-1.0], [-1.0], [-1.0], [-2.0]], [0.2, 0.2, 0.8, 0.5])
        assert calibration([-1.0]) == calibration([-2.0]) == pytest.approx(1.7 / 4)

    @given(PAIRS, st.randoms(use_true_random=False))
    @settings(deadline=None)
    def test_never_falls_keeps_the_mean_and_no_order_matters(self, pairs, random) -> None:
        calibration = Calibration.fit([[x] for x, _ in pairs], [q for _, q in pairs])
        confidences = [calibration([x]) for x, _ in sorted(pairs)]
        assert all(0 <= c <= 1 for c in confidences)
        assert (np.diff(confidences) >= -1e-12).all()
        assert np.mean(confidences) == pytest.approx(np.mean([q for _, q in pairs]), abs=1e-9)
        shuffled = random.sample(pairs, len(pairs))
        again = Calibration.fit([[x] for x, _ in shuffled], [q for _, q in shuffled])
        assert [again([x]) for x, _ in sorted(pairs)] == pytest.approx(confidences)

    def test_levels_are_kept_by_their_ends(self) -> None:
        calibration = Calibration.fit([[-float(x)] for x in range(9)], [0.5] * 9)
        assert calibration.log_probs == (-8, 0)

    def test_blank_line_is_certain(self) -> None:
        assert Calibration(log_probs=(-1.0,), qualities=(0.3,))([]) == 1

    def test_json_and_back(self, rng: np.random.Generator) -> None:
        calibration = Calibration.fit(*made_up(rng, 50), checkpoint="averaged")
        assert Calibration.from_json(calibration.to_json()) == calibration
        assert json.loads(calibration.to_json())["checkpoint"] == "averaged"

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ('{"log_prob": [1]}', "calibration.log_prob: did you mean log_probs"),
            ('{"log_probs": [-1.0], "qualities": []}', "equally many"),
            ('{"log_probs": [], "qualities": []}', "at least one"),
            ('{"log_probs": [-1.0, -2.0], "qualities": [0.0, 1.0]}', "greater than the one before"),
            ('{"log_probs": [-1.0], "qualities": [50.0]}', "chrF / 100"),
            ('{"log_probs": [-2.0, -1.0], "qualities": [0.5, 0.4]}', "must not fall"),
            ("{", "Expecting"),
        ],
    )
    def test_bad_json_is_named(self, text: str, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            Calibration.from_json(text)

    def test_bad_pairs_are_refused(self) -> None:
        with pytest.raises(ValueError, match="2 translations and 1 qualities"):
            Calibration.fit([[-1.0], [-2.0]], [0.5])
        with pytest.raises(ValueError, match="at least one"):
            Calibration.fit([], [])
        with pytest.raises(ValueError, match="without tokens"):
            Calibration.fit([[-1.0], []], [0.5, 0.5])
        with pytest.raises(ValueError, match="chrF / 100"):
            Calibration.fit([[-1.0]], [50.0])
        with pytest.raises(ValueError, match="finite"):
            Calibration.fit([[float("nan")]], [0.5])


class TestCalibrationError:
    def by_definition(self, confidences: list[float], qualities: list[float], bins: int) -> float:
        """For different confidences, as many in each bin."""
        pairs = sorted(zip(confidences, qualities, strict=True))
        size = len(pairs) // bins
        parts = [pairs[i : i + size] for i in range(0, len(pairs), size)]
        gaps = [
            abs(np.mean([c for c, _ in part]) - np.mean([q for _, q in part])) for part in parts
        ]
        return float(np.mean(gaps))

    def test_is_its_definition(self, rng: np.random.Generator) -> None:
        confidences, qualities = rng.random(60).tolist(), rng.random(60).tolist()
        for bins in (1, 4, 10):
            expected = self.by_definition(confidences, qualities, bins)
            assert calibration_error(confidences, qualities, bins) == pytest.approx(expected)

    def test_too_sure_by_a_tenth(self) -> None:
        qualities = np.linspace(0, 0.9, 50)
        assert calibration_error(qualities + 0.1, qualities) == pytest.approx(0.1)
        assert calibration_error(qualities, qualities) == 0

    def test_equals_share_a_bin(self) -> None:
        assert calibration_error([0.5] * 20, [0.0, 1.0] * 10) == 0
        assert calibration_error([0.5] * 20, [0.0] * 10 + [1.0] * 10) == 0

    def test_no_pairs_are_refused(self) -> None:
        for confidences, qualities, bins in (([], [], 10), ([0.5], [], 10), ([0.5], [0.5], 0)):
            with pytest.raises(ValueError, match="calibration_error needs"):
                calibration_error(confidences, qualities, bins)


class TestHeldOut:
    def test_what_can_be_learnt_is_learnt(self, rng: np.random.Generator) -> None:
        found = held_out(*made_up(rng, 2000))
        assert found.calibration_error < 0.02
        assert found.correlation > 0.9
        assert found.absolute_error == pytest.approx(0.05 * np.sqrt(2 / np.pi), rel=0.15)
        assert found.absolute_error_of_constant > 0.15

    def test_noise_teaches_nothing(self, rng: np.random.Generator) -> None:
        token_log_probs, qualities = [[x] for x in -rng.random(400)], rng.random(400).tolist()
        found = held_out(token_log_probs, qualities)
        assert abs(found.correlation) < 0.2
        assert found.absolute_error > 0.95 * found.absolute_error_of_constant

    def test_is_measured_on_the_other_half(self) -> None:
        # The halves contradict each other: what one teaches is wrong by 0.8 on the other.
        token_log_probs, qualities = [[-0.1 * x] for x in range(80)], [0.1, 0.9] * 40
        found = held_out(token_log_probs, qualities)
        assert found.calibration_error == pytest.approx(0.8)
        assert found.correlation == 0

    def test_few_pairs_are_refused(self) -> None:
        with pytest.raises(ValueError, match="39 pairs are too few"):
            held_out([[-1.0]] * 39, [0.5] * 39)


def test_mean_log_prob() -> None:
    assert mean_log_prob([-1.0, -2.0, -6.0]) == -3
    with pytest.raises(ValueError, match="without tokens"):
        mean_log_prob([])
