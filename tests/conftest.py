"""The environment of the tests: eight CPU devices, and real corpora if they exist.

FLAXFORMER_MT_TEST_PLATFORMS=cuda,cpu (or tpu,cpu) runs them on a GPU (a TPU).
"""

import functools
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import numpy as np
import pytest

# Before jax is imported. Commands that tests start inherit it.
os.environ["JAX_PLATFORMS"] = os.environ.get("FLAXFORMER_MT_TEST_PLATFORMS", "cpu")
# Tests and the commands that they start share compiled programs. Each process of pytest has a
# folder, because JAX does not write entries atomically.
os.environ["JAX_COMPILATION_CACHE_DIR"] = tempfile.mkdtemp(prefix="programs-")
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.2"

import buckets
import fsspec
import jax
from tiers import slow_after

from flaxformer_mt.runtime import trace_cache

# Not by XLA_FLAGS: commands that tests start would inherit it, but must run as for users.
jax.config.update("jax_num_cpu_devices", 8)
jax.devices()  # fixes the number for all tests

# The same examples in every run, on machines of any speed.
hypothesis.settings.register_profile("repeatable", deadline=None, derandomize=True)
hypothesis.settings.load_profile("repeatable")

SHARED_DATA = Path(__file__).parents[2] / "shared" / "data"


# Tests may replace parts of a program, so traces are kept only for the commands that they start.
trace_cache._folder = functools.wraps(trace_cache._folder)(lambda leaves: None)


def pytest_sessionfinish() -> None:
    """Deletes the compiled programs. The processes of xdist end without doing so."""
    shutil.rmtree(os.environ["JAX_COMPILATION_CACHE_DIR"], ignore_errors=True)


@pytest.fixture(autouse=True, scope="module")
def programs_of_a_module() -> Iterator[None]:
    """Frees the compiled programs of a test module after it.

    An XLA program has dozens of memory mappings. Linux allows a process 65,530 of them
    (vm.max_map_count). A process that compiles beyond this limit dies without a message.
    """
    yield
    jax.clear_caches()


@pytest.fixture
def shared_data() -> Path:
    """Returns the directory of real corpora; skips the test if it does not exist."""
    if not SHARED_DATA.is_dir():
        pytest.skip(f"needs the corpora of {SHARED_DATA}")
    return SHARED_DATA


@pytest.fixture(scope="session", params=slow_after(1, ["s3", "gs"]))
def object_store(request: pytest.FixtureRequest) -> Iterator[str]:
    """Yields s3 or gs, the scheme of a server on this machine that this process then uses."""
    scheme: str = request.param
    with buckets.server(scheme) as address, pytest.MonkeyPatch.context() as patch:
        for name, value in buckets.environment(scheme, address).items():
            patch.setenv(name, value)
        yield scheme


@pytest.fixture
def bucket(object_store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Returns an address in a bucket, of its own for each test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return f"{object_store}://bucket/{tmp_path.name}"


@pytest.fixture
def failed_requests(object_store: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Makes the first request of each kind to the object store fail; yields their list."""
    variable = {"s3": "AWS_ENDPOINT_URL", "gs": "STORAGE_EMULATOR_HOST"}[object_store]
    kind = fsspec.get_filesystem_class(object_store)
    with buckets.failing_once(os.environ[variable]) as (address, failed):
        monkeypatch.setenv(variable, address)
        kind.clear_instance_cache()  # clients keep the address of their server
        yield failed
        kind.clear_instance_cache()


@pytest.fixture
def compilations() -> Iterator[list[str]]:
    """Yields a list that gets the name of each function that JAX compiles."""
    names: list[str] = []

    def listen(event: str, duration: float, **about: str | int) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            names.append(str(about["fun_name"]))

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield names
    jax.monitoring.unregister_event_duration_listener(listen)


@pytest.fixture
def rng() -> np.random.Generator:
    """Returns a generator of the same random numbers in every run."""
    return np.random.default_rng(0)
