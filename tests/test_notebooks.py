"""The notebooks run from top to bottom (with fewer training steps than a reader would take)."""

import re
from pathlib import Path

import nbformat
import pytest

from tools.notebooks import NOTEBOOKS, execute, num_pictures, printed

pytestmark = pytest.mark.slow

SMALL_MODEL = "--model.num-encoder-layers 1 --model.num-decoder-layers 1"
FEW_PAIRS = "--data.validation.pairs demo:validation:5 --data.test.pairs demo:test:5"
FASTER = {
    "NUM_STEPS = 400": "NUM_STEPS = 4",
    '"--training.warmup-steps", "70"': '"--training.warmup-steps", "1"',
    ', "--data.train.weights", "0.9", "0.7"': "",
    "NUM_STEPS = 500": "NUM_STEPS = 12",
    "NUM_STEPS = 600": "NUM_STEPS = 4",
    "ABLATION_STEPS = 200": "ABLATION_STEPS = 2",
    '"configs/demo.py", "--data.train.pairs", "demo:train"': '"configs/demo.py"',
    '"configs/demo.py"': (
        '"configs/demo.py", "--data.train.pairs", "demo:train:500", '
        '"--data.validation.pairs", "demo:validation:5", "--data.test.pairs", "demo:test:5", '
        '"--model.num-encoder-layers", "1", "--model.num-decoder-layers", "1"'
    ),
    # own_data
    "range(20_000)": "range(1_000)",
    "--data.tokenizer.vocab-size 1500": (
        "--data.tokenizer.vocab-size 400 --decoding.max-target-length 8"
    ),
    "--training.warmup-steps 60": "--training.warmup-steps 1 --decoding.beam-size 1",
    " --model.num-encoder-layers 2": " --model.num-encoder-layers 1",
    " --model.num-decoder-layers 2": " --model.num-decoder-layers 1",
    # tpu
    "--data.train.pairs demo:train:20000": f"--data.train.pairs demo:train:500 {FEW_PAIRS} "
    f"--data.max-source-length 64 --data.max-target-length 64 --decoding.max-target-length 8 "
    f"{SMALL_MODEL}",
    "--training.log-every 20": "--training.log-every 2",
    "--training.log-every 50": "--training.log-every 2",
    "bfloat16 {SIZE}": f"bfloat16 {SMALL_MODEL}",
    '"v5e:1x1", "v5e:2x4"': '"v5e:2x4"',
}


def run(name: str, directory: Path) -> tuple[str, int]:
    """Returns the text that the notebook prints, and the number of images."""
    code = [c for c in execute(name, directory, FASTER).cells if c.cell_type == "code"]
    return "".join(map(printed, code)), sum(map(num_pictures, code))


NO_MATTER = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")


@NO_MATTER
def test_quickstart(tmp_path):
    printed, num_images = run("quickstart", tmp_path)
    assert num_images == 2
    assert "step 4/4" in printed
    assert "resumed at step 4" in printed


@NO_MATTER
@pytest.mark.timeout(480)  # a whole notebook, with a training in it
def test_attention_is_all_you_need(tmp_path):
    printed, num_images = run("attention_is_all_you_need", tmp_path)
    assert num_images == 12
    assert "step 4/4" in printed
    assert "every row of the weights sums to [1.]" in printed
    assert "results in that order: True" in printed
    assert "equal to that of the package: True" in printed
    assert "logits = output times the transposed table: True" in printed
    assert "word by word and all at once agree: True" in printed
    assert len(re.findall(r"right digits in inference \d+%", printed)) == 5
    assert "positions 'none': turning the source round changes vectors by 0.00000" in printed
    changes = re.search(r"changed at each position by at most\n\[([^]]+)\]", printed)[1].split()
    assert [float(change) > 0 for change in changes] == [False] * 6 + [True] * 4
    table = re.findall(r"^(?:base|big|\([BC]\)).*? (\d+) +([\d.]+)$", printed, re.MULTILINE)
    assert len(table) == 11
    for paper, here in table:
        assert float(here) == pytest.approx(float(paper), rel=0.07)


@NO_MATTER
@pytest.mark.timeout(480)
def test_own_data(tmp_path):
    printed, num_images = run("own_data", tmp_path)
    assert num_images == 2
    for fault in ("one side is empty", "both sides are equal", "markup", "one side is much longer"):
        assert f"{fault}: 1 of 1,000 lines" in printed
    assert "996 different good pairs remain" in printed
    assert "stopped at step" in printed
    resumed = re.search(r"sample_run, resumed at step (\d+)", printed)
    assert resumed and 0 < int(resumed[1]) < 12
    assert "step 12/12" in printed
    assert "translator_int8.zip" in printed
    folder = tmp_path / "runs/my_translator"
    texts = [
        (folder / f"{part}.en").read_text().splitlines() for part in ("train", "valid", "test")
    ]
    assert sum(map(len, texts)) == len(set().union(*texts))
    assert len((folder / "test.translated.de").read_text().splitlines()) == len(texts[2])


@NO_MATTER
@pytest.mark.timeout(480)
def test_tpu(tmp_path):
    printed, num_images = run("tpu", tmp_path)
    assert num_images == 1
    assert "no TPU with 4 devices" in printed
    assert "4 x cpu (2 fsdp x 2 tensor)" in printed
    assert "2 x cpu (2 data)" in printed
    assert "| v5e:2x4 | train" in printed or "no libtpu here" in printed
    resumed = re.search(r"runs/tpu, resumed at step (\d+)", printed)
    assert resumed and 0 < int(resumed[1]) < 12
    assert "step 12/12" in printed
    assert len((tmp_path / "test.de").read_text().splitlines()) == 2


def sources(name: str, cell_type: str) -> list[str]:
    cells = nbformat.read(NOTEBOOKS[name], as_version=4).cells
    return [cell.source for cell in cells if cell.cell_type == cell_type]


@pytest.mark.parametrize("name", ["quickstart", "attention_is_all_you_need"])
def test_matplotlib_is_installed_where_it_is_missing(name):
    code = sources(name, "code")
    first_use = next(i for i, cell in enumerate(code) if "import matplotlib" in cell)
    before = "".join(code[: first_use + 1]).split("import matplotlib")[0]
    assert 'if importlib.util.find_spec("matplotlib") is None:' in before
    assert "%pip install --quiet matplotlib" in before


def test_the_paper_notebook_names_what_learners_look_for():
    markdown = text = "\n".join(sources("attention_is_all_you_need", "markdown"))
    text = " ".join(text.split())
    teacher_forcing = "teacher forcing", "start token BOS", "shifted right", "EOS", "`shift_right`"
    masks = "padding mask", "look-ahead mask", "causal mask"
    for term in (*teacher_forcing, *masks, "Training against inference", "label smoothing"):
        assert term.lower() in text.lower(), term
    sections = re.findall(r"^#+ ([\d.]+) ", markdown, re.MULTILINE)
    assert sections == sorted(sections, key=lambda number: [*map(int, number.split("."))])
    assert {"1", "2", "3", "3.1", "3.2", "3.3", "3.4", "3.5", "4", "5", "6", "7"} <= set(sections)
    assert any("show(shift_right)" in c for c in sources("attention_is_all_you_need", "code"))
