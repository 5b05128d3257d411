"""A program is traced once, and again only if something that it depends on changes."""

import functools
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.compilation_cache import compilation_cache
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from flaxformer_mt.runtime import trace_cache
from flaxformer_mt.runtime.trace_cache import call_cached, register_result


@register_result
class Found(NamedTuple):
    total: jax.Array
    parts: dict[str, jax.Array | None]


TRACED = []


@functools.partial(jax.jit, static_argnames="how")
def program(given, scale, *, how):
    TRACED.append(how)
    a, b = given["a"], given["b"]
    return Found(jnp.sum(a @ b) * scale, {"a": a * scale, "none": None})


GIVEN = {"a": np.arange(6.0, dtype=np.float32).reshape(2, 3), "b": np.ones((3, 8), np.float32)}


@pytest.fixture
def next_process(tmp_path, monkeypatch):
    """Clears the caches in memory and returns the traces since the last call."""
    monkeypatch.setattr(trace_cache, "_LONG", 1000.0)
    monkeypatch.setattr(trace_cache, "_folder", lambda leaves: tmp_path)
    kept = jax.config.values["jax_compilation_cache_dir"]
    jax.config.update("jax_compilation_cache_dir", None)
    compilation_cache.reset_cache()

    def start_anew():
        trace_cache._known.clear()
        jax.clear_caches()
        traced = list(TRACED)
        TRACED.clear()
        return traced

    start_anew()
    yield start_anew
    start_anew()
    jax.config.update("jax_compilation_cache_dir", kept)
    compilation_cache.reset_cache()


TWICE = np.float32(2)


def run(given=GIVEN, scale=TWICE, how="so"):
    found = call_cached(program, given, scale, how=how)
    assert isinstance(found, Found) and found.parts["none"] is None
    np.testing.assert_array_equal(found.parts["a"], np.asarray(given["a"]) * scale)
    return float(found.total)


def test_it_is_traced_once(next_process, tmp_path):
    assert run() == run() == 240
    assert next_process() == ["so"]
    assert run(scale=np.float32(3)) == 360
    assert next_process() == [] and len(list(tmp_path.glob("trace-*"))) == 1


def test_it_is_compiled_once_where_jax_keeps_no_programs(next_process, tmp_path, compilations):
    settings = dict(jax.config.values)
    run()
    assert compilations.count("jit(program)") == 1
    next_process()
    run()
    run(scale=np.float32(3))
    assert compilations.count("jit(program)") == 1
    (file,) = tmp_path.glob("compiled-*")
    whole = file.read_bytes()
    for number, damaged in enumerate((b"", whole[:1000], whole[:-1] + b"!"), start=2):
        file.write_bytes(damaged)
        next_process()
        run()
        assert compilations.count("jit(program)") == number
        assert file.read_bytes() != damaged
    assert jax.config.values == settings


def test_threads_compile_a_program_once(next_process, compilations):
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(lambda _: run(), range(8))) == [240] * 8
    assert compilations.count("jit(program)") == 1
    assert next_process() == ["so"]


def test_another_machine_compiles_its_own_program(next_process, monkeypatch, compilations):
    run()
    next_process()
    monkeypatch.setattr(trace_cache, "_machine", lambda devices: "another")
    run()
    assert next_process() == [] and compilations.count("jit(program)") == 2


def test_a_long_compilation_is_reported(next_process, monkeypatch, caplog):
    run()
    assert not caplog.records
    monkeypatch.setattr(trace_cache, "_LONG", 0.0)
    run(how="otherwise")
    assert "compiling a program for a new kind of request" in caplog.text
    caplog.clear()
    run(how="otherwise")
    assert not caplog.records


@pytest.mark.parametrize(
    "other",
    [
        {"how": "otherwise"},
        {"given": GIVEN | {"b": np.ones((3, 4), np.float32)}},
        {"given": GIVEN | {"c": np.ones(1)}},
        {"given": jax.tree.map(np.int32, GIVEN), "scale": np.int32(2)},
        {"given": jax.tree.map(jnp.asarray, GIVEN)},
        {"scale": 2.0},  # weakly typed
    ],
)
def test_other_arguments_give_another_program(other, next_process):
    run()
    next_process()
    run(**other)
    assert len(next_process()) == 1
    run()
    run(**other)
    assert next_process() == []


def test_other_source_gives_another_program(next_process, monkeypatch):
    run()
    next_process()
    monkeypatch.setattr(trace_cache, "_source_digest", lambda: "changed")
    run()
    assert next_process() == ["so"]


def test_other_jax_settings_give_another_program_at_once(next_process):
    run()
    with jax.default_matmul_precision("highest"):
        run()
    assert TRACED == ["so", "so"]
    run()
    next_process()
    with jax.default_matmul_precision("highest"):
        run()
    assert next_process() == []


def test_a_damaged_file_is_replaced(next_process, tmp_path):
    run()
    next_process()
    (file,) = tmp_path.glob("trace-*")
    whole = file.read_bytes()
    for damaged in (b"", whole[:1000], whole[:-1], whole[:-1] + b"!"):
        file.write_bytes(damaged)
        assert run() == 240
        assert next_process() == ["so"]
        assert run() == 240
        assert next_process() == []


def test_it_runs_without_a_writable_folder(next_process, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", None):
        monkeypatch.setattr(trace_cache, "_folder", lambda leaves, folder=folder: folder)
        assert run() == 240
        assert next_process() == ["so"]


def test_a_failed_write_leaves_no_file(next_process, tmp_path, monkeypatch):
    def full(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "replace", full)
    assert run() == 240 and not list(tmp_path.iterdir())


def test_the_folder_is_created(next_process, tmp_path, monkeypatch):
    monkeypatch.setattr(trace_cache, "_folder", lambda leaves: tmp_path / "a" / "b")
    run()
    assert len(list((tmp_path / "a" / "b").iterdir())) == 2


def test_only_arguments_on_the_default_backend_use_the_cache(monkeypatch):
    def folder(value, settings):
        monkeypatch.setattr(jax, "config", settings)
        return trace_cache._folder.__wrapped__([value, np.ones(2)])

    on_cpu = jnp.ones(2)
    settings = SimpleNamespace(
        jax_compilation_cache_dir="there",
        jax_enable_compilation_cache=True,
        jax_default_device=None,
    )
    assert folder(on_cpu, settings) == Path("there")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert folder(
        on_cpu, SimpleNamespace(**vars(settings) | {"jax_compilation_cache_dir": None})
    ) == (Path("/caches/flaxformer_mt/programs"))
    for field, value in (
        ("jax_compilation_cache_dir", "gs://bucket/there"),
        ("jax_enable_compilation_cache", False),
        ("jax_default_device", jax.devices()[1]),
    ):
        assert folder(on_cpu, SimpleNamespace(**(vars(settings) | {field: value}))) is None
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert folder(on_cpu, settings) is None and folder(np.ones(2), settings) == Path("there")


class Mine:
    """A class of other code, which `repr` does not identify."""

    def __repr__(self):
        return "Mine()"


def test_arguments_without_a_lasting_name_are_not_cached(next_process, tmp_path):
    run(how=object())
    run(how=(1, Mine()))
    assert not list(tmp_path.iterdir())


def test_on_several_devices(next_process):
    mesh = Mesh(np.array(jax.devices()[:2]), "data")
    halves = jax.device_put(GIVEN["a"], NamedSharding(mesh, PartitionSpec("data")))
    whole = jax.device_put(GIVEN["b"], NamedSharding(mesh, PartitionSpec()))
    for _ in range(2):
        found = call_cached(program, {"a": halves, "b": whole}, TWICE, how="so")
        assert float(found.total) == 240
    assert next_process() == ["so"]
    call_cached(program, {"a": halves, "b": whole}, TWICE, how="so")
    assert next_process() == []
