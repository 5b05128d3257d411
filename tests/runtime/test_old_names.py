"""Old names of config fields: a saved config loads, a flag or config file gets the new name."""

import json

import pytest

from flaxformer_mt import cli, convert, plan
from flaxformer_mt.cli import command
from flaxformer_mt.config import Config, from_json, load_config, to_json
from flaxformer_mt.config_arguments import ConfigArguments
from flaxformer_mt.runtime import old_names


@pytest.fixture(autouse=True)
def tables(monkeypatch):
    renamed = {"model.width": "model.d_model", "training.batch_tokens": "data.tokens_per_batch"}
    monkeypatch.setattr(old_names, "RENAMED", renamed)
    monkeypatch.setattr(old_names, "REMOVED", {"training.magic": "training works without it"})


def old_config() -> str:
    values = json.loads(to_json(Config()))
    values["model"]["width"] = 64
    del values["model"]["d_model"]
    values["training"] |= {"batch_tokens": 123, "magic": True}
    del values["data"]["tokens_per_batch"]
    return json.dumps(values)


def test_a_saved_config_loads(tmp_path):
    config = from_json(old_config())
    assert (config.model.d_model, config.data.tokens_per_batch) == (64, 123)
    (tmp_path / "config.json").write_text(old_config())
    assert load_config(str(tmp_path / "config.json")) == config


def test_the_new_name_wins_and_the_argument_stays_as_it_is():
    old = {"model": {"width": 1, "d_model": 2}}
    assert old_names.rename_keys(old) == {"model": {"d_model": 2}}
    assert old == {"model": {"width": 1, "d_model": 2}}
    assert old_names.rename_keys({"training": {"batch_tokens": 3}}) == {
        "data": {"tokens_per_batch": 3},
    }
    assert old_names.rename_keys({"training": 3}) == {"training": 3}


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        (["--model.width", "4"], "model.width is now model.d_model"),
        (["--model.width=4"], "model.width is now model.d_model"),
        (["--training.batch-tokens", "4"], "training.batch_tokens is now data.tokens_per_batch"),
        (["--training.batch_tokens=4"], "training.batch_tokens is now data.tokens_per_batch"),
        (["--training.magic"], "training.magic was removed: training works without it"),
        (["--training.magic.wand=x"], "training.magic was removed: training works without it"),
    ],
)
def test_a_flag_is_answered_with_the_new_name(capsys, flag, message):
    main = command("train", ConfigArguments, lambda arguments: None)
    assert main(["--config", "configs/demo.py", *flag]) == 2
    assert capsys.readouterr().err == f"error: {message}\n"


@pytest.mark.parametrize(
    ("main", "flag", "message"),
    [
        (convert.main, "--min-identical", "min_identical was removed: the limit is fixed"),
        (convert.main, "--max_bleu_difference=1", "max_bleu_difference was removed: the limit"),
        (convert.main, "--min-bleu-to-workdir", "min_bleu_to_workdir was removed: the limit"),
        (plan.main, "--assume-lengths", "assume_lengths was removed: `plan` always assumes"),
        (plan.main, "--tokens-per-chip", "tokens_per_chip was removed: multiply it by the number"),
        (plan.main, "--markdown", "markdown was removed: redirect the output"),
        (plan.main, "--full-effort", "full_effort was removed: `plan` compiles at low effort"),
        (plan.main, "--json", "plan --json was removed: redirect the output"),
        (plan.main, "--json=true", "plan --json was removed: redirect the output"),
    ],
)
def test_a_removed_flag_is_answered_with_what_to_do(capsys, monkeypatch, main, flag, message):
    monkeypatch.undo()
    assert main([flag, "x"]) == 2
    assert capsys.readouterr().err.startswith(f"error: {message}")


def test_a_flag_that_only_another_command_lost_is_accepted(monkeypatch):
    monkeypatch.undo()
    old_names.refuse_old_flags(["--json"], "translate")


def test_a_removed_command_is_answered_with_what_to_do(capsys):
    assert cli.main(["calibrate", "--workdir", "runs/demo"]) == 2
    assert capsys.readouterr().err == (
        "error: calibrate was removed: use --decoding.flag-faults and the token log-probabilities "
        "of `translate --json --details`\n"
    )
    assert not set(old_names.REMOVED_COMMANDS) & set(cli.COMMANDS)


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("model=TransformerConfig(width=8)", "model.width is now model.d_model"),
        ("training=TrainingConfig(magic=1)", "training.magic was removed: training works"),
    ],
)
def test_a_config_file_is_answered_with_the_new_name(tmp_path, field, message):
    (tmp_path / "mine.py").write_text(
        "from flaxformer_mt.config import Config, TrainingConfig, TransformerConfig\n"
        f"config = Config({field})\n"
    )
    with pytest.raises(ValueError, match=message):
        load_config(str(tmp_path / "mine.py"))


def test_every_new_name_exists(monkeypatch):
    """Of the real table, which the other tests replace."""
    monkeypatch.undo()
    values = json.loads(to_json(Config()))
    for old, new in old_names.RENAMED.items():
        place = values
        for part in new.split("."):
            assert part in place, f"{old} -> {new}"
            place = place[part]
