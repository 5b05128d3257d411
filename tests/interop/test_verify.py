"""Verification of CTranslate2 exports of tiny random models, line by line."""

import dataclasses
import json
from pathlib import Path

import jax
import numpy as np
import pytest
from marian_directories import ENGLISH, GERMAN, LANGUAGE, sentencepiece_model, write_directory
from random_models import random_model
from tiers import slow_after

from flaxformer_mt.checkpoints.loading import LoadedModel
from flaxformer_mt.data.tokenization.sentencepiece_vocabulary import SentencePieceVocabulary
from flaxformer_mt.data.tokenization.tokenizer import Tokenizer
from flaxformer_mt.data.tokenization.word_vocabulary import WordVocabulary
from flaxformer_mt.interop import verify
from flaxformer_mt.interop.ctranslate2 import write_ctranslate2
from flaxformer_mt.interop.marian.convert import read_marian
from flaxformer_mt.interop.verify import (
    Translation,
    VerificationFailed,
    compare,
    judge,
    verify_export,
)
from flaxformer_mt.model.config import TransformerConfig
from flaxformer_mt.translation.config import DecodingConfig

pytest.importorskip("ctranslate2", reason="needs the extra [ctranslate2]")

WORDS = ENGLISH.split()
RNG = np.random.default_rng(0)
LINES = [" ".join(RNG.choice(WORDS, length)) for length in RNG.integers(1, 6, 40)]


@pytest.fixture(scope="module")
def loaded() -> LoadedModel:
    special = {"pad_id": 0, "unk_id": 1, "bos_id": 2, "eos_id": 3}
    sides = (SentencePieceVocabulary(sentencepiece_model(w, **special)) for w in (ENGLISH, GERMAN))
    config = TransformerConfig(
        d_model=16,
        d_ff=24,
        num_heads=4,
        num_encoder_layers=1,
        num_decoder_layers=1,
        norm="pre",
        dtype="bfloat16",  # of training: verification computes in float32
        positions="rotary",
        num_kv_heads=2,
        tie_embeddings="none",
        output_bias=True,
    )
    loaded = random_model(config, Tokenizer(*sides), max_source_length=32)
    # Translations of various lengths, so that other search rules would find others.
    loaded.params["logits_bias"] = loaded.params["logits_bias"].at[3].add(6.0)
    return loaded


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "lines.en"
    too_long = " ".join(WORDS * 3)
    path.write_text("".join(f"{line}\n" for line in ["", *LINES, too_long]))
    return path


def report_of(directory: Path) -> dict:
    return json.loads((directory / "verification.json").read_text())


def export(loaded: LoadedModel, directory: Path, quantization: str = "float32") -> Path:
    write_ctranslate2(directory, loaded, quantization=quantization)
    return directory


@pytest.mark.parametrize(
    ("beam_size", "length_penalty", "limit"),
    slow_after(1, [(4, 1.0, 50), (1, 1.0, 12), (4, 0.0, 12)]),
)
def test_an_exact_export_translates_as_the_workdir_does(
    loaded, file, tmp_path, beam_size, length_penalty, limit
):
    """Also where translations reach the length limit (12), except in the case that may differ."""
    decoding = DecodingConfig(
        max_target_length=limit, target_length_ratio=0.0, target_length_margin=limit
    )
    loaded = loaded._replace(config=dataclasses.replace(loaded.config, decoding=decoding))
    directory = export(loaded, tmp_path / "export")
    settings = {"beam_size": beam_size, "length_penalty": length_penalty}
    verify_export(directory, "ctranslate2", loaded, str(file), exact=True, **settings)
    found = report_of(directory)
    assert found["identical"] == 1
    assert found["largest_score_difference"] < 1e-4
    assert (found["lines"], found["lines_left_out"]) == (len(LINES), 2)
    assert found["first_differences"] == []


def test_the_report_has_the_rules_and_the_results(loaded, file, tmp_path):
    reference = tmp_path / "lines.de"
    reference.write_text("".join(f"{GERMAN}\n" for _ in range(len(LINES) + 2)))
    directory = export(loaded, tmp_path / "export")
    settings = {"reference": str(reference), "beam_size": 1}
    summary = verify_export(directory, "ctranslate2", loaded, str(file), exact=True, **settings)
    report = report_of(directory)
    assert report["passed"] is True
    assert report["expected"] == "at least 99.50% of the translations identical"
    assert report["against"] == "reference"
    assert report["search"]["length_normalization"] == "average"
    assert {"ctranslate2", "jax", "flaxformer_mt"} <= set(report["versions"])
    assert summary.startswith("100.00% of 40 translations are identical")


def test_another_model_fails_and_the_report_lists_differences(loaded, file, tmp_path):
    other = loaded._replace(params=jax.tree.map(lambda x: 1.2 * x, loaded.params))
    directory = export(other, tmp_path / "export")
    with pytest.raises(VerificationFailed, match="expected at least 99.50% .* identical, but"):
        verify_export(directory, "ctranslate2", loaded, str(file), exact=True, beam_size=1)
    report = report_of(directory)
    assert report["passed"] is False
    differences = report["first_differences"]
    assert 0 < len(differences) <= 10
    for one in differences:
        assert one["source"] == ["", *LINES][one["line"] - 1]
        assert one["workdir"] != one["export"]


def test_a_file_without_a_usable_line_is_refused(loaded, tmp_path):
    file = tmp_path / "lines.en"
    file.write_text("\n\n")
    directory = export(loaded, tmp_path / "export")
    with pytest.raises(ValueError, match="no line of 1 to 31 tokens"):
        verify_export(directory, "ctranslate2", loaded, str(file), exact=True)


def test_a_model_with_word_vocabularies_is_verified(file, tmp_path):
    special = ["<pad>", "<unk>", "<s>", "</s>"]
    vocabulary = WordVocabulary([(word, 1) for word in special + WORDS[:-2]])
    config = TransformerConfig(d_model=16, num_heads=2, num_encoder_layers=1, num_decoder_layers=1)
    loaded = random_model(config, Tokenizer(vocabulary, vocabulary))
    directory = export(loaded, tmp_path / "export")
    assert not list(directory.glob("*.spm"))
    verify_export(directory, "ctranslate2", loaded, str(file), exact=True, beam_size=1)


@pytest.mark.slow
@pytest.mark.parametrize("padding", ["<pad>", "</s>"])
def test_an_imported_marian_model_is_exported_to_ctranslate2(tmp_path, padding):
    """Also one in which one token is EOS, padding and the start of a target."""
    pytest.importorskip("safetensors", reason="needs the extra [marian]")
    marian = tmp_path / "marian"
    special = {} if padding == "<pad>" else {"pad_token_id": 0, "decoder_start_token_id": 0}
    write_directory(marian, generation={"max_length": 12}, config=special, pad_token=padding)
    loaded = read_marian(marian)
    file = tmp_path / "lines.en"
    file.write_text("".join(f"{LANGUAGE * (i % 2)}{line}\n" for i, line in enumerate(LINES)))
    directory = export(loaded, tmp_path / "export")
    for side in ("source", "target"):
        name = f"{side}.spm"
        assert (directory / name).read_bytes() == (marian / name).read_bytes()
    verify_export(directory, "ctranslate2", loaded, str(file), exact=True, beam_size=1)
    found = report_of(directory)
    assert found["identical"] == 1
    assert found["largest_score_difference"] < 1e-4


def test_the_sentencepiece_models_of_an_export_are_those_of_the_workdir(loaded, tmp_path):
    directory = export(loaded, tmp_path / "export")
    for side in ("source", "target"):
        model = (directory / f"{side}.spm").read_bytes()
        assert model == getattr(loaded.tokenizer, side).to_bytes()


WORKDIR = [Translation("a b c d e", -0.5), Translation("f g h i j", -0.25), Translation("k", -1.0)]
EXPORT = [Translation("a b c d e", -0.5), Translation("f g h i x", -0.75), Translation("k", -1.5)]


def test_shares_and_score_differences_are_those_of_the_identical_lines():
    found = compare(WORKDIR, EXPORT, None)
    assert found["identical"] == pytest.approx(2 / 3)
    assert found["largest_score_difference"] == 0.5
    found = compare(WORKDIR, [Translation("z", -0.5)] * 3, None)
    assert (found["identical"], found["largest_score_difference"]) == (0, None)


@pytest.mark.parametrize("references", [None, ["a b c d e", "f g h i x", "k"]])
def test_metrics_are_against_the_references_or_the_workdir(references):
    found = compare(WORKDIR, EXPORT, references)
    best, worse = ("workdir", "export") if references is None else ("export", "workdir")
    assert found["against"] == ("workdir" if references is None else "reference")
    for metric in ("bleu", "chrf"):
        assert found[metric][best] == pytest.approx(100)
        assert 0 < found[metric][worse] < 100
    assert "tok:13a" in found["bleu"]["signature"]


def test_the_references_decide_how_bleu_splits_text():
    found = compare(WORKDIR, EXPORT, ["我们必须保护环境。"] * 3)
    assert "tok:zh" in found["bleu"]["signature"]


def test_an_exact_export_is_judged_by_identical_lines_and_a_rounded_one_by_bleu(monkeypatch):
    def passes(found, *, exact, **tolerances) -> bool:
        for name, value in tolerances.items():
            monkeypatch.setattr(verify, name.upper(), value)
        return judge(found, exact=exact)[0]

    to_workdir = compare(WORKDIR, EXPORT, None)
    to_references = compare(WORKDIR, EXPORT, [one.text for one in WORKDIR])
    assert passes(to_workdir, exact=True, min_identical=0.6)
    assert not passes(to_workdir, exact=True, min_identical=0.7)
    bleu = to_workdir["bleu"]["export"]
    assert passes(to_workdir, exact=False, min_bleu_to_workdir=bleu - 1)
    assert not passes(to_workdir, exact=False, min_bleu_to_workdir=bleu + 1)
    loss = 100 - to_references["bleu"]["export"]
    assert passes(to_references, exact=False, max_bleu_loss=loss + 1)
    assert not passes(to_references, exact=False, max_bleu_loss=loss - 1)
    better = compare(WORKDIR, EXPORT, [one.text for one in EXPORT])
    assert passes(better, exact=False, max_bleu_loss=0)


@pytest.mark.parametrize("text", ["the cat", ""])
def test_identical_short_translations_pass(text):
    """Their BLEU is 0: they have no n-grams of four words."""
    side = [Translation(text, -0.5)] * 3
    found = compare(side, side, None)
    assert judge(found, exact=False)[0]


def test_a_quantised_export_is_verified(loaded, file, tmp_path, monkeypatch):
    directory = export(loaded, tmp_path / "export", "int8")
    monkeypatch.setattr(verify, "MIN_BLEU_TO_WORKDIR", 1.0)
    verify_export(directory, "ctranslate2", loaded, str(file), exact=False, beam_size=1)
    report = report_of(directory)
    assert report["passed"] and report["against"] == "workdir"
