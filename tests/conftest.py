"""The world that tests run in: the CPU as eight devices, and real corpora if there are any."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

os.environ["JAX_PLATFORMS"] = "cpu"  # before jax is imported; commands that tests start inherit it
os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"  # nothing of a test stays in ~/.cache

import jax

# Not by XLA_FLAGS, which commands that tests start would inherit: those see what users see.
jax.config.update("jax_num_cpu_devices", 8)
jax.devices()  # from here on the number is settled, whatever a test calls

SHARED_DATA = Path(__file__).parents[2] / "shared" / "data"


@pytest.fixture(autouse=True, scope="module")
def programs_of_a_module() -> Iterator[None]:
    """What one module compiled is let go after it.

    A program of XLA's has dozens of memory mappings and more. Linux allows a process 65,530
    (vm.max_map_count), and one that compiles beyond them dies without a word.
    """
    yield
    jax.clear_caches()


@pytest.fixture
def shared_data() -> Path:
    """The directory of real corpora; tests that need it are skipped where there is none."""
    if not SHARED_DATA.is_dir():
        pytest.skip(f"needs the corpora of {SHARED_DATA}")
    return SHARED_DATA


@pytest.fixture
def compilations() -> Iterator[list[str]]:
    """The names of the functions that JAX compiles from here on, as it does."""
    names: list[str] = []

    def listen(event: str, duration: float, **about: str | int) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            names.append(str(about["fun_name"]))

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield names
    jax.monitoring.unregister_event_duration_listener(listen)


@pytest.fixture
def rng() -> np.random.Generator:
    """Random numbers that are the same in every run."""
    return np.random.default_rng(0)
