"""What `tools.notebooks` stores and compares. `tests/test_notebooks.py` runs the notebooks."""

import sys
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from tools.notebooks import VARIES, clean, differences, is_log, same_text


def notebook(text: str, *, pictures: int = 0, varies: bool = False):
    cell = new_code_cell("pass", id="cell")
    cell.outputs = [new_output("stream", name="stdout", text=text)]
    cell.outputs += [new_output("display_data", {"image/png": "aGk="})] * pictures
    cell.metadata["tags"] = [VARIES] if varies else []
    return new_notebook(cells=[cell])


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("loss 1.00, 3 steps", "loss 1.01, 3 steps", True),
        ("loss 1.00, 3 steps", "loss 1.05, 3 steps", False),
        ("loss 1.00, 3 steps", "loss 1.00, 4 steps", False),
        ("error 1e-16", "error 3e-15", True),
        ("-1.50  0.25", "-1.50 0.25", True),
        ("a word", "another word", False),
        ("1.5 2.5", "1.5", False),
    ],
)
def test_numbers_with_a_fraction_may_differ_a_little(one, other, same):
    assert same_text(one, other) == same


def test_a_cell_that_varies_may_print_anything_but_keeps_its_pictures():
    assert list(differences(notebook("a"), notebook("b")))
    assert not list(differences(notebook("a", varies=True), notebook("b")))
    assert list(differences(notebook("a", varies=True), notebook("b", pictures=1)))


def test_no_path_and_no_log_message_is_stored(tmp_path: Path):
    text = f"{sys.executable} -m x\nWARNING:jax: noise\nsaved {tmp_path}/runs/a\n"
    output = clean(new_output("stream", name="stdout", text=text), tmp_path)
    assert output.text == "python -m x\nsaved runs/a\n"
    assert is_log(new_output("stream", name="stderr", text="noise"))
    assert not is_log(output)
