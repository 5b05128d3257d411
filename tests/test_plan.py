"""`python -m flaxformer_mt.plan`: for the devices here, and for TPU slices that are not here."""

import importlib.util
import json

import pytest

from flaxformer_mt import plan

needs_libtpu = pytest.mark.skipif(
    importlib.util.find_spec("libtpu") is None,
    reason="libtpu is not installed: pip install -e '.[tpu]' compiles for TPUs without one",
)
TINY = (
    *("--model.d-model", "16", "--model.d-ff", "32", "--model.num-heads", "2"),
    *("--model.num-encoder-layers", "1", "--model.num-decoder-layers", "1"),
    *("--data.tokenizer.vocab-size", "100", "--data.num-buckets", "2"),
)


def run(*words):
    return plan.main(["--assume-lengths", "true", *words])


def test_the_devices_here(capsys, tmp_path):
    table = tmp_path / "table.md"
    assert run(*TINY, "--markdown", str(table)) == 0
    text = capsys.readouterr().out
    assert "ESTIMATES OF THE COMPILER, NOT MEASUREMENTS" in text
    assert "ASSUMED (--assume-lengths)" in text
    for program in ("train 32 x (64 -> 64)", "evaluate 32 x (64 -> 64)", "translate 64 x 64"):
        assert program in text
    assert "do not tell their memory" in text
    assert (
        "| local" not in table.read_text() and "python -m flaxformer_mt.plan" in table.read_text()
    )


def test_json_with_a_memory_limit(capsys):
    assert run(*TINY, "--json", "true", "--mesh.memory-limit", "1GiB", "--programs", "train") == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert "NOT MEASUREMENTS" in found["notice"] and not found["failure"]
    assert found["tokens_per_device"] > 0
    assert all(
        one["estimate"]["peak"] > 0 and one["estimate"]["flops"] > 0 for one in found["train"]
    )


def test_what_cannot_be_divided_is_shown(capsys):
    assert run(*TINY, "--mesh.data", "3", "--programs", "train") == 0
    assert "NO PLAN" in capsys.readouterr().out


def test_a_wrong_slice(capsys):
    assert run("--topology", "v5e-8") == 2
    assert "such as v5e:1x1, v5e:2x4" in capsys.readouterr().err


@needs_libtpu
@pytest.mark.parametrize(
    ("recipe", "least_params"), [("demo", 5e5), ("wmt14_en_de_base", 6e7), ("wmt14_en_de_big", 2e8)]
)
def test_recipes_for_eight_chips(recipe, least_params, capsys):
    # One layer compiled in place of six: half the time.
    scan = () if recipe == "demo" else ("--model.layer-loop", "scan", "--model.dtype", "bfloat16")
    words = ("--config", f"configs/{recipe}.py", "--topology", "v5e:2x4", "--only-largest", "true")
    assert run(*words, *scan, "--json", "true") == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["devices"] == 8 and found["state_bytes"] > 12 * least_params
    for one in (*found["train"], *found["translate"]):
        estimate = one["estimate"]
        assert not estimate["failure"] and estimate["timed"] == "compiler"
        assert 0 < estimate["peak"] < found["chip"]["memory"]
        assert one["tokens_per_second"] > 1000
    (train,) = found["train"]
    kinds = {one["kind"]: one for one in train["estimate"]["collectives"]}
    # The gradients: at least two bytes each (bfloat16) are added up over the chips.
    assert kinds["all-reduce"]["bytes"] > 2 * least_params
    # Data parallelism splits no parameters: none are gathered.
    assert "all-gather" not in kinds
    assert not found["evaluate"][0]["failure"]


@needs_libtpu
def test_too_large_and_too_small(capsys):
    """A batch beyond the memory, and rows too few for the chips: shown, with the reason."""
    words = (*TINY, "--topology", "v5e:4x4", "--programs", "train")
    assert run(*words, "--data.tokens-per-batch", "512") == 0
    text = capsys.readouterr().out
    assert "too few rows to be split over 16 devices" in text and "FITS NOT" in text
    assert run(*words[:-3], "v5e:1x1", *words[-2:], "--tokens-per-chip", "100000000") == 0
    text = capsys.readouterr().out
    assert "FITS NOT" in text and "memory" in text
