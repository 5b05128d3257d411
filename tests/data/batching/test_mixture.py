"""Mixtures of corpora: the share of each in an epoch, by temperature."""

import dataclasses

import numpy as np
import pytest

from flaxformer_mt.data.batching.mixture import sample_mixture, temperature_weights
from flaxformer_mt.data.config import DataConfig
from flaxformer_mt.data.pipeline import build_data
from flaxformer_mt.data.sources.corpora import CorpusConfig
from flaxformer_mt.data.tokenization.config import TokenizerConfig

SIZES = (90_000, 9_000, 1_000)


@pytest.mark.parametrize("temperature", [1.0, 2.0, 5.0, 100.0])
def test_corpora_are_seen_in_proportion_to_the_root_of_their_size(temperature):
    weights = temperature_weights(SIZES, temperature)
    order = sample_mixture(np.random.default_rng(0), SIZES, weights)
    starts = np.cumsum([0, *SIZES])
    seen = np.histogram(order, starts)[0]
    assert abs(len(order) - sum(SIZES)) <= 1
    roots = np.array(SIZES) ** (1 / temperature)
    np.testing.assert_allclose(seen / seen.sum(), roots / roots.sum(), rtol=1e-3)


def test_temperature_1_is_every_pair_once():
    order = sample_mixture(np.random.default_rng(0), SIZES, temperature_weights(SIZES, 1.0))
    assert sorted(order.tolist()) == list(range(sum(SIZES)))


def test_empty_corpora_change_nothing():
    assert temperature_weights((0, 100, 100), 2.0) == pytest.approx((1.0, 1.0, 1.0))
    assert temperature_weights((0, 0), 2.0) == (1.0, 1.0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": 0.5}, "temperature must be 0 .* got 0.5"),
        ({"temperature": float("inf")}, "temperature must be 0 .* got inf"),
        ({"temperature": 2.0, "weights": (1.0,)}, "both say how often an epoch contains a corpus"),
    ],
)
def test_impossible_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        CorpusConfig(pairs=("a.tsv",), **settings)


def test_temperature_uses_sizes_after_dropping_and_the_report_shows_it(tmp_path):
    # 40 usable pairs, and 10 beside 90 that are too long.
    (tmp_path / "a.tsv").write_text("a b\tb a\n" * 40)
    (tmp_path / "b.tsv").write_text("b a\ta b\n" * 10 + "a a a a a a\tb\n" * 90)
    config = DataConfig(
        directory=str(tmp_path),
        train=CorpusConfig(pairs=("a.tsv", "b.tsv"), temperature=2.0),
        tokenizer=TokenizerConfig(kind="word"),
        max_source_length=4,
    )
    data = build_data(config, tokenizer_directory=str(tmp_path / "tokenizer"), seed=0)
    # The shares are sqrt(40) : sqrt(10) = 2 : 1.
    assert data.epochs.weights == pytest.approx((50 * 2 / 3 / 40, 50 / 3 / 10))
    assert "from b.tsv, 1.67 times an epoch" in str(data.report)
    plain = dataclasses.replace(config, train=CorpusConfig(pairs=("a.tsv", "b.tsv")))
    data = build_data(plain, tokenizer_directory=str(tmp_path / "tokenizer"), seed=0)
    assert "times an epoch" not in str(data.report)
