"""The notebooks run from top to bottom (with fewer training steps than a reader would take)."""

import os
import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
FASTER = {
    "NUM_STEPS = 400": "NUM_STEPS = 4",
    "NUM_STEPS = 600": "NUM_STEPS = 4",
    '"configs/demo.py"': (
        '"configs/demo.py", "--data.train.pairs", "demo:train:500", "--data.num-buckets", "1", '
        '"--data.validation.pairs", "demo:validation:5", "--data.test.pairs", "demo:test:5", '
        '"--model.num-encoder-layers", "1", "--model.num-decoder-layers", "1"'
    ),
}


def run(name: str, directory: Path) -> tuple[str, int]:
    """Returns the text that the notebook prints, and the number of images."""
    notebook = nbformat.read(ROOT / "colab" / name, as_version=4)
    for cell in notebook.cells:
        for slow, fast in FASTER.items():
            cell.source = cell.source.replace(slow, fast)
    resources = {"metadata": {"path": str(directory)}}
    NotebookClient(notebook, timeout=300, resources=resources).execute()
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    outputs = [output for cell in code for output in cell.outputs]
    images = [output for output in outputs if "image/png" in output.get("data", {})]
    return "".join(output.get("text", "") for output in outputs), len(images)


@pytest.fixture
def in_package(monkeypatch) -> None:
    monkeypatch.setitem(os.environ, "PYTHONPATH", str(ROOT))


NO_MATTER = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")


@NO_MATTER
def test_quickstart(tmp_path, in_package):
    printed, num_images = run("quickstart.ipynb", tmp_path)
    assert num_images == 2
    assert "step 4/4" in printed
    assert "resumed at step 4" in printed


@NO_MATTER
@pytest.mark.timeout(480)  # a whole notebook, with a training in it
def test_attention_is_all_you_need(tmp_path, in_package):
    printed, num_images = run("attention_is_all_you_need.ipynb", tmp_path)
    assert num_images == 10
    assert "step 4/4" in printed
    assert "every row of the weights sums to [1.]" in printed
    assert "results in that order: True" in printed
    assert "positions 'none': turning the source round changes vectors by 0.00000" in printed
    changes = re.search(r"changed at each position by at most\n\[([^]]+)\]", printed)[1].split()
    assert [float(change) > 0 for change in changes] == [False] * 6 + [True] * 4
    table = re.findall(r"^(?:base|big|\([BC]\)).*? (\d+) +([\d.]+)$", printed, re.MULTILINE)
    assert len(table) == 11
    for paper, here in table:
        assert float(here) == pytest.approx(float(paper), rel=0.07)


def sources(name: str, cell_type: str) -> list[str]:
    cells = nbformat.read(ROOT / "colab" / name, as_version=4).cells
    return [cell.source for cell in cells if cell.cell_type == cell_type]


@pytest.mark.parametrize("name", ["quickstart.ipynb", "attention_is_all_you_need.ipynb"])
def test_matplotlib_is_installed_where_it_is_missing(name):
    code = sources(name, "code")
    first_use = next(i for i, cell in enumerate(code) if "import matplotlib" in cell)
    before = "".join(code[: first_use + 1]).split("import matplotlib")[0]
    assert 'if importlib.util.find_spec("matplotlib") is None:' in before
    assert "%pip install --quiet matplotlib" in before


def test_the_paper_notebook_names_what_learners_look_for():
    text = "\n".join(sources("attention_is_all_you_need.ipynb", "markdown"))
    for term in ("teacher forcing", "start token BOS", "shifted\nright", "EOS", "`shift_right`"):
        assert term in text
    assert any("show(shift_right)" in c for c in sources("attention_is_all_you_need.ipynb", "code"))


def test_notebooks_are_kept_without_outputs():
    for path in (ROOT / "colab").glob("*.ipynb"):
        for cell in nbformat.read(path, as_version=4).cells:
            assert not cell.get("outputs"), f"clear the outputs of {path.name}"
