"""`python -m flaxformer_mt.plan`: what it prints, and what it refuses."""

import importlib.util

import pytest

from flaxformer_mt import plan

pytestmark = [pytest.mark.slow, pytest.mark.default_compiler]

needs_libtpu = pytest.mark.skipif(
    importlib.util.find_spec("libtpu") is None,
    reason="libtpu is not installed: pip install -e '.[tpu]' compiles for TPUs without one",
)
TINY = (
    *("--model.d-model", "16", "--model.d-ff", "32", "--model.num-heads", "2"),
    *("--model.num-encoder-layers", "1", "--model.num-decoder-layers", "1"),
    *("--data.tokenizer.vocab-size", "100", "--data.batching", "bucket", "--data.num-buckets", "2"),
    *("--data.max-source-length", "32", "--data.max-target-length", "32"),
    *("--data.tokens-per-batch", "1024"),
)


def run(*words):
    return plan.main(list(words))


def test_the_local_devices(capsys):
    """The table has a line for each batch shape."""
    assert run(*TINY) == 0
    text = capsys.readouterr().out
    assert "Estimates of the compiler, not measurements" in text
    assert "Batch shapes: ASSUMED" in text and "a vocabulary of 100" in text
    programs = [line.split(" | ")[1] for line in text.splitlines() if line.startswith("| 8 x cpu")]
    assert programs[-1] == "train 32 x (32 -> 32)" and len(programs) == 2
    assert "the memory of a device is not known" in text


def test_a_memory_limit(capsys):
    words = ("--mesh.memory-limit", "1GiB", "--only-largest", "true")
    assert run(*TINY, *words) == 0
    text = capsys.readouterr().out
    assert "tokens a device; peak memory of a device by the compiler's estimate" in text
    assert "1 x 32 rows" in text


def test_a_mesh_that_does_not_fit(capsys):
    assert run(*TINY, "--mesh.data", "3") == 1
    found = capsys.readouterr()
    assert "no plan: mesh.data x mesh.fsdp x mesh.tensor" in found.out
    assert found.err.endswith("error: the recipe does not fit 8 x cpu; the lines above say why\n")


def test_a_wrong_topology(capsys):
    assert run("--topology", "v5e-8") == 2
    assert "such as v5e:1x1, v5e:2x4" in capsys.readouterr().err


def test_an_option_that_was_removed(capsys):
    assert run("--read-data", "true") == 2
    assert "read_data was removed" in capsys.readouterr().err


@needs_libtpu
def test_too_large_and_too_small(capsys):
    """A batch beyond the memory, and fewer rows than chips, are shown, each with its reason."""
    words = (*TINY, "--only-largest", "true", "--topology")
    assert run(*words, "v5e:4x4", "--data.tokens-per-batch", "256") == 1
    text = capsys.readouterr().out
    assert "too few rows to be split over 16 devices" in text and "fit" not in text
    assert run(*words, "v5e:1x1", "--data.tokens-per-batch", "100000000") == 1
    text = capsys.readouterr().out
    assert "does not fit" in text and "does not compile" in text
