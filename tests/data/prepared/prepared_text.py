"""Text for tests of prepared corpora, and the comparison of data."""

import dataclasses
import gzip
from pathlib import Path

import numpy as np
import pyarrow

from flaxformer_mt.data.config import DataConfig
from flaxformer_mt.data.pipeline import Data, build_data


def sentences(seed: int, count: int) -> list[str]:
    rng = np.random.default_rng(seed)
    words = ["der", "die", "ein", "hund", "katze", "baum", "rot", "blau", "sieht", "hat", "geht"]
    return [" ".join(rng.choice(words, rng.integers(1, 12))) + f" {i}" for i in range(count)]


def write(file: Path, lines: list[str]) -> None:
    content = "".join(f"{line}\n" for line in lines).encode()
    if file.suffix == ".gz":
        content = gzip.compress(content)
    if file.suffix == ".zst":
        content = pyarrow.compress(content, codec="zstd", asbytes=True)
    file.write_bytes(content)


def build(config: DataConfig, directory: Path, **options) -> Data:
    return build_data(config, tokenizer_directory=str(directory), **{"seed": 0, **options})


def assert_same(one: Data, other: Data, epochs: int = 2) -> None:
    """Every batch of every process is the same, and so is everything that is reported."""
    assert one.tokenizer.fingerprint == other.tokenizer.fingerprint
    assert one.fingerprints == other.fingerprints
    assert one.shapes == other.shapes
    for field in dataclasses.fields(one.report):
        if field.name != "quarantine":
            assert getattr(one.report, field.name) == getattr(other.report, field.name)
    for epoch in range(epochs):
        plans = [data.epochs.plan(epoch) for data in (one, other)]
        assert len(plans[0]) == len(plans[1]) > 3
        for index in range(len(plans[0])):
            rows = np.arange(plans[0].shape(index).rows)
            for shard in (None, *np.array_split(rows, 8)):
                batches = [plan.batch(index, shard) for plan in plans]
                for a, b in zip(*batches, strict=True):
                    np.testing.assert_array_equal(a, b)
