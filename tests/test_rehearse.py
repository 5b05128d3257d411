"""The command `rehearse`: a run of several hosts, simulated by processes."""

import dataclasses
import subprocess
import sys

import pytest

from flaxformer_mt.config import SHIPPED, Config, load_config
from flaxformer_mt.data.sources.corpora import CorpusConfig
from flaxformer_mt.data.tokenization.config import TokenizerConfig
from flaxformer_mt.planning.hardware import hosts_of
from flaxformer_mt.rehearse import HostProcesses, main, toy_config
from flaxformer_mt.training.checks import check_settings
from flaxformer_mt.training.optimizer import make_schedule


@pytest.mark.parametrize(
    ("topology", "hosts", "chips"),
    [
        ("v5e:1x1", 1, 1),
        ("v5e:2x4", 1, 8),
        ("v5e:4x4", 4, 4),
        ("v5e:4x8", 8, 4),
        ("v6e:2x4", 1, 8),
        ("v4:2x2x2", 2, 4),
        ("v5p:2x2x1", 1, 4),
        ("h100:8", 1, 8),
    ],
)
def test_hosts_of_a_topology(topology, hosts, chips):
    assert hosts_of(topology) == (hosts, chips)


def test_hosts_have_four_chips():
    with pytest.raises(ValueError, match="hosts have 4 chips, but 6 chips are not a multiple"):
        hosts_of("v5e:2x3")


@pytest.mark.parametrize("name", sorted(file.stem for file in SHIPPED.glob("*.py")))
def test_every_config_has_a_toy_version_that_keeps_its_text(name):
    config = load_config(name)
    if name == "demo":
        long = dataclasses.replace(config.decoding, min_target_length=20)
        config = dataclasses.replace(config, decoding=long)
    toy = toy_config(config, 100, num_devices=8)
    assert toy.model.num_heads == config.model.num_heads
    assert toy.model.norm == config.model.norm
    for split in ("train", "validation"):
        given, limited = (getattr(one.data, split) for one in (config, toy))
        assert dataclasses.replace(limited, limit=given.limit) == given
        assert 0 < limited.limit <= 100
    expected = config.data.validation if config.data.test == CorpusConfig() else config.data.test
    assert toy.data.test.pairs == expected.pairs
    assert isinstance(toy, Config)


def test_settings_of_the_large_model_do_not_reach_the_toy():
    config = load_config("demo")
    changes = {"schedule": "wsd", "num_steps": 2000, "decay_steps": 700}
    changes |= {"trainable": ("decoder_3/.*",)}
    adapters = {"lora_rank": 8, "lora_target": (".*/kernel",), "init_from": "runs/imported"}
    training = dataclasses.replace(config.training, **changes, **adapters)
    tokenizer = TokenizerConfig(kind="marian", shared=False)
    data = dataclasses.replace(config.data, prepared="corpus", tokenizer=tokenizer)
    toy = toy_config(dataclasses.replace(config, training=training, data=data), 100, num_devices=8)
    make_schedule(toy.training, toy.model.d_model)
    check_settings(toy)
    assert toy.training.trainable == () and toy.data.prepared == ""
    assert toy.data.tokenizer.kind == "sentencepiece"
    forbidden = dataclasses.replace(config.decoding, forbidden=(5000,))  # the toy has 1,000 tokens
    assert (
        toy_config(dataclasses.replace(config, decoding=forbidden), 1, 8).decoding.forbidden == ()
    )


@pytest.mark.parametrize("num_devices", [1, 8, 12, 36])
def test_a_batch_of_the_toy_has_a_row_for_each_device(num_devices):
    data = toy_config(load_config("demo"), 100, num_devices).data
    assert data.tokens_per_batch // 64 >= max(8, num_devices)
    assert data.tokens_per_batch % (64 * 8) == 0


def test_the_first_host_that_fails_is_named(tmp_path):
    """The others end because it is gone."""
    programs = (
        "import time; time.sleep(2); raise SystemExit(1)",
        "print('the real reason'); raise SystemExit(7)",
    )
    run = HostProcesses(load_config("demo"), tmp_path, 2, 1)
    processes = []
    for number, program in enumerate(programs):
        with run.log(number).open("wb") as log:
            processes.append(subprocess.Popen([sys.executable, "-c", program], stdout=log))
    with pytest.raises(RuntimeError, match=r"host 1 ended with exit code 7(.|\n)*the real reason"):
        run.finish(processes, expected=0)
    for process in processes:
        process.wait()


def test_bad_arguments_are_named(tmp_path, capsys):
    assert main(["--topology", "v9:2x2"]) == 2
    assert "--topology must be a TPU version" in capsys.readouterr().err
    assert main(["--topology", "v5e:2x4", "--hosts", "3"]) == 2
    assert "--hosts 3 does not divide the 8 chips" in capsys.readouterr().err
    for flag, value in (("--hosts", "-1"), ("--pairs", "0")):
        assert main([flag, value]) == 2
        assert f"{flag} must be at least" in capsys.readouterr().err
    assert main(["--workdir", str(tmp_path)]) == 2
    assert "name a new directory" in capsys.readouterr().err


@pytest.mark.slow
def test_two_hosts_survive_a_stop_and_a_kill_during_a_save(tmp_path, capfd):
    arguments = ["--topology", "v5e:1x2", "--hosts", "2", "--pairs", "300"]
    assert main([*arguments, "--workdir", str(tmp_path / "new")]) == 0, capfd.readouterr().out
    out = capfd.readouterr().out
    assert out.count("  ok (") == 4 and "FAILED" not in out
    assert "not exercised:" in out


@pytest.mark.slow
def test_a_stage_that_fails_is_told_with_the_last_lines(tmp_path, capfd):
    arguments = ["--topology", "v5e:1x1", "--data.train.pairs", "missing.tsv"]
    assert main([*arguments, "--workdir", str(tmp_path / "new")]) == 1
    out = capfd.readouterr().out
    assert "FAILED" in out and "exit code 2" in out or "ended before a save" in out
    assert "missing.tsv" in out
