"""Invalid settings are refused at the start, not after hours."""

import pytest

from flaxformer_mt.training.config import TrainingConfig


@pytest.mark.parametrize(
    "wrong",
    [
        {"num_steps": 0},
        {"validation_beam_size": 0},
        {"patience": -1},
        {"patience": 3, "validation_pairs": 0},
        {"adam_b2": 1.0},
        {"adam_eps": -1.0},
        {"average_last": -1},
        {"average_last": 9, "keep_last": 5},
        {"average_last": 2, "average_best": 2},
        {"label_smoothing": 1.0},
        {"learning_rate": float("nan")},
    ],
    ids=str,
)
def test_refused(wrong):
    with pytest.raises(ValueError, match=r"training\."):
        TrainingConfig(**wrong)
