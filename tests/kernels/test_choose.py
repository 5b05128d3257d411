"""The choice of kernels, its description, and training and translation without them."""

import dataclasses
import importlib
import sys

import jax
import pytest
from tiny_run import WITHOUT_DROPOUT, start_lines

import flaxformer_mt.kernels
from flaxformer_mt import Translator
from flaxformer_mt.data.sources.corpora import CorpusConfig
from flaxformer_mt.kernels.choose import choose_kernels, choose_search_sizes, describe_kernels
from flaxformer_mt.kernels.search_sizes import SearchSizes
from flaxformer_mt.model import attention
from flaxformer_mt.model.config import TransformerConfig
from flaxformer_mt.model.kernels import REFERENCE, Kernels
from flaxformer_mt.runtime.sharding import MeshConfig, make_mesh
from flaxformer_mt.train import train
from flaxformer_mt.training.config import TrainingConfig

TINY = TransformerConfig(d_model=16, d_ff=16, num_encoder_layers=1, num_decoder_layers=1)
SHORT = ((64, 64),)
LONG = ((1024, 1024),)
SOME = ((64, 64), (1024, 1024))


class Refusal:
    """A finder that finds neither a package nor its modules, as if it were not installed."""

    def __init__(self, package):
        self.package = package

    def find_spec(self, name, path=None, target=None):
        if f"{name}.".startswith(f"{self.package}."):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


@pytest.fixture(params=["cpu", "gpu", "tpu"])
def missing(request, monkeypatch):
    """The platform of this process, whose package of kernels is not installed."""
    package = f"flaxformer_mt.kernels.{request.param}"
    for module in [name for name in sys.modules if f"{name}.".startswith(f"{package}.")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.delattr(flaxformer_mt.kernels, request.param, raising=False)
    monkeypatch.setattr(sys, "meta_path", [Refusal(package), *sys.meta_path])
    monkeypatch.setattr(jax, "default_backend", lambda: request.param)
    return request.param


def test_auto_is_the_set_of_the_platform():
    assert [choose_kernels("auto", name).name for name in ("cpu", "gpu", "tpu")] == [
        "cpu",
        "gpu",
        "tpu",
    ]
    assert choose_kernels("auto", "another") is REFERENCE
    assert choose_kernels("reference", "cpu") is REFERENCE
    assert choose_kernels("tpu", "cpu") is REFERENCE  # Pallas kernels run on TPUs only


def test_search_sizes_are_those_of_the_platform():
    assert choose_search_sizes("cpu").max_hypotheses == 160
    assert choose_search_sizes("gpu") == choose_search_sizes("another") == SearchSizes()


def test_a_package_that_is_not_installed(missing):
    assert choose_kernels("auto", missing) is REFERENCE
    assert choose_search_sizes(missing) == SearchSizes()
    with pytest.raises(
        ValueError, match=rf"model.kernels={missing} needs .*kernels.{missing}, .* use \"auto\" or"
    ):
        choose_kernels(missing, missing)


def test_a_run_trains_and_translates_without_its_kernels(missing, tmp_path):
    """An import of the package inside a function fails. Others: tests/test_architecture.py."""
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module(f"flaxformer_mt.kernels.{missing}")
    data = dataclasses.replace(WITHOUT_DROPOUT.data, validation=CorpusConfig())
    training = TrainingConfig(num_steps=1, warmup_steps=1, log_every=1)
    config = dataclasses.replace(WITHOUT_DROPOUT, data=data, training=training)
    assert train(config, str(tmp_path), quiet=True) == "complete"
    assert start_lines(tmp_path) == [(0, "reference")]
    translator = Translator.load(tmp_path)
    assert translator.model.kernels is REFERENCE
    assert len(translator.translate(["the dog sleeps.", "a cat sees the house."])) == 2


@pytest.mark.parametrize(
    ("kernels", "fields", "lengths", "line"),
    [
        ("reference", {}, SHORT, "reference"),
        ("cpu", {}, SHORT, "cpu: product, dropout, store"),
        (
            "gpu",
            {},
            SHORT,
            "gpu: attend, embed, product, dropout; attend falls back to the reference "
            "(cuDNN attention needs bfloat16, got float32)",
        ),
        (
            "tpu",
            {},
            SOME,
            "tpu: attend, embed, product, dropout; some of attend falls back to the reference "
            "(flash attention needs lengths of at least 1024 that divide by 128)",
        ),
        ("tpu", {}, LONG, "tpu: attend, embed, product, dropout"),
        (
            "tpu",
            {"positions": "bucketed"},
            LONG,
            "tpu: attend, embed, product, dropout; some of attend falls back to the reference "
            "(flash attention has no position bias)",
        ),
        (
            "tpu",
            {"positions": "relative"},
            LONG,
            "tpu: attend, embed, product, dropout; some of attend falls back to the reference "
            "(positions=relative needs the weights)",
        ),
        (
            "tpu",
            {"attention_dropout": 0.1},
            LONG,
            "tpu: attend, embed, product, dropout; attend falls back to the reference "
            "(attention_dropout needs the weights)",
        ),
        (
            "tpu",
            {"num_heads": 2, "num_kv_heads": 1},
            LONG,
            "tpu: attend, embed, product, dropout; attend falls back to the reference "
            "(flash attention has no grouped heads)",
        ),
    ],
)
def test_the_description_names_what_falls_back_and_why(kernels, fields, lengths, line):
    config = dataclasses.replace(TINY, **fields)
    found = describe_kernels(config, choose_kernels(kernels, kernels), lengths, make_mesh())
    assert found == line


def test_the_description_follows_the_mesh():
    """The heads of the model must divide by the devices that share them."""
    config = dataclasses.replace(TINY, num_heads=1)
    tensor = make_mesh(MeshConfig(tensor=2))
    found = describe_kernels(config, choose_kernels("tpu", "tpu"), LONG, tensor)
    assert "attend falls back to the reference (flash attention needs rows that" in found
    assert "heads that divide by 2" in found


def test_the_description_of_a_set_that_serves_all():
    def attend(*args):
        return attention.attend(*args)

    kernels = Kernels("new", attend=attend)
    found = describe_kernels(TransformerConfig(), kernels, LONG, make_mesh())
    assert found == "new: attend"


def test_the_repr_tells_kernels_apart():
    """The trace cache names a program by it, in every process."""
    shipped = [REFERENCE, *(choose_kernels(name, name) for name in ("cpu", "gpu", "tpu"))]
    names = [repr(kernels) for kernels in shipped]
    assert len(set(names)) == 4 and not any(" at 0x" in name for name in names)
    mixed = dataclasses.replace(shipped[1], store=REFERENCE.store)
    assert repr(mixed) not in names
    own = dataclasses.replace(REFERENCE, attend=lambda *arguments: None)
    assert " at 0x" in repr(own)  # so that no program of it is kept
