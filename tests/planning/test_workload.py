"""What is compiled: the recipe's own shapes, or stated assumptions."""

import dataclasses

import pytest

from flaxformer_mt.config import load_config
from flaxformer_mt.data.sources.corpora import CorpusConfig
from flaxformer_mt.planning.workload import make_workload, missing_data


def with_data(name, **changes):
    config = load_config(f"configs/{name}.py")
    return dataclasses.replace(config, data=dataclasses.replace(config.data, **changes))


def test_the_shapes_of_the_demo():
    train = CorpusConfig(pairs=("demo:train:3000",))
    workload = make_workload(with_data("demo", train=train))
    assert "own data, 3,000 pairs" in workload.origin
    assert 1 <= len(workload.shapes) <= 4 and workload.vocabulary[0] <= 1000
    assert sum(workload.shares) == pytest.approx(1)
    for shape, tokens in zip(workload.shapes, workload.target_tokens, strict=True):
        assert 0 < tokens <= shape.rows * shape.target_length
    assert 0.7 < workload.fill < 1


@pytest.mark.parametrize("batching", ["bucket", "pack"])
def test_what_is_not_here_is_assumed_and_said(batching, monkeypatch, tmp_path):
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path))
    config = with_data("wmt14_en_de_base", batching=batching)
    workload = make_workload(config)
    assert workload.origin.startswith("ASSUMED (tfds:wmt14_translate/de-en:train is not here)")
    assert workload.vocabulary == (37_000, 37_000)
    assert workload.shapes[-1] == workload.largest
    assert workload.largest[1:] == (256, 256)
    assert all(shape.rows % 8 == 0 for shape in workload.shapes)
    assert 0.8 < workload.fill < 1
    assert make_workload(config) == workload
    assert not list(tmp_path.iterdir())


def test_missing_files():
    corpus = CorpusConfig(source=("no.en",), target=("no.de",))
    config = with_data("demo", train=corpus)
    assert missing_data(config.data) == "no.en"
    assert missing_data(load_config("configs/demo.py").data) == ""


def test_assumed_though_it_is_here():
    workload = make_workload(load_config("configs/demo.py"), assume_lengths=True)
    assert workload.origin.startswith("ASSUMED (--assume-lengths)")
