"""The batches of a recipe: read from its data, or assumed."""

import dataclasses

import pytest

from flaxformer_mt.config import load_config
from flaxformer_mt.data.sources.corpora import CorpusConfig
from flaxformer_mt.planning.workload import assume_workload, read_workload


def with_data(name, **changes):
    config = load_config(f"configs/{name}.py")
    return dataclasses.replace(config, data=dataclasses.replace(config.data, **changes))


def test_the_recipes_own_data():
    train = CorpusConfig(pairs=("demo:train:3000",))
    workload = read_workload(with_data("demo", train=train))
    assert "own data, 3,000 pairs" in workload.origin
    assert 1 <= len(workload.shapes) <= 4 and workload.vocabulary[0] <= 1000
    assert sum(workload.shares) == pytest.approx(1)
    for shape, tokens in zip(workload.shapes, workload.target_tokens, strict=True):
        assert 0 < tokens <= shape.rows * shape.target_length
    assert 0.7 < workload.fill < 1


@pytest.mark.parametrize("batching", ["bucket", "pack"])
def test_assumed_lengths(batching):
    config = with_data("wmt14_en_de_base", batching=batching)
    workload = assume_workload(config)
    assert workload.origin.startswith("ASSUMED: 20,000 pairs")
    assert workload.vocabulary == (37_000, 37_000)
    assert all(shape.rows % 8 == 0 for shape in workload.shapes)
    assert 0.8 < workload.fill < 1
    assert assume_workload(config) == workload
    (largest,) = workload.largest.shapes
    assert largest == workload.shapes[-1] and largest[1:] == (256, 256)
    assert workload.largest.fill == pytest.approx(workload.fill)
    assert workload.largest.source_lengths == (256,)
