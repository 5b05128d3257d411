"""`python -m flaxformer_mt.plan`: for the devices here, and for devices that are not here."""

import importlib.util
import json

import pytest

from flaxformer_mt import plan

needs_libtpu = pytest.mark.skipif(
    importlib.util.find_spec("libtpu") is None,
    reason="libtpu is not installed: pip install -e '.[tpu]' compiles for TPUs without one",
)
needs_cuda = pytest.mark.skipif(
    importlib.util.find_spec("jax_cuda13_plugin") is None,
    reason="jax[cuda13] is not installed: pip install -e '.[gpu]' compiles for GPUs without one",
)
TINY = (
    *("--model.d-model", "16", "--model.d-ff", "32", "--model.num-heads", "2"),
    *("--model.num-encoder-layers", "1", "--model.num-decoder-layers", "1"),
    *("--data.tokenizer.vocab-size", "100", "--data.num-buckets", "2"),
)


def run(*words):
    return plan.main(list(words))


def test_the_devices_here(capsys):
    assert run(*TINY) == 0
    text = capsys.readouterr().out
    assert "Estimates of the compiler, not measurements" in text
    assert "Batch shapes: ASSUMED" in text
    for program in ("train 32 x (64 -> 64)", "translate 64 x 64"):
        assert f"| {program}" in text
    assert "the memory of a device is not known" in text


def test_json_with_a_memory_limit(capsys):
    assert run(*TINY, "--json", "true", "--mesh.memory-limit", "1GiB", "--programs", "train") == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert "not measurements" in found["notice"] and not found["failure"]
    assert found["tokens_per_device"] > 0 and "1 x 32 rows" in found["memory"]
    assert found["hardware"]["devices"] >= 1
    assert all(one["peak_bytes"] > 0 and one["flops"] > 0 for one in found["train"])


def test_a_mesh_that_does_not_fit(capsys):
    assert run(*TINY, "--mesh.data", "3", "--programs", "train") == 0
    assert "no plan: mesh.data x mesh.fsdp x mesh.tensor" in capsys.readouterr().out


def test_a_wrong_topology(capsys):
    assert run("--topology", "v5e-8") == 2
    assert "such as v5e:1x1, v5e:2x4" in capsys.readouterr().err


@needs_libtpu
@pytest.mark.parametrize(
    ("recipe", "least_params"), [("demo", 5e5), ("wmt14_en_de_base", 6e7), ("wmt14_en_de_big", 2e8)]
)
def test_recipes_for_eight_chips(recipe, least_params, capsys):
    # A scan compiles one layer instead of six: half the time.
    scan = () if recipe == "demo" else ("--model.layer-loop", "scan", "--model.dtype", "bfloat16")
    words = ("--config", f"configs/{recipe}.py", "--topology", "v5e:2x4", "--only-largest", "true")
    assert run(*words, *scan, "--json", "true") == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["hardware"]["devices"] == 8 and found["state_bytes"] > 12 * least_params
    (train,), (translate,) = found["train"], found["translate"]
    for one in (train, translate):
        assert not one["failure"] and one["compute_seconds"] > 0
        assert 0 < one["peak_bytes"] < found["hardware"]["memory"]
        assert one["tokens_per_second"] > 1000
        # The compiler cannot be faster than the hardware.
        assert one["flops"] < one["compute_seconds"] * one["peak_flops"]
    # The gradients, of two bytes each at least, are added up over the chips.
    assert train["sent"]["all-reduce"] > 2 * least_params
    # Data parallelism splits no parameters, so none are gathered.
    assert "all-gather" not in train["sent"]
    assert not translate["sent"]


@needs_libtpu
def test_too_large_and_too_small(capsys):
    """A batch beyond the memory, and fewer rows than chips, are shown with the reason."""
    words = (*TINY, "--programs", "train", "--topology")
    assert run(*words, "v5e:4x4", "--data.tokens-per-batch", "512") == 0
    text = capsys.readouterr().out
    assert "too few rows to be split over 16 devices" in text and "does not fit" in text
    assert run(*words, "v5e:1x1", "--data.tokens-per-batch", "100000000") == 0
    text = capsys.readouterr().out
    assert "does not fit" in text and "does not compile" in text


@needs_cuda
def test_a_gpu(capsys):
    words = ("--topology", "h100:2", "--only-largest", "true", "--json", "true")
    assert run(*TINY, "--model.dtype", "bfloat16", *words) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert not found["failure"]
    for one in (*found["train"], *found["translate"]):
        assert not one["failure"] and one["peak_bytes"] > 0 and one["flops"] > 0
    assert found["train"][0]["sent"]["all-reduce"] > 0
