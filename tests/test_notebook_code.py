"""The notebooks as they are stored: their outputs, and their calls of the package.

`test_notebooks.py` runs the notebooks, which takes minutes; this takes seconds.
"""

import ast
import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "colab").glob("*.ipynb"))


def code_of(path: Path) -> ast.Module:
    """Returns the code of a notebook, without the lines for IPython."""
    cells = nbformat.read(path, as_version=4).cells
    code = "\n".join(cell.source for cell in cells if cell.cell_type == "code")
    lines = ["" if line.startswith(("%", "!")) else line for line in code.split("\n")]
    return ast.parse("\n".join(line.replace("    %pip", "    pass  # %pip") for line in lines))


def imported(code: ast.Module) -> dict[str, Any]:
    """Returns the objects of the package that the code imports, by name."""
    return {
        name.asname or name.name: getattr(importlib.import_module(node.module), name.name)
        for node in ast.walk(code)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("flaxformer_mt")
        for name in node.names
    }


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_imports_exist_and_calls_fit(path: Path) -> None:
    code = code_of(path)
    objects = imported(code)
    assert objects
    for node in ast.walk(code):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            called = objects.get(node.func.id)
            if called is None or any(isinstance(arg, ast.Starred) for arg in node.args):
                continue
            keywords = {keyword.arg: None for keyword in node.keywords if keyword.arg}
            inspect.signature(called).bind_partial(*node.args, **keywords)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_stored_and_fit_for_readers(path: Path) -> None:
    cells = [c for c in nbformat.read(path, as_version=4).cells if c.cell_type == "code"]
    regenerate = f"run `make notebooks ONLY={path.stem}`"
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1)), regenerate
    outputs = [output for cell in cells for output in cell.outputs]
    assert any("image/png" in output.get("data", {}) for output in outputs), regenerate
    assert all(output.output_type != "error" for output in outputs)
    text = "".join(output.get("text", "") for output in outputs)
    assert not re.search(r"/root|/home|/tmp|/work|warning|Traceback", text, re.IGNORECASE)
    assert path.stat().st_size < 1_000_000
