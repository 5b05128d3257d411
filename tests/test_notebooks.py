"""The notebooks run from top to bottom (with fewer training steps than a reader would take)."""

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[1]
FASTER = {
    "NUM_STEPS = 400": "NUM_STEPS = 4",
    '"configs/demo.py"': (
        '"configs/demo.py", "--data.train.pairs", "grammar:train:500", "--data.num-buckets", "1", '
        '"--data.validation.pairs", "grammar:validation:5", "--data.test.pairs", "grammar:test:5", '
        '"--model.num-encoder-layers", "1", "--model.num-decoder-layers", "1", '
        '"--training.log-every", "2"'
    ),
}


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
def test_quickstart(tmp_path, monkeypatch):
    monkeypatch.setitem(os.environ, "PYTHONPATH", str(ROOT))
    notebook = nbformat.read(ROOT / "colab" / "quickstart.ipynb", as_version=4)
    for cell in notebook.cells:
        for slow, fast in FASTER.items():
            cell.source = cell.source.replace(slow, fast)
    NotebookClient(notebook, timeout=200, resources={"metadata": {"path": str(tmp_path)}}).execute()
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    images = [
        output for cell in code for output in cell.outputs if "image/png" in output.get("data", {})
    ]
    assert len(images) == 2
    printed = "".join(output.get("text", "") for cell in code for output in cell.outputs)
    assert "step 4/4" in printed
    assert "resumed at step 4" in printed


def test_notebooks_are_kept_without_outputs():
    for path in (ROOT / "colab").glob("*.ipynb"):
        for cell in nbformat.read(path, as_version=4).cells:
            assert not cell.get("outputs"), f"clear the outputs of {path.name}"
