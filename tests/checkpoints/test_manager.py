"""Checkpoints are exact, whole or absent, checked, and readable on other devices."""

import dataclasses
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from zlib import crc32

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from tiers import slow_after

from flaxformer_mt.checkpoints.averaging import average_checkpoints
from flaxformer_mt.checkpoints.integrity import write_failure
from flaxformer_mt.checkpoints.loading import load_model
from flaxformer_mt.checkpoints.manager import Checkpoints
from flaxformer_mt.checkpoints.reading import quality
from flaxformer_mt.checkpoints.workdir import check_workdir, remove_unused_tokenizer
from flaxformer_mt.config import Config, save_config, to_json
from flaxformer_mt.data.tokenization.tokenizer import Tokenizer
from flaxformer_mt.data.tokenization.word_vocabulary import WordVocabulary
from flaxformer_mt.model.config import TransformerConfig
from flaxformer_mt.model.initialization import init_params
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.training.config import TrainingConfig
from flaxformer_mt.training.state import TrainState

TINY = TransformerConfig(
    d_model=8, d_ff=16, num_heads=2, num_encoder_layers=1, num_decoder_layers=1
)
CONFIG = Config(model=TINY)


def make_state(step: int) -> TrainState:
    """A state that depends on its step only, with every kind of leaf."""
    key = jax.random.key(step)
    params = {"layer": {"kernel": jax.random.normal(key, (8, 6))}, "bias": jnp.full(3, -0.0)}
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(lambda step: 1e-3 * step))
    opt_state = optimizer.init(params)
    _, opt_state = optimizer.update(params, opt_state, params)
    return TrainState(jnp.int32(step), params, opt_state, jax.random.key_data(key))


def save(
    checkpoints: Checkpoints,
    step: int,
    state: TrainState | None = None,
    tokenizer: str = "abc",
    **metrics: float,
):
    checkpoints.save(
        step,
        state or make_state(step),
        data_state={"batch": step},
        metrics=metrics or None,
        config=CONFIG,
        tokenizer_fingerprint=tokenizer,
    )


def open_checkpoints(workdir: Path, keep_last: int = 3, keep_best: int = 0) -> Checkpoints:
    return Checkpoints(workdir, keep_last=keep_last, keep_best=keep_best)


def saved(workdir: Path) -> list[int]:
    return sorted(int(path.name) for path in (workdir / "checkpoints").iterdir())


def assert_identical(actual: TrainState, expected: TrainState):
    assert jax.tree.structure(actual) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        assert a.dtype == b.dtype
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def largest_file(directory: Path) -> Path:
    files = [path for path in directory.rglob("*") if path.is_file()]
    return max(files, key=lambda path: path.stat().st_size)


def test_restores_bit_for_bit(tmp_path):
    checkpoints = open_checkpoints(tmp_path)
    assert checkpoints.latest_step() is None
    save(checkpoints, 5, bleu=12.5)
    checkpoints.close()

    checkpoints = open_checkpoints(tmp_path)
    restored, extras = checkpoints.restore(make_state(0)), checkpoints.extras()
    checkpoints.close()

    assert_identical(restored.state, make_state(5))
    assert restored.data_state == {"batch": 5}
    assert extras["metrics"] == {"bleu": 12.5}
    assert extras["tokenizer"] == "abc"
    assert extras["config"] == json.loads(to_json(CONFIG))


def test_donating_the_state_after_save_does_not_change_what_is_saved(tmp_path):
    step = jax.jit(lambda x: jax.tree.map(lambda a: a + 1, x), donate_argnums=0)
    params = {"kernel": jnp.zeros((512, 1024)), "bias": jnp.zeros(7)}
    like = TrainState(jnp.int32(0), jax.tree.map(jnp.copy, params), (), jnp.zeros(2, jnp.uint32))
    checkpoints = open_checkpoints(tmp_path)
    save(checkpoints, 1, TrainState(jnp.int32(1), params, (), jnp.zeros(2, jnp.uint32)))
    for _ in range(50):  # during the write in the background
        params = step(params)
    restored = checkpoints.restore(like)
    checkpoints.close()
    assert_identical(restored.state.params, like.params)
    assert float(params["bias"][0]) == 50


def test_restores_onto_other_devices(tmp_path):
    checkpoints = open_checkpoints(tmp_path)
    save(checkpoints, 1)  # on one device
    mesh = Mesh(np.array(jax.devices()[:2]), ("data",))
    rows = NamedSharding(mesh, PartitionSpec("data"))
    everywhere = NamedSharding(mesh, PartitionSpec())

    def on_mesh(x):
        sharding = rows if x.ndim and x.shape[0] % 2 == 0 else everywhere
        return jax.device_put(x, sharding)

    restored = checkpoints.restore(jax.tree.map(on_mesh, make_state(0))).state
    assert restored.params["layer"]["kernel"].sharding == rows
    assert_identical(restored, make_state(1))
    save(checkpoints, 2, dataclasses.replace(restored, step=jnp.int32(2)))  # and back to one
    back = checkpoints.restore(make_state(0)).state
    checkpoints.close()
    assert_identical(back.params, make_state(1).params)


def test_keeps_the_last_and_the_best(tmp_path):
    checkpoints = open_checkpoints(tmp_path, keep_last=2, keep_best=2)
    for step, bleu in enumerate([3.0, 9.0, float("nan"), 8.0, 1.0, 2.0, 0.5], start=1):
        save(checkpoints, step, bleu=bleu)
    checkpoints.wait()
    assert saved(tmp_path) == [2, 4, 6, 7]
    checkpoints.close()

    checkpoints = open_checkpoints(tmp_path, keep_last=1, keep_best=1)  # also ranks those on disk
    save(checkpoints, 8)
    checkpoints.close()
    assert saved(tmp_path) == [2, 8]


def test_quality_prefers_bleu_then_low_loss():
    rising = [
        {"loss": 3.0},
        {"loss": 2.0},
        {"bleu": 0.004, "loss": 1.5},  # shown as 0.00
        {"bleu": 0.0, "loss": 1.0},  # BLEU of 0 tells nothing
        {"bleu": 30.0, "loss": 9.5},
    ]
    assert sorted(rising[::-1], key=quality) == rising
    for nothing in ({}, {"loss": float("nan")}, {"bleu": float("nan"), "loss": 1.0}):
        assert quality(nothing) < quality(rising[0])


def test_saving_a_saved_step_again_changes_nothing(tmp_path):
    checkpoints = open_checkpoints(tmp_path)
    save(checkpoints, 1)
    save(checkpoints, 1, make_state(2))
    restored = checkpoints.restore(make_state(0))
    checkpoints.close()
    assert_identical(restored.state, make_state(1))


def shorten(path: Path):
    os.truncate(path, path.stat().st_size // 2)


def change_one_bit(path: Path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("harm", slow_after(1, [change_one_bit, shorten, Path.unlink]))
@pytest.mark.parametrize("part", ["params", "extras", "metrics"])
def test_a_damaged_newest_checkpoint_is_named_and_the_previous_one_used(
    tmp_path, caplog, harm, part
):
    checkpoints = open_checkpoints(tmp_path)
    for step in (1, 2, 3):
        save(checkpoints, step, bleu=float(step))
    checkpoints.close()
    path = largest_file(tmp_path / "checkpoints" / "3" / part)
    harm(path)
    # Of earlier damage the user has kept one.
    (tmp_path / "damaged" / "3-1").mkdir(parents=True)

    checkpoints = open_checkpoints(tmp_path)
    assert checkpoints.latest_step() == 2
    assert_identical(checkpoints.restore(make_state(0)).state, make_state(2))
    assert "checkpoint 3 is damaged" in caplog.text and path.name in caplog.text
    save(checkpoints, 3)  # the resumed run saves it again
    assert_identical(checkpoints.restore(make_state(0)).state, make_state(3))
    checkpoints.close()
    assert {path.name for path in (tmp_path / "damaged").iterdir()} == {"3-0", "3-1"}


def test_a_start_reads_the_newest_checkpoint_once_to_check_it(tmp_path, monkeypatch):
    checkpoints = open_checkpoints(tmp_path)
    save(checkpoints, 1)
    checkpoints.close()
    read = []
    monkeypatch.setattr("zlib.crc32", lambda chunk, *crc: read.append(chunk) or crc32(chunk, *crc))
    check_workdir(tmp_path, CONFIG, "abc")
    checkpoints = open_checkpoints(tmp_path)
    checkpoints.extras()
    checkpoints.restore(make_state(0))
    checkpoints.close()
    files = json.loads((tmp_path / "checkpoints" / "1" / "files.json").read_text())
    assert sum(map(len, read)) == sum(size for size, _ in files.values()) > 0


def test_when_all_are_damaged_nothing_is_moved_and_nothing_starts(tmp_path):
    checkpoints = open_checkpoints(tmp_path)
    save(checkpoints, 1)
    save(checkpoints, 2)
    checkpoints.close()
    for step in "12":
        shorten(largest_file(tmp_path / "checkpoints" / step))
    with pytest.raises(
        OSError, match=r"every checkpoint in .* is damaged:\n  step 2: .*\n  step 1"
    ):
        open_checkpoints(tmp_path)
    assert saved(tmp_path) == [1, 2]


def test_an_unfinished_save_does_not_count_and_is_removed(tmp_path):
    checkpoints = open_checkpoints(tmp_path)
    save(checkpoints, 1)
    checkpoints.close()
    unfinished = tmp_path / "checkpoints" / "9.orbax-checkpoint-tmp"
    shutil.copytree(tmp_path / "checkpoints" / "1", unfinished)
    checkpoints = open_checkpoints(tmp_path)
    assert checkpoints.latest_step() == 1
    save(checkpoints, 2)
    checkpoints.close()
    assert saved(tmp_path) == [1, 2]


@pytest.mark.slow
def test_killed_at_any_moment_the_newest_checkpoint_is_whole(tmp_path):
    """SIGKILL ends a process that saves continuously; its newest checkpoint must be whole."""
    script = f"""
        import itertools, sys
        sys.path[:0] = {[str(directory) for directory in Path(__file__).parents[:2]]!r}
        from test_manager import *
        checkpoints = open_checkpoints(Path({str(tmp_path)!r}), keep_last=2)
        for step in itertools.count(1):
            save(checkpoints, step)
            print(step, flush=True)
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(6)]
        process.kill()  # SIGKILL
    checkpoints = open_checkpoints(tmp_path)
    newest = checkpoints.latest_step()
    assert newest is not None and newest >= int(lines[-1]) - 1
    assert_identical(checkpoints.restore(make_state(0)).state, make_state(newest))
    checkpoints.close()
    assert all(path.name.isdecimal() for path in (tmp_path / "checkpoints").iterdir())


def test_a_full_disk_is_a_clear_error_and_the_last_checkpoint_stays(tmp_path):
    checkpoints = open_checkpoints(tmp_path, keep_last=1)
    save(checkpoints, 1)
    checkpoints.wait()
    noise = jax.random.normal(jax.random.key(0), (400, 400))
    state = dataclasses.replace(make_state(2), params={"noise": noise})
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, unlimited[1]))  # simulates a full disk
        with pytest.raises(OSError, match="could not write checkpoint 2 to .* step 1"):
            save(checkpoints, 2, state)
            checkpoints.wait()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
    checkpoints.close()

    checkpoints = open_checkpoints(tmp_path, keep_last=1)
    assert_identical(checkpoints.restore(make_state(0)).state, make_state(1))
    save(checkpoints, 2)
    checkpoints.close()
    assert saved(tmp_path) == [2]  # no remains of the failed save


@pytest.mark.parametrize("reason", ["RESOURCE_EXHAUSTED: Error writing", "File too large"])
def test_a_full_disk_has_a_plain_message(tmp_path, reason):
    error = write_failure("x", tmp_path, ValueError(reason))
    assert "the disk is full" in str(error) and "free some space" in str(error)


def test_restoring_another_shape_names_the_arrays(tmp_path):
    checkpoints = open_checkpoints(tmp_path)
    save(checkpoints, 1)
    like = make_state(0)
    like.params["layer"]["kernel"] = jnp.zeros((8, 7))
    with pytest.raises(ValueError, match=r"params/layer/kernel: expected \(8, 7\), found \(8, 6\)"):
        checkpoints.restore(like)
    like = dataclasses.replace(make_state(0), opt_state=optax.sgd(0.1, momentum=0.9).init({}))
    with pytest.raises(ValueError, match=r"state/opt_state/.*: expected none, found"):
        checkpoints.restore(like)
    checkpoints.close()


def test_restoring_without_a_checkpoint_is_refused(tmp_path):
    checkpoints = open_checkpoints(tmp_path)
    with pytest.raises(FileNotFoundError, match="there is no checkpoint in"):
        checkpoints.restore(make_state(0))
    checkpoints.close()


def test_a_workdir_of_another_model_is_refused_field_by_field(tmp_path):
    check_workdir(tmp_path, CONFIG, "abc")
    checkpoints = open_checkpoints(tmp_path)
    save(checkpoints, 1)
    checkpoints.close()

    other = dataclasses.replace(CONFIG, model=dataclasses.replace(TINY, d_model=16, norm="pre"))
    with pytest.raises(ValueError, match="another model") as error:
        check_workdir(tmp_path, other, "xyz")
    for line in ("model.d_model: 8 -> 16", "model.norm: 'post' -> 'pre'", "tokenizer: abc -> xyz"):
        assert line in str(error.value)
    assert "d_ff" not in str(error.value)


def test_a_longer_run_of_the_same_model_resumes(tmp_path):
    checkpoints = open_checkpoints(tmp_path)
    save(checkpoints, 1)
    checkpoints.close()
    longer = dataclasses.replace(CONFIG, training=TrainingConfig(num_steps=99))
    check_workdir(tmp_path, longer, "abc")


@pytest.mark.parametrize(
    ("there", "kept"),
    [
        ((), True),  # not a workdir: the user's own directory
        (("config.json",), False),
        (("config.json", "averaged"), True),
        (("config.json", "checkpoints/7"), True),
    ],
    ids=str,
)
def test_only_an_unused_tokenizer_is_removed(tmp_path, there, kept):
    for name in ("tokenizer", *there):
        (tmp_path / name).mkdir(parents=True)
    remove_unused_tokenizer(tmp_path)
    assert (tmp_path / "tokenizer").exists() == kept


def test_an_unwritable_workdir_is_a_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"could not write a file to .*/file/run: .*directory"):
        check_workdir(tmp_path / "file" / "run", CONFIG)


def word_tokenizer(*words: str) -> Tokenizer:
    special = ("<pad>", "<unk>", "<s>", "</s>")
    vocabulary = WordVocabulary([(word, 1) for word in (*special, *words)])
    return Tokenizer(vocabulary, vocabulary)


TOKENIZER = word_tokenizer("a", "dog", "runs")  # V = 7, including the special tokens


@pytest.fixture(scope="module")
def trained_once(tmp_path_factory):
    workdir = tmp_path_factory.mktemp("trained")
    save_config(CONFIG, str(workdir))
    TOKENIZER.save(workdir / "tokenizer")
    model = Transformer(TINY, 7, 7, 2)
    shapes = jax.eval_shape(lambda: init_params(model, jax.random.key(0)))
    checkpoints = open_checkpoints(workdir)
    for step, bleu in ((1, 20.0), (2, 10.0), (3, 15.0)):
        filled = jax.tree.map(lambda x, step=step: jnp.full(x.shape, step, x.dtype), shapes)
        state = dataclasses.replace(make_state(step), params=filled)
        save(checkpoints, step, state, tokenizer=TOKENIZER.fingerprint, bleu=bleu)
    checkpoints.close()
    return workdir


@pytest.fixture
def trained(trained_once, tmp_path):
    """A workdir with checkpoints 1 (best), 2 and 3 of the tiny model; all parameters = step."""
    return shutil.copytree(trained_once, tmp_path, dirs_exist_ok=True)


def step_of(loaded) -> float:
    return float(jax.tree.leaves(loaded.params)[0].ravel()[0])


@pytest.mark.parametrize(("which", "step"), [("auto", 1), ("best", 1), ("last", 3), ("2", 2)])
def test_load_model_by_name(trained, which, step):
    loaded = load_model(trained, which)
    assert step_of(loaded) == step
    assert loaded.checkpoint == str(step)
    assert loaded.config == CONFIG
    one = jnp.ones((1, 1), jnp.int32)
    logits = loaded.model.apply({"params": loaded.params}, one, one, one * 0, one * 0, one, one)
    assert isinstance(logits, jax.Array) and logits.shape == (1, 1, 7)
    assert loaded.tokenizer.fingerprint == TOKENIZER.fingerprint


def test_load_model_without_validation_takes_the_last(trained):
    checkpoints = open_checkpoints(trained, keep_last=1)
    save(checkpoints, 4, make_like(trained), TOKENIZER.fingerprint)
    checkpoints.close()
    assert saved(trained) == [4]
    assert step_of(load_model(trained)) == 3  # the parameters of step 3, saved as 4
    with pytest.raises(FileNotFoundError, match="no checkpoint 'best' .* found 4 .*validation"):
        load_model(trained, "best")


def make_like(workdir: Path) -> TrainState:
    return dataclasses.replace(make_state(0), params=load_model(workdir, "last").params)


def test_load_model_prefers_the_average_and_says_when_it_is_outdated(trained, caplog):
    average_checkpoints(trained, last=2)
    assert step_of(load_model(trained)) == 2.5
    assert load_model(trained).checkpoint == "averaged"
    assert caplog.text == ""
    checkpoints = open_checkpoints(trained)
    save(checkpoints, 4, make_like(trained), TOKENIZER.fingerprint)
    checkpoints.close()
    assert step_of(load_model(trained)) == 2.5
    assert "average made at step 3, although training has continued to step 4" in caplog.text
    shutil.rmtree(trained / "averaged")
    assert step_of(load_model(trained, "best")) == 3


def test_a_damaged_average_does_not_hide_the_checkpoints(trained):
    average_checkpoints(trained, last=2)
    change_one_bit(largest_file(trained / "averaged" / "params"))
    assert step_of(load_model(trained)) == step_of(load_model(trained, "best"))


def test_load_model_skips_a_damaged_checkpoint(trained, caplog):
    shorten(largest_file(trained / "checkpoints" / "1" / "params"))
    change_one_bit(largest_file(trained / "checkpoints" / "3" / "params"))
    assert step_of(load_model(trained)) == 2
    for step in "13":
        assert re.search(rf"checkpoints/{step} is damaged", caplog.text)
    with pytest.raises(OSError, match="damaged"):
        load_model(trained, "3")


@pytest.mark.parametrize("which", ["averaged", "7"])
def test_load_model_lists_the_checkpoints(trained, which):
    with pytest.raises(FileNotFoundError, match=f"no checkpoint '{which}' .* found 1, 2, 3"):
        load_model(trained, which)


def test_load_model_refuses_an_unknown_name(trained):
    with pytest.raises(ValueError, match="unknown checkpoint 'newest': expected auto, averaged"):
        load_model(trained, "newest")


def test_load_model_without_a_workdir(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"config\.json"):
        load_model(tmp_path)


def test_load_model_refuses_another_tokenizer(trained):
    shutil.rmtree(trained / "tokenizer")
    other = word_tokenizer("a", "dog", "barks")
    other.save(trained / "tokenizer")
    there, here = TOKENIZER.fingerprint, other.fingerprint
    with pytest.raises(ValueError, match=f"fingerprint {there}, but .* has {here}"):
        load_model(trained)


def test_load_model_checks_the_size_of_the_vocabulary(trained):
    checkpoints = open_checkpoints(trained, keep_last=1)
    larger = word_tokenizer("a", "dog", "runs", "fast")
    save(checkpoints, 4, make_like(trained), larger.fingerprint)
    checkpoints.close()
    shutil.rmtree(trained / "tokenizer")
    larger.save(trained / "tokenizer")
    with pytest.raises(ValueError, match=r"embedding/table: expected \(8, 8\), found \(7, 8\)"):
        load_model(trained)


def test_load_model_checks_the_parameters(trained):
    model = dataclasses.replace(TINY, num_decoder_layers=2)
    save_config(dataclasses.replace(CONFIG, model=model), str(trained))
    with pytest.raises(ValueError, match=r"another model .*\n  model.num_decoder_layers: 1 -> 2"):
        load_model(trained)
