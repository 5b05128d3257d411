"""Hardware by name: a wrong name is refused before anything is compiled."""

import importlib.util

import pytest

from flaxformer_mt.planning.hardware import local_devices, open_topology

needs_libtpu = pytest.mark.skipif(
    importlib.util.find_spec("libtpu") is None, reason="libtpu is not installed"
)
needs_cuda = pytest.mark.skipif(
    importlib.util.find_spec("jax_cuda13_plugin") is None,
    reason="jax_cuda13_plugin is not installed",
)


@pytest.mark.parametrize("name", ["", "v5e", "v5e-8", "v9x:2x2", "v5litepod-8", "v5e:2", "h100:9"])
def test_an_unknown_name_is_refused(name):
    with pytest.raises(ValueError, match="such as v5e:1x1, v5e:2x4.* got"):
        open_topology(name)


@pytest.mark.parametrize("name", ["v4:2x2", "v5e:2x2x2", "v5e:32x32", "v5e:0x4"])
def test_a_slice_size_that_does_not_exist_is_refused(name):
    with pytest.raises(ValueError, match=f"--topology {name}: slices of v.e? have . dimensions"):
        open_topology(name)


@pytest.mark.parametrize(("name", "extra"), [("v5e:2x4", "tpu"), ("h100:8", "gpu-compiler")])
def test_without_its_compiler(name, extra, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=rf"pip install 'flaxformer-mt\[{extra}\]'"):
        open_topology(name)


def test_an_error_without_text_is_named_by_its_type(monkeypatch):
    def fail(**_):
        raise AssertionError

    monkeypatch.setattr(importlib.util, "find_spec", lambda _: True)
    monkeypatch.setattr("jax.experimental.topologies.get_topology_desc", fail)
    with pytest.raises(ValueError, match=r"cannot compile for --topology v5e:2x4: AssertionError"):
        open_topology("v5e:2x4")


def test_local_devices():
    hardware = local_devices()
    assert len(hardware.devices) >= 1 and not hardware.compiler_options
    assert hardware.flops == 0  # JAX does not state it


@needs_libtpu
@pytest.mark.parametrize(("name", "count"), [("v5e:1x1", 1), ("v5e:2x4", 8), ("v6e:2x4", 8)])
def test_tpu_slices(name, count):
    hardware = open_topology(name)
    assert len(hardware.devices) == count and hardware.memory in (16 << 30, 32 << 30)


@needs_libtpu
def test_a_v4_chip_is_two_devices():
    hardware = open_topology("v4:2x2x1")
    assert len(hardware.devices) == 8 and hardware.memory == 16 << 30


@needs_cuda
def test_gpus():
    hardware = open_topology("h100:8")
    assert len(hardware.devices) == 8 and hardware.memory > 79 << 30
