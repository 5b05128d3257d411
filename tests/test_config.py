import dataclasses
import json
import typing
from pathlib import Path
from typing import Any

import pytest

from flaxformer_mt.cli import parse_arguments
from flaxformer_mt.config import (
    Config,
    differences,
    from_json,
    load_config,
    save_config,
    shipped_name,
    to_json,
    workdir_config,
)
from flaxformer_mt.config_arguments import ConfigArguments
from flaxformer_mt.data.config import DataConfig
from flaxformer_mt.data.sources.corpora import CorpusConfig
from flaxformer_mt.model.config import TransformerConfig
from flaxformer_mt.training.config import TrainingConfig
from flaxformer_mt.translation.config import DecodingConfig

CONFIGS = sorted((Path(__file__).parents[1] / "configs").glob("*.py"))
EVERYWHERE = Config(
    data=DataConfig(
        directory='odd "ü" \\ name',
        train=CorpusConfig(source=("a.en", "b.en"), target=("a.de", "b.de"), weights=(0.1, 2.0)),
    ),
    model=TransformerConfig(d_model=64, norm="pre", dropout=0.1 + 0.2),
    training=TrainingConfig(learning_rate=5e-3),
    seed=2**40,
)


def write(path: Path, text: str) -> str:
    header = (
        "from flaxformer_mt.config import Config\n"
        "from flaxformer_mt.training.config import TrainingConfig\n"
    )
    path.write_text(header + text, encoding="utf-8")
    return str(path)


@pytest.fixture
def config_file(tmp_path: Path) -> str:
    return write(
        tmp_path / "mine.py", "config = Config(training=TrainingConfig(num_steps=7), seed=3)"
    )


def run_parse(config_file: str, *args: str) -> Config:
    arguments = parse_arguments(ConfigArguments, ["--config", config_file, *args], prog="train")
    return arguments.as_config()


class TestJson:
    def test_round_trip_is_exact(self) -> None:
        assert from_json(to_json(EVERYWHERE)) == EVERYWHERE
        assert from_json(to_json(Config())) == Config()

    def test_unknown_key_names_the_nearest(self) -> None:
        values = json.loads(to_json(Config()))
        values["training"]["num_step"] = 5
        with pytest.raises(ValueError, match=r"training\.num_step: did you mean num_steps\?"):
            from_json(json.dumps(values))

    def test_missing_key_keeps_its_default(self) -> None:
        values = json.loads(to_json(EVERYWHERE))
        del values["training"]["num_steps"]
        assert from_json(json.dumps(values)).training.num_steps == TrainingConfig().num_steps

    @pytest.mark.parametrize(
        ("section", "key", "value", "message"),
        [
            ("training", "num_steps", "5", r"training\.num_steps: expected int, got '5'"),
            ("training", "num_steps", True, r"training\.num_steps: expected int, got True"),
            ("model", "norm", "prre", r"model\.norm: expected 'pre' or 'post'|'post' or 'pre'"),
            ("data", "train", 3, r"data\.train: expected an object"),
            ("training", "num_steps", 0, "num_steps must be at least 1"),
        ],
    )
    def test_wrong_values_name_their_place(
        self, section: str, key: str, value: object, message: str
    ) -> None:
        values = json.loads(to_json(Config()))
        values[section][key] = value
        with pytest.raises(ValueError, match=message):
            from_json(json.dumps(values))

    def test_integers_are_accepted_for_floats_and_lists_for_tuples(self) -> None:
        values = json.loads(to_json(Config()))
        values["training"]["learning_rate"] = 1
        values["data"]["train"] |= {"source": ["a"], "target": ["b"]}
        config = from_json(json.dumps(values))
        assert isinstance(config.training.learning_rate, float)
        assert config.data.train.source == ("a",)


class TestWorkdir:
    def test_keeps_the_config(self, tmp_path: Path) -> None:
        save_config(EVERYWHERE, str(tmp_path / "new"))
        assert workdir_config(str(tmp_path / "new")) == EVERYWHERE
        assert [path.name for path in (tmp_path / "new").iterdir()] == ["config.json"]

    def test_a_missing_config_says_what_was_expected(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError, match=r"has no config\.json.*flaxformer_mt\.train"):
            workdir_config(str(tmp_path))
        with pytest.raises(FileNotFoundError, match="does not exist"):
            workdir_config(str(tmp_path / "nowhere"))
        (tmp_path / "config.json").write_text('{"architectures": ["MarianMTModel"]}')
        with pytest.raises(ValueError, match=r"(?s)is not the workdir of a run.*from marian"):
            workdir_config(str(tmp_path))

    def test_a_damaged_config_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "config.json").write_text("{")
        with pytest.raises(ValueError, match=r"config\.json"):
            workdir_config(str(tmp_path))

    def test_differences_are_dotted(self) -> None:
        other = dataclasses.replace(EVERYWHERE, model=TransformerConfig(d_model=32), seed=1)
        lines = differences(EVERYWHERE, other)
        assert "model.d_model: 64 -> 32" in lines
        assert f"seed: {2**40} -> 1" in lines
        assert differences(EVERYWHERE, EVERYWHERE) == []


class TestLoadConfig:
    def test_gives_the_config_of_the_file(self, config_file: str) -> None:
        assert load_config(config_file) == Config(training=TrainingConfig(num_steps=7), seed=3)

    def test_missing_file_names_those_that_exist(self, config_file: str) -> None:
        with pytest.raises(FileNotFoundError, match=r"no config file .*mini\.py.*mine\.py"):
            load_config(str(Path(config_file).with_name("mini.py")))

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "must define `config = Config.*defines nothing"),
            ("config = 3", "must define `config = Config.*defines int"),
            ("\nconfig = Config(sede=3)", "line 4.*did you mean seed"),
            ("config = Config(training=TrainingConfig(num_step=3))", "did you mean num_steps"),
            ("config = Config(training=TrainingConfig(num_steps=0))", "line 3.*at least 1"),
            ("config = Config(seed='3')", r"(?s)mine\.py.*seed.*int.*'3'"),
            ("config = ", r"mine\.py.*syntax"),
        ],
    )
    def test_faults_of_the_file_are_named(self, tmp_path: Path, text: str, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            load_config(write(tmp_path / "mine.py", text))

    def test_another_kind_of_file_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "text.en").write_text("The dog sleeps.\n")
        with pytest.raises(ValueError, match=r"text\.en is no config: expected a Python file"):
            load_config(str(tmp_path / "text.en"))

    @pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
    def test_every_config_of_ours_can_be_stored(self, path: Path) -> None:
        config = load_config(f"configs/{path.name}")
        assert from_json(to_json(config)) == config

    def test_a_shipped_config_has_a_name(self, tmp_path: Path, monkeypatch) -> None:
        monkeypatch.chdir(tmp_path)
        assert load_config("demo") == load_config("configs/demo.py") == load_config("demo.py")
        assert [shipped_name(path) for path in ("demo", "configs/demo.py")] == ["demo", "demo"]
        with pytest.raises(FileNotFoundError, match="no config file dmeo; .*demo, .*own_text"):
            load_config("dmeo")
        mine = write(tmp_path / "demo.py", "config = Config(seed=5)")
        assert load_config("demo.py").seed == 5 and load_config("demo").seed == 0
        assert shipped_name(mine) == ""


OWN_TEXT = ("--data.train.source", "my.en", "--data.train.target", "my.de")


def parse(*args: str) -> ConfigArguments:
    return parse_arguments(ConfigArguments, list(args), prog="train")


class TestText:
    """Text of the command line never mixes with text of the config file."""

    def test_without_config_own_text_takes_own_text(self, capsys: pytest.CaptureFixture) -> None:
        arguments = parse(*OWN_TEXT)
        assert arguments.config == "own_text" and "taking the config own_text" in (
            capsys.readouterr().err
        )
        own = CorpusConfig(source=("my.en",), target=("my.de",))
        expected = load_config("own_text")
        assert arguments.as_config() == dataclasses.replace(
            expected, data=dataclasses.replace(expected.data, train=own)
        )

    @pytest.mark.parametrize("text", [(), ("--data.train.pairs", "demo:train:40")])
    def test_without_config_and_own_text_it_is_the_demo(self, text: tuple[str, ...]) -> None:
        arguments = parse(*text)
        assert arguments.config == "demo"
        assert arguments.data.test == CorpusConfig(pairs=("demo:test",))
        assert arguments.data.train.pairs == (text[1:] or ("demo:train", "demo:everyday"))

    def test_a_list_without_values_is_an_empty_list_and_not_the_demo(self) -> None:
        data = parse("--data.train.source", "--data.train.target").data
        assert data.train == CorpusConfig()
        assert parse("--data.validation.pairs").data.validation == CorpusConfig()

    def test_a_prepared_corpus_of_own_text_leaves_no_text_of_the_demo(self, tmp_path: Path) -> None:
        (tmp_path / "config.json").write_text(to_json(parse(*OWN_TEXT).as_config()))
        prepared = ("--data.prepared", str(tmp_path))
        assert parse(*prepared).config == str(tmp_path / "config.json")
        data = parse("--config", "demo", *prepared).data
        assert data.train == data.validation == data.test == CorpusConfig()

    def test_text_of_the_command_line_replaces_the_prepared_corpus_of_a_config(
        self, tmp_path: Path, capsys: pytest.CaptureFixture
    ) -> None:
        file = tmp_path / "config.json"
        file.write_text(to_json(parse(*OWN_TEXT, "--data.prepared", "corpus").as_config()))
        assert parse("--config", str(file)).data.prepared == "corpus"
        data = parse("--config", str(file), "--data.train.pairs", "new.tsv").data
        assert (data.train.pairs, data.prepared) == (("new.tsv",), "")
        assert "the prepared corpus corpus is left out" in capsys.readouterr().err
        both = ("--data.train.pairs", "new.tsv", "--data.prepared", "other")
        assert parse("--config", str(file), *both).data.prepared == "other"

    def test_an_empty_name_is_no_prepared_corpus(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "config.json").write_text(to_json(parse(*OWN_TEXT).as_config()))
        monkeypatch.chdir(tmp_path)
        assert parse("--data.prepared", "").config == "demo"

    def test_the_folder_of_a_config_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "config.json").write_text(to_json(load_config("demo")), encoding="utf-8")
        with pytest.raises(FileNotFoundError, match=r"is a folder; its config is .*/config\.json"):
            parse("--config", str(tmp_path))

    @pytest.mark.parametrize("name", ["demo", "configs/demo.py", "copy.json"])
    def test_own_text_leaves_no_text_of_the_demo(
        self, name: str, tmp_path: Path, capsys: pytest.CaptureFixture
    ) -> None:
        if name.endswith("json"):
            demo = load_config("demo")
            data = dataclasses.replace(demo.data, exclude=("test",))
            name = str(tmp_path / name)
            Path(name).write_text(to_json(dataclasses.replace(demo, data=data)), encoding="utf-8")
        data = parse("--config", name, *OWN_TEXT).data
        assert data.train == CorpusConfig(source=("my.en",), target=("my.de",))
        assert data.validation == data.test == CorpusConfig() and data.exclude == ()
        assert "the demo's text in data.validation, data.test is left out" in (
            capsys.readouterr().err
        )
        data = parse("--config", name, "--data.train.pairs", "my.tsv", *VALIDATION).data
        assert data.train == CorpusConfig(pairs=("my.tsv",))
        assert data.validation == CorpusConfig(source=("v.en",), target=("v.de",))

    def test_other_text_of_a_set_replaces_all_of_it_and_no_other_set(self, tmp_path: Path) -> None:
        train = CorpusConfig(
            source=("a.en",), target=("a.de",), pairs=("b.tsv",), weights=(1.0, 2.0), limit=9
        )
        validation = CorpusConfig(pairs=("v.tsv",))
        config = Config(data=DataConfig(train=train, validation=validation))
        (tmp_path / "config.json").write_text(to_json(config), encoding="utf-8")
        file = ("--config", str(tmp_path / "config.json"))
        data = parse(*file, *OWN_TEXT).data
        assert data.train == CorpusConfig(source=("my.en",), target=("my.de",), limit=9)
        assert data.validation == validation
        # Two corpora again: their weights remain.
        data = parse(*file, "--data.train.pairs", "c.tsv", "d.tsv").data
        assert data.train == dataclasses.replace(
            train, source=(), target=(), pairs=("c.tsv", "d.tsv")
        )

    def test_given_exclusions_replace_those_of_the_file(self, tmp_path: Path) -> None:
        data = DataConfig(
            train=CorpusConfig(pairs=("a.tsv",)),
            test=CorpusConfig(pairs=("t.tsv",)),
            exclude=("test",),
        )
        (tmp_path / "config.json").write_text(to_json(Config(data=data)), encoding="utf-8")
        without_test = ("--config", str(tmp_path / "config.json"), "--data.test.pairs")
        assert parse(*without_test, "--data.exclude").data.exclude == ()
        with pytest.raises(ValueError, match="data.exclude names 'test'"):
            parse(*without_test)

    def test_languages_of_other_text(self, tmp_path: Path) -> None:
        train = CorpusConfig(pairs=("a.tsv", "b.tsv"), target_languages=("de", "fr"))
        validation = CorpusConfig(pairs=("v.tsv",), target_languages=("fr",))
        config = Config(data=DataConfig(train=train, validation=validation))
        (tmp_path / "config.json").write_text(to_json(config), encoding="utf-8")
        file = ("--config", str(tmp_path / "config.json"))
        data = parse(*file, *OWN_TEXT, "--data.train.target-languages", "fr").data
        assert data.train.target_languages == data.validation.target_languages == ("fr",)
        with pytest.raises(ValueError, match=r"data.validation.target_languages must name"):
            parse(*file, *OWN_TEXT)


VALIDATION = ("--data.validation.source", "v.en", "--data.validation.target", "v.de")


class TestParse:
    def test_defaults_are_those_of_the_file(self, config_file: str) -> None:
        assert run_parse(config_file) == load_config(config_file)

    def test_the_config_file_is_an_argument_too(self, config_file: str) -> None:
        arguments = parse_arguments(ConfigArguments, ["--config", config_file], prog="train")
        assert arguments.config == config_file

    @pytest.mark.parametrize(
        "arguments",
        [
            ["--training.num-steps", "120"],
            ["--training.num_steps", "120"],
            ["--training.num-steps=120"],
            ["--training.num_steps=120"],
        ],
    )
    def test_override_with_dashes_or_underscores(
        self, config_file: str, arguments: list[str]
    ) -> None:
        expected = Config(training=TrainingConfig(num_steps=120), seed=3)
        assert run_parse(config_file, *arguments) == expected

    def test_override_of_every_kind(self, config_file: str) -> None:
        config = run_parse(
            config_file,
            *("--data.train.source", "a", "b", "--data.train.target", "c", "d"),
            *("--data.train.weights", "1", "0.5", "--model.norm", "pre"),
            *("--decoding.allow-unknown", "true", "--training.learning-rate", "1e-3"),
        )
        assert config.data.train.source == ("a", "b")
        assert config.data.train.weights == (1.0, 0.5)
        assert config.model.norm == "pre"
        assert config.decoding.allow_unknown
        assert config.training.learning_rate == 1e-3

    @pytest.mark.parametrize("word", [[], ["true"], ["True"]])
    def test_flags_need_no_value(self, config_file: str, word: list[str]) -> None:
        config = run_parse(config_file, "--decoding.allow-unknown", *word, "--seed", "5")
        assert (config.decoding.allow_unknown, config.seed) == (True, 5)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--training.num-step", "5"], "--training.num-steps"),
            (["--trainig.num_steps", "5"], "--training.num-steps"),
            (["--num-steps", "5"], "--training.num-steps"),
            (["--training.num-steps", "many"], "--training.num-steps"),
            (["--training.num-steps", "0"], "Error parsing training: training.num_steps must be"),
            (["--data.tokenizer.vocab-size", "1"], "Error parsing data.tokenizer: vocab_size"),
            (["--model.norm", "prre"], "--model.norm"),
            (["--decoding.allow-unknown", "maybe"], "true or false"),
        ],
    )
    def test_invalid_arguments_exit_with_2_and_name_the_nearest_flag(
        self,
        config_file: str,
        arguments: list[str],
        message: str,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        with pytest.raises(SystemExit) as stop:
            run_parse(config_file, *arguments)
        assert stop.value.code == 2
        error = capsys.readouterr().err
        assert message in error
        assert "settings" not in error  # the name of a variable here, no user has met it

    def test_help_names_every_field(
        self, config_file: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with pytest.raises(SystemExit) as stop:
            run_parse(config_file, "--help")
        assert stop.value.code == 0
        text = capsys.readouterr().out
        assert "settings" not in text
        for path in ["config", *dotted_paths(Config)]:
            assert f"--{path.replace('_', '-')} " in text
        assert "(default: 7)" in text  # of the file, not of the class


def dotted_paths(kind: Any, prefix: str = "") -> list[str]:
    paths = []
    for name, field_type in typing.get_type_hints(kind).items():
        nested = dataclasses.is_dataclass(field_type)
        paths += dotted_paths(field_type, f"{prefix}{name}.") if nested else [f"{prefix}{name}"]
    return paths


def test_learned_positions_must_reach_as_far_as_the_text():
    learned = TransformerConfig(positions="learned", max_positions=300)
    assert Config(model=learned).model == learned
    with pytest.raises(
        ValueError, match=r"decoding.max_target_length \(400\) is more than the 300"
    ):
        Config(model=learned, decoding=DecodingConfig(max_target_length=400))
