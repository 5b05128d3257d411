"""Averages are arithmetic means of the right checkpoints, written atomically."""

import gc
import json
import os
import shutil
import subprocess
import sys
import time
import weakref
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny_run import two_processes

from flaxformer_mt.checkpoints import averaging
from flaxformer_mt.checkpoints.averaging import average_checkpoints, mean_params
from flaxformer_mt.checkpoints.integrity import find_damage
from flaxformer_mt.checkpoints.manager import Checkpoints
from flaxformer_mt.checkpoints.reading import choose_checkpoint, read_extras, read_params
from flaxformer_mt.config import Config, to_json
from flaxformer_mt.storage.paths import lock_file
from flaxformer_mt.training.state import TrainState


def write_run(
    workdir: Path,
    *trees: dict,
    bleus: tuple[float | None, ...] = (),
    stops: tuple[int, ...] = (),
) -> list[Path]:
    """Writes checkpoints 1, 2, ... with these parameters; only a stop wrote those in `stops`."""
    checkpoints = Checkpoints(workdir, keep_last=9, keep_best=9)
    for step, params in enumerate(trees, start=1):
        bleu = bleus[step - 1] if bleus else None
        checkpoints.save(
            step,
            TrainState(jnp.int32(step), params, (), jnp.zeros(2, jnp.uint32)),
            data_state={},
            metrics=None if bleu is None else {"bleu": bleu},
            config=Config(),
            tokenizer_fingerprint="abc",
            scheduled=step not in stops,
        )
    checkpoints.close()
    return [workdir / "checkpoints" / str(step) for step in range(1, len(trees) + 1)]


def random_params(seed: int, dtype=jnp.float32) -> dict:
    kernel = jax.random.normal(jax.random.key(seed), (40, 30), dtype)
    return {"layer": {"kernel": kernel}, "bias": jax.random.normal(jax.random.key(-seed), (7,))}


def test_mean_of_identical_is_identical_bit_for_bit(tmp_path):
    params = random_params(1)
    mean = mean_params(write_run(tmp_path, *[params] * 3))
    assert jax.tree.structure(mean) == jax.tree.structure(params)
    for a, b in zip(jax.tree.leaves(mean), jax.tree.leaves(params), strict=True):
        assert a.dtype == b.dtype and a.tobytes() == np.asarray(b).tobytes()


def test_mean_is_numpys(tmp_path):
    trees = [random_params(seed) for seed in range(3)]
    mean = mean_params(write_run(tmp_path, *trees))
    stacked = np.stack([tree["layer"]["kernel"] for tree in trees]).astype(np.float64)
    np.testing.assert_array_equal(mean["layer"]["kernel"], stacked.mean(0).astype(np.float32))


def test_keeps_the_type(tmp_path):
    mean = mean_params(write_run(tmp_path, random_params(1, jnp.bfloat16)))
    assert mean["layer"]["kernel"].dtype == jnp.bfloat16


def constant(value: float) -> dict:
    return {"w": jnp.full((2, 3), value)}


@pytest.mark.parametrize(
    ("wanted", "steps", "value"),
    [({"last": 2}, (4, 5), 4.5), ({"best": 2}, (1, 3), 2.0), ({"best": 3}, (1, 3, 4), 8 / 3)],
)
def test_averages_the_last_or_the_best(tmp_path, wanted, steps, value):
    bleus = (30.0, 10.0, 20.0, 20.0 - 1e-9, None)
    write_run(tmp_path, *[constant(float(step)) for step in range(1, 6)], bleus=bleus)
    averaged = average_checkpoints(tmp_path, **wanted)
    assert averaged == (tmp_path / "averaged", steps)
    np.testing.assert_allclose(read_params(averaged.path)["w"], value, rtol=1e-7)
    assert find_damage(averaged.path) == ""
    extras = read_extras(averaged.path)
    assert extras["steps"] == list(steps) and extras["tokenizer"] == "abc"
    assert extras["config"] == json.loads(to_json(Config()))
    assert choose_checkpoint(tmp_path, "auto") == averaged.path


@pytest.mark.parametrize(("stops", "steps"), [((2, 3), (1, 4)), ((4,), (3, 4)), ((3, 4), (2, 4))])
def test_a_checkpoint_that_a_stop_wrote_counts_only_while_it_is_the_newest(tmp_path, stops, steps):
    trees = [constant(float(step)) for step in range(1, 5)]  # the best are kept, so all of them
    write_run(tmp_path, *trees, bleus=(1.0, 2.0, 3.0, 4.0), stops=stops)
    assert average_checkpoints(tmp_path, last=2)[1] == steps


def test_too_few_checkpoints_says_how_many_there_are(tmp_path):
    write_run(tmp_path, constant(1.0), constant(2.0), bleus=(1.0, None))
    with pytest.raises(ValueError, match=r"average 3 checkpoints: .* has 2 \(steps 1, 2\)"):
        average_checkpoints(tmp_path, last=3)
    with pytest.raises(ValueError, match=r"2 validated checkpoints: .* has 1 \(steps 1\)"):
        average_checkpoints(tmp_path, best=2)
    assert not (tmp_path / "averaged").exists()


def test_a_directory_of_no_training_run_is_named(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"/elsewhere does not exist: .*flaxformer_mt\.train"
    ):
        average_checkpoints(tmp_path / "elsewhere", last=1)
    (tmp_path / "holiday.jpg").touch()
    with pytest.raises(FileNotFoundError, match=r"has no checkpoints; it contains holiday\.jpg"):
        average_checkpoints(tmp_path, last=1)
    (tmp_path / "checkpoints").mkdir()
    with pytest.raises(ValueError, match="has 0. Average fewer, or train longer"):
        average_checkpoints(tmp_path, last=1)


def test_or_fewer_averages_the_available_checkpoints(tmp_path):
    write_run(tmp_path, constant(1.0), constant(3.0))
    assert len(average_checkpoints(tmp_path, last=5, or_fewer=True).steps) == 2


@pytest.mark.parametrize("wanted", [{}, {"last": 1, "best": 1}, {"last": 0}, {"last": -1}])
def test_needs_one_of_last_and_best(tmp_path, wanted):
    with pytest.raises(ValueError, match="either last or best"):
        average_checkpoints(tmp_path, **wanted)


def test_a_second_average_replaces_the_first(tmp_path):
    write_run(tmp_path, constant(1.0), constant(2.0))
    average_checkpoints(tmp_path, last=1)
    average_checkpoints(tmp_path, last=2)
    assert read_params(tmp_path / "averaged")["w"][0, 0] == 1.5
    there = sorted(path.name for path in tmp_path.iterdir())
    assert there == ["averaged", "checkpoints", "newest_checkpoint"]


def test_the_remains_of_a_killed_average_are_removed(tmp_path):
    write_run(tmp_path, constant(1.0))
    for name in ("averaged.temporary.1", "averaged.temporary.2", "averaged.backup"):
        (tmp_path / name / "averaged").mkdir(parents=True)
    with open(tmp_path / "averaged.temporary.2" / "owner.lock", "w") as lock:
        assert lock_file(lock)
        average_checkpoints(tmp_path, last=1)
    there = sorted(path.name for path in tmp_path.glob("averaged*"))
    assert there == ["averaged", "averaged.backup", "averaged.temporary.2"]


def test_a_failed_write_leaves_the_old_average(tmp_path, monkeypatch):
    write_run(tmp_path, constant(1.0), constant(2.0))
    average_checkpoints(tmp_path, last=1)

    def fail(path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(averaging, "seal", fail)
    with pytest.raises(OSError, match="could not write the average to .*: the disk is full"):
        average_checkpoints(tmp_path, last=2)
    assert read_params(tmp_path / "averaged")["w"][0, 0] == 2
    there = sorted(path.name for path in tmp_path.iterdir())
    assert there == ["averaged", "checkpoints", "newest_checkpoint"]


@pytest.mark.slow
def test_a_failed_write_ends_all_processes(tmp_path):
    write_run(tmp_path, constant(1.0), constant(2.0))
    program = (
        "import sys\n"
        "from flaxformer_mt.checkpoints import averaging\n"
        "from flaxformer_mt.runtime.processes import connect\n"
        "connect()\n"
        "def fail(path): raise OSError(28, 'No space left on device')\n"
        "averaging.seal = fail\n"
        "try: averaging.average_checkpoints(sys.argv[1], last=2)\n"
        "except OSError as error: print(error)"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path)],
            env=os.environ | place,
            stdout=subprocess.PIPE,
            text=True,
        )
        for place in two_processes()
    ]
    first, second = (process.communicate(timeout=60)[0] for process in processes)
    assert "could not write the average to" in first
    assert second.endswith("the first process of this run failed; its message has the reason\n")


def test_a_damaged_checkpoint_is_not_averaged(tmp_path):
    paths = write_run(tmp_path, constant(1.0), constant(2.0), constant(3.0))
    manifest = paths[1] / "params" / "manifest.ocdbt"
    content = bytearray(manifest.read_bytes())
    content[40] ^= 1
    manifest.write_bytes(content)
    with pytest.raises(OSError, match="checkpoints/2 is damaged: the contents of params/manifest"):
        average_checkpoints(tmp_path, last=2)
    os.truncate(manifest, 10)  # a changed size shows without reading: the step does not count
    assert average_checkpoints(tmp_path, last=2).steps == (1, 3)


def test_a_checkpoint_that_a_training_removes_meanwhile_is_not_called_damaged(tmp_path):
    paths = write_run(tmp_path, constant(1.0), constant(2.0))
    shutil.rmtree(paths[0])
    with pytest.raises(OSError, match="checkpoints/1 is gone: a run deleted it for a newer one"):
        mean_params(paths)


def test_holds_one_checkpoint_at_a_time(tmp_path, monkeypatch):
    paths = write_run(tmp_path, *[constant(float(n)) for n in range(4)])
    held: list[weakref.ref] = []

    def read_and_watch(path):
        # Orbax's reading thread drops its reference a moment after it returns.
        give_up = time.monotonic() + 10
        while any(reference() is not None for reference in held):
            assert time.monotonic() < give_up, "an earlier checkpoint is still held"
            gc.collect()
            time.sleep(0.01)
        params = read_params(path)
        held.append(weakref.ref(params["w"]))
        return params

    monkeypatch.setattr(averaging, "read_params", read_and_watch)
    mean_params(paths)
    assert len(held) == 4
