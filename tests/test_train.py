"""Whole runs of a tiny model: killed and resumed, stopped, stopped early, and in a used workdir."""

import dataclasses
import json
import os
import re
import shutil
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
from tiny_run import (
    CONFIG,
    WITHOUT_DROPOUT,
    metric_lines,
    params,
    start,
    start_lines,
    wait_for_step,
)

from flaxformer_mt import Translator
from flaxformer_mt.cli import parse_arguments
from flaxformer_mt.config import to_json
from flaxformer_mt.data.sources.corpora import CorpusConfig
from flaxformer_mt.data.sources.pair import Pair
from flaxformer_mt.inspection.run_pictures import save_pictures
from flaxformer_mt.runtime.workdir_lock import own_workdir
from flaxformer_mt.train import TrainArguments, example_sentence, main, train
from flaxformer_mt.training.state import Progress


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """A run for the tests that are not slow."""
    workdir = tmp_path_factory.mktemp("finished")
    train(WITHOUT_DROPOUT, str(workdir), quiet=True)
    return workdir


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory) -> Path:
    workdir = tmp_path_factory.mktemp("uninterrupted")
    train(CONFIG, str(workdir), quiet=True)
    return workdir


@pytest.mark.slow
def test_killed_and_resumed_equals_uninterrupted(uninterrupted, tmp_path):
    process = start(CONFIG, tmp_path)
    wait_for_step(process, tmp_path / "run", 7)
    process.kill()
    process.communicate()
    train(CONFIG, str(tmp_path / "run"), quiet=True)
    for resumed, expected in zip(params(tmp_path / "run"), params(uninterrupted), strict=True):
        np.testing.assert_array_equal(resumed, expected)
    assert metric_lines(tmp_path / "run") == metric_lines(uninterrupted)
    (first, kernels), *others = start_lines(tmp_path / "run")
    # The newest checkpoint before the kill; that of step 6 can be unfinished then.
    assert first == 0 and others in ([(3, kernels)], [(6, kernels)])


@pytest.mark.slow
def test_sigterm_saves_and_sets_the_exit_status(tmp_path):
    endless = dataclasses.replace(
        WITHOUT_DROPOUT,
        data=dataclasses.replace(WITHOUT_DROPOUT.data, validation=CorpusConfig()),
        training=dataclasses.replace(
            WITHOUT_DROPOUT.training, num_steps=100_000, checkpoint_every=100_000
        ),
    )
    process = start(endless, tmp_path)
    wait_for_step(process, tmp_path / "run", 4)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM, output
    assert "the same command goes on from there" in output
    step = int(max((tmp_path / "run" / "checkpoints").glob("[0-9]*")).name)
    assert 4 <= step < 100_000


@pytest.mark.slow
def test_a_finished_run_shows_its_result_again_and_trains_no_more(uninterrupted, capsys):
    before = metric_lines(uninterrupted)
    train(CONFIG, str(uninterrupted))
    assert metric_lines(uninterrupted) == before
    output, messages = capsys.readouterr()
    assert "\nkernels     cpu: product, dropout, store\n" in messages
    assert "held-out (validation, 8 pairs): BLEU" in output
    assert output.count("reference    ") == 5
    for name in ("translate", "attention_maps", "summary"):
        assert f"flaxformer_mt.{name} --workdir {uninterrupted}" in output
    for name in ("loss", "attention"):
        path = uninterrupted / f"{name}.png"
        assert f"picture: {path}\n" in output
        assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_pictures_of_a_run_with_odd_sentences(uninterrupted, tmp_path):
    """A line separator in a sample, a blank source, and one that is too long for the model."""
    assert example_sentence((Pair(" ", "x"), Pair("a dog", "ein Hund"))) == "a dog"
    workdir = shutil.copytree(uninterrupted, tmp_path / "run")
    sample = {"step": 6, "kind": "sample", "source": "one line\u2028and another"}
    no_loss = {"step": 6, "kind": "validation", "bleu": 0.0}  # all pairs are too long
    with (workdir / "metrics.jsonl").open("a", encoding="utf-8") as file:
        for line in (sample, no_loss):
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
    translator = Translator.load(workdir)
    too_long = "dog " * CONFIG.data.max_source_length
    for name in ("loss", "attention"):
        (workdir / f"{name}.png").unlink(missing_ok=True)
    assert [path.name for path in save_pictures(workdir, translator, too_long)] == ["loss.png"]
    assert {path.name for path in workdir.glob("*.png")} == {"loss.png"}
    with pytest.MonkeyPatch.context() as patch:  # a known translation is not searched again
        patch.setattr(translator, "translate", None)
        names = [path.name for path in save_pictures(workdir, translator, "dog", "Hund")]
        assert names == ["loss.png", "attention.png"]
    with pytest.MonkeyPatch.context() as patch:  # installed, but it fails on import
        patch.setitem(sys.modules, "matplotlib.figure", None)
        assert save_pictures(workdir, translator, "dog") == ()


@pytest.mark.slow
def test_it_translates_in_the_given_precision(uninterrupted):
    sentences = ["the dog sleeps.", "a cat sees the house."]
    found = {}
    for dtype in (None, "float32", "bfloat16"):
        translator = Translator.load(uninterrupted, dtype=dtype)
        assert translator.model.config.dtype == (dtype or "float32")
        found[dtype] = [of_line[0].score for of_line in translator.translate(sentences)]
    assert found[None] == found["float32"] != found["bfloat16"]
    np.testing.assert_allclose(found["bfloat16"], found["float32"], rtol=0.05)


def test_the_kernels_are_recorded(finished):
    assert start_lines(finished) == [(0, "cpu: product, dropout, store")]
    first = (finished / "metrics.jsonl").read_text(encoding="utf-8").splitlines()[0]
    assert '"kind": "start"' in first


def test_metrics_are_written_at_every_step(finished):
    lines = metric_lines(finished)
    assert [line["step"] for line in lines if line["kind"] == "train"] == list(range(1, 13))
    validations = [line for line in lines if line["kind"] == "validation"]
    assert [line["step"] for line in validations] == [6, 12]
    assert validations[1]["loss"] < validations[0]["loss"]
    assert validations[0].keys() >= {"loss", "perplexity", "bleu", "samples"}


def test_a_workdir_of_another_model_is_refused(finished, capsys):
    other = ["--model.d-model", "32"]
    arguments = ["--config", str(finished / "config.json"), "--workdir", str(finished)]
    assert main([*arguments, *other]) == 2
    assert "model.d_model" in capsys.readouterr().err


def test_a_refused_run_leaves_the_workdir_as_it_was(finished, capsys):
    before = (finished / "config.json").read_bytes()
    arguments = ["--config", str(finished / "config.json"), "--workdir", str(finished)]
    assert main([*arguments, "--data.tokenizer.vocab-size", "500"]) == 2
    assert main([*arguments, "--data.train.pairs", "missing.tsv"]) == 2
    assert "missing.tsv" in capsys.readouterr().err
    assert (finished / "config.json").read_bytes() == before


def test_a_second_run_in_a_workdir_is_refused(finished):
    before = (finished / "metrics.jsonl").read_bytes()
    with own_workdir(finished):
        for config in (WITHOUT_DROPOUT, dataclasses.replace(WITHOUT_DROPOUT, seed=1)):
            with pytest.raises(OSError, match=f"another run uses .*: process {os.getpid()} on"):
                train(config, str(finished), quiet=True)
    assert (finished / "metrics.jsonl").read_bytes() == before


def test_the_workdir_is_that_of_a_shipped_config_or_must_be_given(
    finished, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    for config, workdir in (("demo", "runs/demo"), ("configs/own_text.py", "runs/own_text")):
        assert parse_arguments(TrainArguments, ["--config", config], prog="").workdir == workdir
    assert parse_arguments(TrainArguments, [], prog="").workdir == "runs/demo"
    assert main(["--config", str(finished / "config.json")]) == 2
    assert "needs --workdir" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_validations_do_not_sample(uninterrupted, tmp_path):
    decoding = dataclasses.replace(
        CONFIG.decoding, strategy="sample", temperature=2.0, num_hypotheses=9
    )
    train(dataclasses.replace(CONFIG, decoding=decoding), str(tmp_path / "run"), quiet=True)
    assert metric_lines(tmp_path / "run") == metric_lines(uninterrupted)


@pytest.mark.parametrize("field", ["average_best", "patience"])
def test_settings_that_need_a_validation_set_are_refused_without_one(tmp_path, field):
    config = dataclasses.replace(
        CONFIG,
        data=dataclasses.replace(CONFIG.data, validation=CorpusConfig()),
        training=dataclasses.replace(CONFIG.training, **{field: 1}),
    )
    with pytest.raises(ValueError, match=rf"training\.{field} .* data\.validation lists no text"):
        train(config, str(tmp_path / "run"), quiet=True)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("part", "changes", "message"),
    [
        ("training", {"patience": 1, "validate_every": 0}, "validate_every is 0"),
        ("training", {"lora_target": (".*/kernel",)}, "there are no adapters"),
        ("training", {"lora_rank": 2}, r"training\.init_from is empty"),
        ("training", {"optimizer": "lion", "adam_b2": 0.99}, "adam_b2 has no effect"),
        ("training", {"r_drop": 5.0}, "all dropout rates of the model are 0"),
        ("tokenizer", {"shared": False}, "needs one vocabulary for both languages"),
    ],
)
def test_settings_without_effect_are_refused_before_the_first_update(
    tmp_path, part, changes, message
):
    model = dataclasses.replace(CONFIG.model, dropout=0.0, tie_embeddings="all")
    config = dataclasses.replace(CONFIG, model=model)
    if part == "tokenizer":
        tokenizer = dataclasses.replace(config.data.tokenizer, **changes)
        data = dataclasses.replace(config.data, tokenizer=tokenizer)
        config = dataclasses.replace(config, data=data)
    else:
        training = dataclasses.replace(config.training, **changes)
        config = dataclasses.replace(config, training=training)
    with pytest.raises(ValueError, match=message):
        train(config, str(tmp_path / "run"), quiet=True)
    assert not (tmp_path / "run" / "checkpoints").exists()


@pytest.mark.parametrize(
    "beam", ["--decoding.beam-size=500", "--training.validation-beam-size=500"]
)
def test_a_beam_wider_than_the_vocabulary_is_refused_at_the_start(tmp_path, capsys, beam):
    text = f"from flaxformer_mt.config import from_json\nconfig = from_json({to_json(CONFIG)!r})\n"
    (tmp_path / "config.py").write_text(text, encoding="utf-8")
    arguments = ["--config", str(tmp_path / "config.py"), "--workdir", str(tmp_path / "run")]
    assert main([*arguments, beam]) == 2
    assert re.search(
        r"beam_size is 500, but the target vocabulary has only \d+ ", capsys.readouterr().err
    )
    assert not (tmp_path / "run" / "metrics.jsonl").exists()


def test_patience_counts_validations_without_a_better_bleu():
    progress = Progress({"epoch": 0, "index": 0})
    for bleu in (1.0, 3.0, 2.0, 3.0):
        progress = progress.after_validation({"bleu": bleu, "loss": 9.0})
    assert (progress.best, progress.waited) == (3.0, 2)
    assert progress.after_validation({"bleu": 3.1, "loss": 9.0}).waited == 0


def test_patience_judges_by_loss_while_bleu_is_0():
    progress = Progress({"epoch": 0, "index": 0})
    for loss, waited in ((7.0, 0), (6.0, 0), (6.5, 1), (6.0, 2), (5.0, 0)):
        progress = progress.after_validation({"bleu": 0.0, "loss": loss})
        assert progress.waited == waited
    progress = progress.after_validation({"bleu": 0.1, "loss": 8.0})
    assert (progress.best, progress.waited) == (0.1, 0)
    assert progress.after_validation({"bleu": 0.0, "loss": 1.0}).waited == 1


def test_progress_of_an_earlier_version_is_read():
    position = {"epoch": 1, "index": 2}
    for best_bleu, best in ((-1.0, None), (0.0, None), (3.5, 3.5)):
        old = {"data": position, "best_bleu": best_bleu, "waited": 1, "fingerprints": {}}
        assert Progress.from_dict(old) == Progress(position, best, 1)


@pytest.mark.slow
def test_early_stopping_ends_the_run(tmp_path, capsys):
    """At learning rate ~0 BLEU cannot rise, so the run stops after two more validations."""
    training = dataclasses.replace(
        WITHOUT_DROPOUT.training,
        num_steps=50,
        learning_rate=1e-12,
        validate_every=2,
        patience=2,
        keep_last=9,
        average_last=9,  # more than there will be
    )
    train(dataclasses.replace(WITHOUT_DROPOUT, training=training), str(tmp_path))
    end = metric_lines(tmp_path)[-1]
    assert (end["step"], end["kind"]) == (6, "end")
    assert "the last 2 validations were not better" in end["reason"]
    shown = capsys.readouterr()
    assert f"end of training: {end['reason']}" in shown.err
    assert "compiling shape 1 of 1 (" in shown.err
    assert re.search(r"compiled  shape 1 of 1 in \d+ s", shown.err)
    assert "step 1: the first update is done" in shown.err
    lines = map(json.loads, (tmp_path / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    rates = [line["tokens_per_second"] for line in lines if line["kind"] == "train"]
    assert rates[0] > rates[-1] / 20  # the compilation takes a hundred times as long as an update
    # There are 2, 4 and 6; only 6 is in the last third.
    assert "averaged the checkpoints of steps 6\n" in shown.out
