"""The toy German-English model: it learns its sentences and returns its attention matrices."""

import numpy as np
import pytest

import toy_de_en
from flaxformer_mt.config import load_config
from flaxformer_mt.inspection.capture import capture
from flaxformer_mt.train import train
from flaxformer_mt.translation.translator import Translator

pytestmark = [pytest.mark.slow, pytest.mark.default_compiler]  # a whole run of `train`


@pytest.fixture(scope="module")
def translator(tmp_path_factory):
    workdir = str(tmp_path_factory.mktemp("toy"))
    train(load_config("configs/toy_de_en.py"), workdir)
    return Translator.load(workdir)


def test_learns_the_sentences(translator):
    lines = toy_de_en.SENTENCES.read_text(encoding="utf-8").splitlines()
    sources, targets = zip(*(line.split("\t") for line in lines), strict=True)
    assert [best.text for best, *_ in translator.translate(list(sources))] == list(targets)


def test_returns_its_attention_matrices(translator):
    maps = capture(translator, "ich mochte ein bier")
    assert maps.target_text == "i want a beer"
    # One layer, two heads; four words and the end of the sentence.
    for weights in (maps.encoder, maps.decoder, maps.source):
        assert weights.shape == (1, 2, 5, 5)
        np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)
        assert (weights >= 0).all()
    assert np.triu(maps.decoder, 1).max() == 0
    assert np.triu(maps.encoder[0, 0], 1).max() > 0
