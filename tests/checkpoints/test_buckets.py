"""Checkpoints in a bucket: exact, whole or absent, and the right ones are kept."""

from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from flaxformer_mt.checkpoints.averaging import average_checkpoints
from flaxformer_mt.checkpoints.buckets import COMMITTED, publish, readable
from flaxformer_mt.checkpoints.integrity import saved_steps
from flaxformer_mt.checkpoints.manager import Checkpoints
from flaxformer_mt.checkpoints.reading import choose_checkpoint, read_extras, read_params
from flaxformer_mt.config import Config
from flaxformer_mt.storage.paths import as_path, file_sizes, write_file
from flaxformer_mt.training.state import TrainState


def make_state(step: int) -> TrainState:
    params = {"kernel": jax.random.normal(jax.random.key(step), (3, 2)), "bias": jnp.full(3, -0.0)}
    return TrainState(jnp.int32(step), params, (), jnp.zeros(2, jnp.uint32))


def save(workdir: str, *steps: int, keep_last: int = 2, **metrics: float) -> None:
    checkpoints = Checkpoints(workdir, keep_last=keep_last, keep_best=0)
    for step in steps:
        checkpoints.save(
            step,
            make_state(step),
            data_state={"batch": step},
            metrics=metrics or None,
            config=Config(),
            tokenizer_fingerprint="abc",
        )
    checkpoints.close()


def restore(workdir: str) -> tuple[TrainState, dict]:
    checkpoints = Checkpoints(workdir, keep_last=2, keep_best=0)
    restored = checkpoints.restore(make_state(0))
    checkpoints.close()
    return restored.state, restored.data_state


def assert_identical(actual: TrainState, expected: TrainState) -> None:
    for a, b in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        assert a.dtype == b.dtype and np.asarray(a).tobytes() == np.asarray(b).tobytes()


def test_the_newest_are_kept_and_restored_bit_for_bit(bucket):
    save(bucket, 1, 2, 3)
    directory = as_path(bucket) / "checkpoints"
    assert saved_steps(directory) == [2, 3]
    assert {name.split("/")[0] for name in file_sizes(directory)} == {"2", "3"}
    state, data_state = restore(bucket)
    assert_identical(state, make_state(3))
    assert data_state == {"batch": 3}
    save(bucket, 3, 4)
    assert saved_steps(directory) == [3, 4]


@pytest.mark.slow
def test_a_half_written_one_is_never_read_and_is_removed(bucket):
    save(bucket, 1, 2)
    directory = as_path(bucket) / "checkpoints"
    (directory / "2" / COMMITTED).unlink()  # as a kill before the last file leaves it
    assert saved_steps(directory) == [1]
    assert choose_checkpoint(as_path(bucket), "last").name == "1"
    state, _ = restore(bucket)
    assert_identical(state, make_state(1))
    assert {name.split("/")[0] for name in file_sizes(directory)} == {"1"}


@pytest.mark.slow
def test_the_mark_is_written_last(bucket, object_store, failed_requests, tmp_path):
    if object_store != "s3":
        pytest.skip("requests to gs:// do not have the name of the object in their path")
    for name in ("a", COMMITTED, "z"):
        (tmp_path / name).write_text("x")
    publish(tmp_path, as_path(bucket) / "1")
    written = [kind.split("/")[-1] for kind in failed_requests if kind.startswith("PUT")]
    assert written == ["a", "z", COMMITTED]


@pytest.mark.slow
def test_a_truncated_one_is_set_aside(bucket, caplog):
    save(bucket, 1, 2)
    directory = as_path(bucket) / "checkpoints"
    sizes = file_sizes(directory / "2" / "params")
    write_file(directory / "2" / "params" / max(sizes, key=sizes.__getitem__), b"short")
    state, _ = restore(bucket)
    assert_identical(state, make_state(1))
    assert "checkpoint 2 is damaged" in caplog.text and "instead of" in caplog.text
    assert file_sizes(as_path(bucket) / "damaged" / "2-0")
    assert saved_steps(directory) == [1]


@pytest.mark.slow
def test_late_metrics_and_an_average(bucket):
    save(bucket, 1, 2, bleu=1.0)
    checkpoints = Checkpoints(bucket, keep_last=2, keep_best=1)
    checkpoints.add_metrics(2, {"bleu": 7.0})
    checkpoints.close()
    assert read_extras(as_path(bucket) / "checkpoints" / "2")["metrics"] == {"bleu": 7.0}
    averaged = average_checkpoints(bucket, last=2)
    assert averaged.steps == (1, 2)
    path = choose_checkpoint(as_path(bucket), "auto")
    assert path.name == "averaged"
    expected = (make_state(1).params["kernel"] + make_state(2).params["kernel"]) / 2
    np.testing.assert_allclose(read_params(path)["kernel"], expected, rtol=1e-6)
    average_checkpoints(bucket, last=1)  # a second average replaces the first one's copy too
    np.testing.assert_array_equal(read_params(path)["kernel"], make_state(2).params["kernel"])


def test_threads_keep_their_own_copies(bucket, tmp_path):
    write_file(as_path(bucket) / "a" / "item" / "file", b"1")
    write_file(as_path(bucket) / "b" / "item" / "file", b"2")
    for name in ("a", "b"):
        write_file(as_path(bucket) / name / COMMITTED, name.encode())
    first = readable(as_path(bucket) / "a", ["item"])
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(readable, as_path(bucket) / "b", ["item"]).result()
        assert (second / "item" / "file").read_bytes() == b"2"
    assert (first / "item" / "file").read_bytes() == b"1"
    readable(as_path(bucket) / "b", ["item"])
    assert not first.exists()
