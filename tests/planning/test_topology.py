"""Slices by name: what is wrong with one is said before anything is compiled."""

import importlib.util

import pytest

from flaxformer_mt.planning.topology import local_devices, open_topology

needs_libtpu = pytest.mark.skipif(
    importlib.util.find_spec("libtpu") is None, reason="libtpu is not installed"
)


@pytest.mark.parametrize("name", ["", "v5e", "v5e-8", "v9x:2x2", "v5litepod-8", "v5e:2"])
def test_a_name_that_is_none(name):
    with pytest.raises(ValueError, match="such as v5e:1x1, v5e:2x4.* got"):
        open_topology(name)


def test_without_libtpu(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"pip install -e '\.\[tpu\]'"):
        open_topology("v5e:2x4")


def test_local_devices():
    place = local_devices()
    assert len(place.devices) >= 1 and not place.compiler_options
    assert place.chip.flops == 0  # no one states it


@needs_libtpu
@pytest.mark.parametrize(("name", "count"), [("v5e:1x1", 1), ("v5e:2x4", 8), ("v6e:2x4", 8)])
def test_slices(name, count):
    place = open_topology(name)
    assert len(place.devices) == count and place.chip.memory in (16 << 30, 32 << 30)


@needs_libtpu
def test_a_v4_chip_is_two_devices():
    place = open_topology("v4:2x2x1")
    assert len(place.devices) == 8 and place.chip.memory == 16 << 30


@pytest.mark.parametrize("name", ["v4:2x2", "v5e:2x2x2", "v5e:32x32", "v5e:0x4"])
def test_slices_that_there_are_not(name, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: "it")
    with pytest.raises(ValueError, match=f"--topology {name}: slices of v.e? have . dimensions"):
        open_topology(name)
