"""A run is the same on other devices and after any stop."""

import dataclasses
import math
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny_run import CONFIG, losses, metric_lines, params, start, two_processes, wait_for_step

from flaxformer_mt.checkpoints.integrity import find_damage, saved_steps
from flaxformer_mt.checkpoints.loading import load_model
from flaxformer_mt.checkpoints.manager import Checkpoints
from flaxformer_mt.checkpoints.reading import rank_steps, read_extras
from flaxformer_mt.checkpoints.workdir import check_workdir
from flaxformer_mt.config import Config, to_json
from flaxformer_mt.data.sources.corpora import CorpusConfig
from flaxformer_mt.data.tokenization.config import TokenizerConfig
from flaxformer_mt.train import main, train
from flaxformer_mt.training.step import Metrics, make_train_step
from flaxformer_mt.training.validation import Validation


def changed(config: Config, **sections) -> Config:
    """The config with some fields of some sections changed."""
    parts = {
        name: dataclasses.replace(getattr(config, name), **fields)
        for name, fields in sections.items()
    }
    return dataclasses.replace(config, **parts)


# Four steps without validation: only the training step is compiled.
SHORT = changed(
    CONFIG,
    data={"validation": CorpusConfig()},
    training={"num_steps": 4, "checkpoint_every": 2, "validate_every": 0},
)


@pytest.fixture(scope="module")
def short(tmp_path_factory) -> Path:
    """Trained on 8 devices without interruption."""
    workdir = tmp_path_factory.mktemp("short")
    train(SHORT, str(workdir), quiet=True)
    return workdir


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """Trained on 8 devices without interruption."""
    workdir = tmp_path_factory.mktemp("whole")
    train(CONFIG, str(workdir), quiet=True)
    return workdir


def assert_same_run(workdir: Path, other: Path) -> None:
    """Except for rounding, which Adam scales up if a gradient is tiny."""
    np.testing.assert_allclose(losses(workdir), losses(other), rtol=2e-5)
    for one, two in zip(params(workdir), params(other), strict=True):
        np.testing.assert_allclose(np.mean(np.abs(one - two)), 0, atol=2e-5)
        np.testing.assert_allclose(one, two, atol=5e-3)


@pytest.mark.slow
def test_accumulated_micro_batches_are_the_same_run(short, tmp_path):
    process = start(SHORT, tmp_path, "--mesh.tokens-per-device", "64", devices=1)
    output, _ = process.communicate(timeout=200)
    assert process.returncode == 0 and "accumulated over up to 8 micro-batches" in output, output
    assert_same_run(tmp_path / "run", short)


@pytest.mark.slow
def test_sharded_parameters_are_the_same_run_and_resume_unsharded(whole, tmp_path):
    half = changed(CONFIG, mesh={"fsdp": 4, "tensor": 2}, training={"num_steps": 7})
    train(half, str(tmp_path), quiet=True)
    train(CONFIG, str(tmp_path), quiet=True)
    assert_same_run(tmp_path, whole)


@pytest.mark.slow
def test_all_processes_end_if_the_workdir_is_refused(short, tmp_path):
    shutil.copytree(short, tmp_path / "run")
    config = changed(SHORT, model={"d_model": 32})
    processes = [start(config, tmp_path, devices=2, **place) for place in two_processes()]
    outputs = [process.communicate(timeout=100)[0] for process in processes]
    assert [process.returncode for process in processes] == [2, 2], outputs
    assert "holds checkpoints of another model" in outputs[0]
    assert "the first process of this run failed; its message has the reason" in outputs[1]


@pytest.mark.slow
def test_all_processes_end_if_their_text_differs(tmp_path):
    for name, count in (("a", 300), ("b", 301)):
        (tmp_path / name).mkdir()
        for side in ("en", "de"):
            lines = [f"the dog {i} sees a cat {i * i}\n" for i in range(count)]
            (tmp_path / name / f"train.{side}").write_text("".join(lines), encoding="utf-8")
    train = CorpusConfig(source=("train.en",), target=("train.de",))
    config = changed(SHORT, data={"directory": "~", "train": train})
    homes = [{"HOME": str(tmp_path / name)} for name in "ab"]
    processes = [
        start(config, tmp_path, devices=1, **place, **home)
        for place, home in zip(two_processes(), homes, strict=True)
    ]
    outputs = [process.communicate(timeout=100)[0] for process in processes]
    assert [process.returncode for process in processes] == [2, 2], outputs
    assert all("have different training text" in output for output in outputs)


@pytest.mark.slow
def test_two_processes_are_the_same_run_and_one_resumes_it(whole, tmp_path):
    """Both are killed; one process of 2 devices finishes the run."""
    processes = [start(CONFIG, tmp_path, devices=4, **place) for place in two_processes()]
    try:
        wait_for_step(processes[0], tmp_path / "run", 7)
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    last = start(CONFIG, tmp_path, devices=2)
    output, _ = last.communicate(timeout=200)
    assert last.returncode == 0, output
    assert_same_run(tmp_path / "run", whole)


@pytest.mark.slow
def test_two_processes_train_score_and_translate_as_one(whole, tmp_path):
    processes = [start(CONFIG, tmp_path, devices=1, **place) for place in two_processes()]
    outputs = [process.communicate(timeout=200)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    assert_same_run(tmp_path / "run", whole)
    assert "held-out (validation, 8 pairs): BLEU" in outputs[0]
    assert "held-out" not in outputs[1]  # only the first one prints

    source = tmp_path / "source.txt"
    source.write_text("The dog sleeps.\n\nThe cats sing.\nWe laugh.\nYou?\n", encoding="utf-8")
    command = [sys.executable, "-m", "flaxformer_mt.translate", "--workdir", str(tmp_path / "run")]
    command += ["--input", str(source), "--decoding.max-target-length", "8"]
    alone = subprocess.run(command, capture_output=True, check=True)
    assert alone.stdout.count(b"\n") == 5
    output = ["--output", str(tmp_path / "output.txt")]
    together = [
        subprocess.Popen(command + output, env=os.environ | place) for place in two_processes()
    ]
    assert [process.wait(timeout=200) for process in together] == [0, 0]
    assert (tmp_path / "output.txt").read_bytes() == alone.stdout


@pytest.fixture
def files(tmp_path) -> Config:
    """A config of text files that a test can change."""
    text = [f"{word} {number}\n" for number in range(60) for word in ("one", "two", "three")]
    for name in ("train.en", "train.de"):
        (tmp_path / name).write_text("".join(text), encoding="utf-8")
    corpus = CorpusConfig(source=("train.en",), target=("train.de",))
    return changed(
        CONFIG,
        data={
            "directory": str(tmp_path),
            "train": corpus,
            "validation": CorpusConfig(),
            "tokenizer": TokenizerConfig(vocab_size=40, byte_fallback=False),
        },
        training={"num_steps": 4, "checkpoint_every": 2, "validate_every": 0},
        mesh={"cpu_devices": 1},
    )


@pytest.mark.slow
def test_changed_data_is_named_and_needs_a_flag(files, tmp_path, without_compilation):
    # The vocabulary can still write the changed text.
    files = changed(
        files, data={"tokenizer": dataclasses.replace(files.data.tokenizer, vocab_size=60)}
    )
    workdir = tmp_path / "run"
    train(files, str(workdir), quiet=True)
    lines = (tmp_path / "train.de").read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "train.de").write_text(
        "".join(lines[:7] + lines[8:] + lines[7:8]), encoding="utf-8"
    )
    more = changed(files, training={"num_steps": 6})
    with pytest.raises(
        ValueError, match=r"(?s)train\.en \| train\.de has changed.*--accept-changed"
    ):
        train(more, str(workdir), quiet=True)
    assert train(more, str(workdir), quiet=True, accept_changed_data=True) == "complete"
    assert train(changed(more, training={"num_steps": 7}), str(workdir), quiet=True) == "complete"


@pytest.mark.slow
def test_another_seed_is_another_order_of_the_data(files, tmp_path, without_compilation):
    files = changed(
        files, data={"tokenizer": dataclasses.replace(files.data.tokenizer, vocab_size=60)}
    )
    train(files, str(tmp_path / "run"), quiet=True)
    other = dataclasses.replace(changed(files, training={"num_steps": 6}), seed=1)
    with pytest.raises(ValueError, match="the settings of the batches have changed: the seed"):
        train(other, str(tmp_path / "run"), quiet=True)


@pytest.mark.slow
def test_a_missing_newest_checkpoint_is_named(short, tmp_path, caplog):
    shutil.copytree(short, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "checkpoints" / "4")
    train(SHORT, str(tmp_path / "run"), quiet=True)
    assert "checkpoint 4 is missing" in caplog.text
    assert "continuing from checkpoint 2" in caplog.text
    for one, two in zip(params(tmp_path / "run"), params(short), strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.slow
def test_sigterm_during_a_validation_saves_at_once(tmp_path):
    """The validation of 3,000 pairs with beam 8 would take minutes."""
    config = changed(
        CONFIG,
        data={"validation": CorpusConfig(pairs=("demo:train:3000",))},
        training={"validate_every": 2, "validation_pairs": 3000, "validation_beam_size": 8},
        decoding={"beam_size": 8, "max_target_length": 64},
    )
    process = start(config, tmp_path, devices=1)
    wait_for_step(process, tmp_path / "run", 2)
    time.sleep(3)
    assert process.poll() is None and not (tmp_path / "run" / "checkpoints" / "2").exists()
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM, output
    assert (tmp_path / "run" / "checkpoints" / "2").exists()
    assert "validation bleu" not in output


@pytest.fixture
def without_compilation(monkeypatch) -> None:
    """An update and a validation that depend on parameters and batch, and compile little."""

    @jax.jit
    def train_step(state, batch):
        change = jnp.sum(batch.inputs) * 1e-5
        params = jax.tree.map(lambda x: x + change, state.params)
        ones = [jnp.ones(())] * 3
        metrics = Metrics(change, change, *ones)._replace(skipped=jnp.zeros(()))
        return dataclasses.replace(state, params=params, step=state.step + 1), metrics

    def validate(self, params):
        number = float(jax.tree.leaves(params)[0].ravel()[0])
        return {"loss": number, "bleu": 50 + 50 * math.sin(1e4 * number)}, []

    monkeypatch.setattr("flaxformer_mt.train.make_train_step", lambda *_: train_step)
    monkeypatch.setattr(Validation, "__call__", validate)


@pytest.mark.slow
def test_stopped_and_resumed_leaves_the_files_of_an_uninterrupted_run(
    tmp_path, monkeypatch, without_compilation
):
    """Stops between checkpoints, before a validation, and in validations, also in the last one."""
    config = changed(
        CONFIG,
        data={"tokenizer": TokenizerConfig(vocab_size=400)},
        training={"num_steps": 13, "average_last": 2, "keep_best": 2, "validate_every": 5},
    )
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train(config, str(whole), quiet=True)
    validate = Validation.__call__

    def stop_at(step: int) -> None:
        def should_stop(stopped, now, **_) -> bool:
            stopped.number = signal.SIGTERM
            return now == step

        with monkeypatch.context() as patch:
            patch.setattr("flaxformer_mt.training.loop.should_stop", should_stop)
            assert train(config, str(parts), quiet=True) == "preempted"

    def stop_in_validation() -> None:
        def interrupted(self, params):
            os.kill(os.getpid(), signal.SIGTERM)
            return validate(self, params)

        with monkeypatch.context() as patch:
            patch.setattr(Validation, "__call__", interrupted)
            ending = train(config, str(parts), quiet=True, handle_signals=True)
        assert ending == "preempted"

    stop_at(2)
    assert steps_of(parts) == [2]
    stop_in_validation()  # of step 5
    stop_in_validation()  # made up, and stopped again
    assert steps_of(parts) == [3, 5] and validated_steps(parts) == []
    stop_at(7)
    assert steps_of(parts) == [5, 6, 7] and validated_steps(parts) == [5]
    stop_at(10)  # a validation is due, but not begun
    stop_at(11)
    assert steps_of(parts) == [5, 9, 10, 11] and set(validated_steps(parts)) == {5, 10}
    stop_in_validation()  # of the last step
    assert train(config, str(parts), quiet=True) == "complete"

    assert steps_of(parts) == steps_of(whole)
    assert metric_lines(parts) == metric_lines(whole)
    for which in ("averaged", "last", "best"):
        one, other = load_model(parts, which), load_model(whole, which)
        assert one.checkpoint == other.checkpoint
        for x, y in zip(jax.tree.leaves(one.params), jax.tree.leaves(other.params), strict=True):
            np.testing.assert_array_equal(x, y)
    for path in [*(whole / "checkpoints").glob("[0-9]*"), whole / "averaged"]:
        here, there = read_extras(parts / path.relative_to(whole)), read_extras(path)
        for extras in (here, there):
            extras.pop("data_state", None)  # of before the validation, or of after it
        assert here == there


def steps_of(workdir: Path) -> list[int]:
    return sorted(int(path.name) for path in (workdir / "checkpoints").glob("[0-9]*"))


def validated_steps(workdir: Path) -> list[int]:
    return sorted(rank_steps(workdir / "checkpoints", steps_of(workdir)))


@pytest.mark.slow
@pytest.mark.parametrize("limit", [8_000, 40_000])
def test_a_full_disk_is_one_message_and_the_run_resumes(
    tmp_path, capsys, without_compilation, limit
):
    """The first limit is too small for metrics.jsonl, the second for a checkpoint."""
    config = changed(SHORT, training={"checkpoint_every": 20})
    (tmp_path / "config.json").write_text(to_json(config), encoding="utf-8")
    arguments = ["--config", str(tmp_path / "config.json"), "--workdir", str(tmp_path / "run")]
    assert main([*arguments, "--training.num-steps", "20"]) == 0
    arguments += ["--training.num-steps", "60"]
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, unlimited[1]))  # simulates a full disk
        assert main(arguments) == 2
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
    *_, message = capsys.readouterr().err.split("error: ")
    assert f"{tmp_path}/run" in message and message.count("\n") <= 2
    assert re.search("[Ff]ree some space", message), message
    assert main(arguments) == 0
    assert steps_of(tmp_path / "run") == [40, 60]


@pytest.mark.slow
def test_another_training_state_is_refused_by_field(short):
    changes = {"optimizer": "lion", "ema_decay": 0.9, "weight_decay": 0.1}
    with pytest.raises(
        ValueError,
        match=r"(?s)'adam' -> 'lion'.*weight_decay: 0\.0 -> 0\.1.*ema_decay: 0\.0 -> 0\.9",
    ):
        train(changed(SHORT, training=changes), str(short), quiet=True)


@pytest.mark.slow
def test_kernels_may_change_between_starts(short):
    check_workdir(short, changed(SHORT, model={"kernels": "reference", "remat": "full"}))
    with pytest.raises(ValueError, match=r"model\.norm: 'post' -> 'pre'"):
        check_workdir(short, changed(SHORT, model={"norm": "pre"}))


def test_a_prepared_corpus_is_no_workdir(tmp_path):
    (tmp_path / "manifest.json").write_text("{}")
    (tmp_path / "config.json").write_text(to_json(SHORT))
    (tmp_path / "tokenizer").mkdir()
    with pytest.raises(ValueError, match="is a prepared corpus; choose another --workdir"):
        train(SHORT, str(tmp_path), quiet=True)
    assert (tmp_path / "tokenizer").exists()


@pytest.mark.slow
def test_a_checkpoint_is_whole_if_the_next_update_fails(tmp_path, without_compilation, monkeypatch):
    """The save is still running at the error."""
    make = make_train_step

    def fail(*arguments):
        step = make(*arguments)

        def step_or_fail(state, batch):
            if state.step == 2:
                raise ValueError("no third update")
            return step(state, batch)

        return step_or_fail

    monkeypatch.setattr("flaxformer_mt.train.make_train_step", fail)
    with pytest.raises(ValueError, match="no third update"):
        train(SHORT, str(tmp_path), quiet=True)
    assert saved_steps(tmp_path / "checkpoints") == [2]
    assert not find_damage(tmp_path / "checkpoints" / "2")


@pytest.mark.slow
def test_endless_skipping_is_refused(tmp_path, monkeypatch, without_compilation):
    def skip(state, batch):
        nan, one = jnp.full((), jnp.nan), jnp.ones(())
        metrics = Metrics(nan, nan, one, nan, skipped=one)
        return dataclasses.replace(state, step=state.step + 1), metrics

    monkeypatch.setattr("flaxformer_mt.train.make_train_step", lambda *_: skip)
    config = changed(SHORT, training={"on_nonfinite": "skip", "num_steps": 40})
    with pytest.raises(ValueError, match="10 updates in a row were skipped"):
        train(config, str(tmp_path), quiet=True)


@pytest.mark.slow
def test_a_nonfinite_update_stops_the_run_and_names_the_batch(tmp_path):
    config = changed(SHORT, training={"learning_rate": 1e30, "clip_norm": 0.0, "warmup_steps": 1})
    message = r"step \d+ was not finite: .* batch \d+ of epoch 0\. .* --training.on-nonfinite skip"
    with pytest.raises(ValueError, match=message):
        train(config, str(tmp_path), quiet=True)


@pytest.mark.slow
def test_sigterm_during_the_last_save_completes_it(tmp_path, without_compilation, monkeypatch):
    close = Checkpoints.close

    def close_after_signal(checkpoints):
        os.kill(os.getpid(), signal.SIGTERM)
        close(checkpoints)

    config = changed(SHORT, training={"average_last": 2, "keep_last": 2})
    with monkeypatch.context() as once:
        once.setattr(Checkpoints, "close", close_after_signal)
        assert train(config, str(tmp_path), quiet=True, handle_signals=True) == "preempted"
    assert saved_steps(tmp_path / "checkpoints") == [2, 4]
    assert not (tmp_path / "averaged").exists()
    assert train(config, str(tmp_path), quiet=True) == "complete"
    assert (tmp_path / "averaged").exists()


@pytest.mark.slow
def test_a_run_with_a_moving_average_resumes(tmp_path):
    config = changed(SHORT, training={"ema_decay": 0.9})
    train(config, str(tmp_path / "whole"), quiet=True)
    train(changed(config, training={"num_steps": 3}), str(tmp_path / "half"), quiet=True)
    train(config, str(tmp_path / "half"), quiet=True)
    for one, two in zip(params(tmp_path / "half"), params(tmp_path / "whole"), strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [{"lora_rank": 2}, {"trainable": ("decoder.*",)}], ids=["lora", "decoder alone"]
)
def test_fine_tuning_starts_from_a_workdir_resumes_and_leaves_an_ordinary_model(
    short, tmp_path, options
):
    config = changed(SHORT, training={"init_from": str(short), **options})
    train(config, str(tmp_path / "whole"), quiet=True)
    train(changed(config, training={"num_steps": 3}), str(tmp_path / "half"), quiet=True)
    train(config, str(tmp_path / "half"), quiet=True)
    tuned, base = params(tmp_path / "whole"), params(short)
    for one, two in zip(params(tmp_path / "half"), tuned, strict=True):
        np.testing.assert_array_equal(one, two)
    same = [np.array_equal(one, two) for one, two in zip(tuned, base, strict=True)]
    assert any(same) and not all(same)


def test_hardware_that_does_not_fit_is_refused_by_setting(tmp_path, capsys):
    text = "from flaxformer_mt.config import from_json\n"
    text += f"config = from_json({to_json(CONFIG)!r})\n"
    (tmp_path / "config.py").write_text(text, encoding="utf-8")
    arguments = ["--config", str(tmp_path / "config.py"), "--workdir", str(tmp_path / "run")]
    assert main([*arguments, "--mesh.fsdp", "3"]) == 2
    assert "mesh.data x mesh.fsdp x mesh.tensor" in capsys.readouterr().err
    assert main([*arguments, "--mesh.tokens-per-device", "3"]) == 2
    assert "is less than one row" in capsys.readouterr().err
    assert main([*arguments, "--deadline", "5h"]) == 2
    assert "deadline was removed: stop training with SIGTERM" in capsys.readouterr().err
