"""Verification of Marian exports: our search and that of `transformers`, line by line."""

import dataclasses
import json
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs the extra [parity]: make test-all")
pytest.importorskip("transformers", reason="needs the extra [parity]: make test-all")

from marian_directories import ENGLISH, OURS, our_model

from flaxformer_mt.checkpoints.loading import LoadedModel
from flaxformer_mt.interop.marian.convert import write_marian
from flaxformer_mt.interop.verify import VerificationFailed, verify_export

pytestmark = pytest.mark.slow

WORDS = ENGLISH.split()
LINES = [" ".join(WORDS[i % 7 : i % 7 + 1 + i % 4]) for i in range(12)]


@pytest.fixture(scope="module")
def loaded() -> LoadedModel:
    """A model with a short length limit, which some translations reach."""
    loaded = our_model(OURS)
    decoding = dataclasses.replace(
        loaded.config.decoding, target_length_ratio=1.0, target_length_margin=3
    )
    return loaded._replace(config=dataclasses.replace(loaded.config, decoding=decoding))


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "lines.en"
    path.write_text("".join(f"{line}\n" for line in LINES))
    return str(path)


@pytest.mark.parametrize("length_penalty", [0.0, 1.0])
def test_an_export_translates_as_the_workdir_does(loaded, file, tmp_path, length_penalty):
    directory = tmp_path / "export"
    write_marian(directory, loaded)
    settings = {"beam_size": 4, "length_penalty": length_penalty}
    verify_export(directory, "marian", loaded, file, exact=True, **settings)
    found = json.loads((directory / "verification.json").read_text())
    assert found["identical"] == 1
    assert found["largest_score_difference"] < 1e-4
    assert {"torch", "transformers"} <= set(found["versions"])


def test_another_model_fails(loaded, file, tmp_path):
    params = dict(loaded.params)
    params["target_embedding"] = {"table": params["target_embedding"]["table"][::-1]}
    directory = tmp_path / "export"
    write_marian(directory, loaded._replace(params=params))
    with pytest.raises(VerificationFailed, match="identical, but"):
        verify_export(directory, "marian", loaded, file, exact=True, beam_size=4)


def test_greedy_search_is_refused(loaded, file, tmp_path):
    directory = tmp_path / "export"
    write_marian(directory, loaded)
    with pytest.raises(ValueError, match="beam of at least 2"):
        verify_export(directory, "marian", loaded, file, exact=True, beam_size=1)
