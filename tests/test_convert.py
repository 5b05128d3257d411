"""The command `convert`: imports and exports of models."""

import json
import resource
from pathlib import Path

import jax
import numpy as np
import pytest
from marian_directories import ENGLISH, GERMAN, OURS, our_model, write_directory

from flaxformer_mt import convert, train
from flaxformer_mt.checkpoints.loading import load_model
from flaxformer_mt.config import workdir_config
from flaxformer_mt.interop.marian.convert import read_marian
from flaxformer_mt.interop.verify import VerificationFailed
from flaxformer_mt.interop.workdir import write_workdir
from flaxformer_mt.runtime.workdir_lock import own_workdir
from flaxformer_mt.training.checks import check_settings, check_tied_embeddings
from flaxformer_mt.translation.translator import Translator

pytest.importorskip("safetensors", reason="needs the extra [marian] (safetensors)")

SEARCH = {"num_beams": 2, "max_length": 8, "bad_words_ids": [[1]]}


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that contains a Marian model."""
    write_directory(tmp_path / "opus", generation=SEARCH)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def import_model(*more: str) -> int:
    return convert.main(["--from", "marian", "--input", "opus", "--workdir", "run", *more])


TEXT = "opus/vocab.json"
"""A file that exists, as the text of --verify."""


def export_model(*more: str) -> int:
    return convert.main(["--to", "marian", "--workdir", "run", "--output", "out", *more])


def test_an_imported_model_translates(work, capsys):
    assert import_model() == 0
    assert "parameters, 60 source and 60 target tokens" in capsys.readouterr().out
    assert sorted(path.name for path in work.iterdir()) == ["opus", "run"]
    loaded, given = load_model("run"), read_marian("opus")
    jax.tree.map(np.testing.assert_array_equal, loaded.params, given.params)
    assert loaded.config == given.config and loaded.checkpoint == "0"
    found = Translator.load("run").translate(["the cat", ""])
    assert len(found[0]) == 1 and found[1][0].text == ""


def test_training_accepts_the_settings_of_an_imported_model(work):
    """Its vocabulary is in the tokenizer of the workdir, where its settings name no file."""
    loaded = read_marian("opus")
    assert loaded.config.model.tie_embeddings == "all"
    check_settings(loaded.config)
    check_tied_embeddings(loaded.config, loaded.tokenizer)


@pytest.mark.slow
def test_an_imported_model_can_be_trained(work, capsys):
    """Training starts with its parameters and keeps its vocabulary."""
    for name, words in (("en", ENGLISH), ("de", GERMAN)):
        (work / name).write_text("\n".join(words.split() * 2) + "\n")
    assert import_model() == 0
    command = ["--config", "run/config.json", "--workdir", "run", "--data.train.source", "en"]
    command += ["--data.train.target", "de", "--training.learning-rate", "1e-9"]
    assert train.main([*command, "--data.num-buckets", "1", "--training.num-steps", "2"]) == 0
    assert "run, resumed at step 0" in capsys.readouterr().err
    before, after = read_marian("opus"), load_model("run", "last")
    assert after.checkpoint == "2"
    distances = jax.tree.map(lambda x, y: abs(x - y).max(), before.params, after.params)
    assert 0 < max(jax.tree.leaves(distances)) < 1e-7
    assert after.tokenizer.fingerprint == load_model("run", "0").tokenizer.fingerprint


def test_an_import_and_an_export_give_the_same_files(work, capsys):
    assert import_model() == 0
    assert export_model() == 0
    assert capsys.readouterr().out.endswith("60 target tokens, for marian\n")
    for name in ("model.safetensors", "source.spm", "target.spm", "vocab.json"):
        assert Path("out", name).read_bytes() == Path("opus", name).read_bytes()
    origin = json.loads(Path("out", convert.MARKER).read_text())
    assert (origin["format"], origin["checkpoint"]) == ("marian", "0")
    assert export_model() == 0  # an earlier export is replaced
    assert sorted(path.name for path in work.iterdir()) == ["opus", "out", "run"]


def test_other_files_are_not_overwritten(work, capsys):
    (work / "run").mkdir()
    (work / "run" / "thesis.txt").write_text("mine")
    assert import_model() == 2
    assert "run is not empty: choose another --workdir, or give --overwrite" in (
        capsys.readouterr().err
    )
    assert (work / "run" / "thesis.txt").read_text() == "mine"
    with own_workdir("run"):
        assert import_model("--overwrite") == 2
    assert "another run uses run: process" in capsys.readouterr().err
    assert import_model("--overwrite") == 0
    assert not (work / "run" / "thesis.txt").exists()
    (work / "out").mkdir()
    (work / "out" / "thesis.txt").write_text("mine")
    assert export_model() == 2
    assert "not empty and contains no earlier export" in capsys.readouterr().err
    assert convert.main(["--to", "marian", "--workdir", "run", "--output", "run/config.json"]) == 2
    assert (
        "--output must name a directory, but run/config.json is a file" in capsys.readouterr().err
    )
    assert convert.main(["--to", "marian", "--workdir", "run", "--output", ".", "--overwrite"]) == 2
    assert "contains the current directory" in capsys.readouterr().err


def test_a_full_disk_is_one_message_and_the_earlier_export_stays(work, capsys):
    assert import_model() == 0 and export_model() == 0
    before = Path("out", "model.safetensors").read_bytes()
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    for limit in (100, len(before) - 1):
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, unlimited[1]))  # as a full disk
            assert export_model() == 2
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
        assert "Free some space there, or choose another disk" in capsys.readouterr().err
    assert Path("out", "model.safetensors").read_bytes() == before
    assert sorted(path.name for path in work.iterdir()) == ["opus", "out", "run"]


def test_the_model_that_is_read_is_never_overwritten(work, capsys):
    """Even with --overwrite, and if the directory to write contains it."""
    for place in ("opus", "../" + work.name + "/opus", str(work)):
        args = ["--from", "marian", "--input", "opus", "--workdir", place, "--overwrite"]
        assert convert.main(args) == 2
        assert "contains the " in capsys.readouterr().err
    assert import_model() == 0
    assert (
        convert.main(["--to", "marian", "--workdir", "run", "--output", "run", "--overwrite"]) == 2
    )
    assert "--output run contains the model to be read" in capsys.readouterr().err
    assert (work / "opus" / "config.json").is_file() and (work / "run" / "config.json").is_file()


def test_an_export_replaces_the_directory_behind_a_link(work):
    assert import_model() == 0
    (work / "disk").mkdir()
    (work / "out").symlink_to("disk")
    for _ in range(2):  # the second replaces the first
        assert export_model() == 0
    assert (work / "out").is_symlink() and (work / "disk" / "config.json").is_file()


def test_the_text_of_verify_is_looked_for_first(work, capsys):
    assert import_model() == 0
    for given in (
        ["--verify", "no/text"],
        ["--verify", "opus/vocab.json", "--reference", "no/text"],
    ):
        assert export_model(*given) == 2
        error = capsys.readouterr().err
        assert "there is no file no/text, and no folder no; " in error and "holds: " in error
    assert not (work / "out").exists()


def test_a_failed_import_leaves_nothing(work, capsys):
    (work / "opus" / "vocab.json").unlink()
    assert import_model() == 2
    assert "there is no file opus/vocab.json" in capsys.readouterr().err
    assert sorted(path.name for path in work.iterdir()) == ["opus"]


def test_a_failed_export_keeps_the_earlier_one(work, capsys, monkeypatch):
    assert import_model() == 0
    assert export_model() == 0
    before = Path("out", "config.json").read_bytes()
    monkeypatch.setattr(convert.json, "dumps", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        export_model()
    assert Path("out", "config.json").read_bytes() == before
    assert sorted(path.name for path in work.iterdir()) == ["opus", "out", "run"]


def test_an_export_that_fails_verification_is_kept_under_another_name(work, capsys, monkeypatch):
    asked = []

    def fail(directory, format, loaded, file, **settings):
        asked.append((format, file, loaded.checkpoint, settings))
        assert (directory / "model.safetensors").is_file()
        raise VerificationFailed("12 % of 9 translations are identical")

    monkeypatch.setattr("flaxformer_mt.interop.verify.verify_export", fail)
    assert import_model() == 0
    for _ in range(2):  # the second replaces the first
        assert export_model("--verify", TEXT, "--verify-beam-size", "3", "--reference", TEXT) == 2
        assert "12 % of 9 translations are identical\nThe export failed; it is kept in " in (
            capsys.readouterr().err
        )
        assert sorted(path.name for path in work.iterdir()) == ["opus", "out.failed", "run"]
    settings = {"exact": True, "reference": TEXT, "beam_size": 3, "length_penalty": 1.0}
    assert asked == [("marian", TEXT, "0", settings)] * 2


def test_files_under_that_name_are_found_before_the_work(work, capsys, monkeypatch):
    monkeypatch.setattr("flaxformer_mt.interop.verify.verify_export", lambda *_, **__: "fine")
    assert import_model() == 0
    (work / "out.failed").mkdir()
    (work / "out.failed" / "thesis.txt").write_text("mine")
    assert export_model("--verify", TEXT) == 2
    assert "out.failed is not empty and contains no earlier export" in capsys.readouterr().err
    assert sorted(path.name for path in work.iterdir()) == ["opus", "out.failed", "run"]
    assert export_model("--verify", TEXT, "--overwrite") == 0


def test_a_successful_verification_is_printed(work, capsys, monkeypatch):
    def succeed(directory, *_, **__) -> str:
        (directory / "verification.json").write_text("{}")
        return "all the same"

    monkeypatch.setattr("flaxformer_mt.interop.verify.verify_export", succeed)
    assert import_model() == 0
    assert export_model("--verify", TEXT) == 0
    assert "all the same" in capsys.readouterr().out
    assert Path("out", "verification.json").is_file()


def test_a_model_of_ours_is_exported(tmp_path):
    write_workdir(tmp_path / "run", our_model(OURS))
    assert workdir_config(str(tmp_path / "run")).model == OURS
    out = str(tmp_path / "out")
    assert (
        convert.main(["--to", "marian", "--workdir", str(tmp_path / "run"), "--output", out]) == 0
    )
    assert read_marian(out).config.model.d_model == OURS.d_model


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give one of --from and --to"),
        (["--from", "marian", "--to", "marian"], "give one of --from and --to"),
        (["--from", "marian"], "--from goes with --input DIR"),
        (["--to", "marian"], "--to goes with --output DIR"),
        (["--to", "marian", "--output", "o", "--input", "i"], "--input with --from"),
        (["--to", "marian", "--output", "o", "--quantization", "int8"], "int8 needs"),
        (["--from", "marian", "--input", "i", "--verify", "v"], "it needs --to"),
        (["--to", "marian", "--output", "o", "--reference", "r"], "give both"),
        (["--from", "bart", "--input", "i"], "--from"),
    ],
)
def test_arguments_that_contradict_each_other_are_refused(arguments, message, capsys):
    with pytest.raises(SystemExit) as stop:
        convert.main(["--workdir", "w", *arguments])
    assert stop.value.code == 2
    assert message in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("output", ["out", "out/", "folder/out/"])
def test_a_failed_export_is_beside_its_output(output):
    arguments = convert.ConvertArguments(workdir="w", to="marian", output=output)
    assert str(convert._failed(arguments)) == f"{output.rstrip('/')}.failed"
