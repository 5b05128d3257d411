"""Runs the notebooks of colab/, stores their outputs, and compares these with the stored ones.

    python -m tools.notebooks [--only NAME]

Text is compared, numbers with a fraction to 2 %. The outputs of a cell with the tag
`nbval-ignore-output` (the name is that of the tool nbval) differ from run to run, because they
contain times or come from a trained model: only the number of its pictures is compared. The
pictures themselves and the listings of source code are not compared.

The exit code is 1 if anything differs. The new outputs are stored in any case: `git diff` shows
them.
"""

import argparse
import base64
import io
import math
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode
from PIL import Image

ROOT = Path(__file__).parents[1]
NOTEBOOKS = {path.stem: path for path in sorted((ROOT / "colab").glob("*.ipynb"))}
VARIES = "nbval-ignore-output"
LOG = re.compile(
    r"WARNING:|[EWI]\d{4} |\*{20}|\[Compiling module|compiling a program for a new"
)  # starts a message of JAX or XLA, or ours that names a folder of the user
NUM_COLORS = 128
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")


def main() -> int:
    """Runs the command; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=NOTEBOOKS, help="run this notebook only")
    only = parser.parse_args().only
    found = False
    for name in [only] if only else NOTEBOOKS:
        stored: Any = nbformat.read(NOTEBOOKS[name], as_version=4)
        print(f"{name}: running", flush=True)
        with tempfile.TemporaryDirectory() as directory:
            new = execute(name, Path(directory))
        nbformat.write(new, NOTEBOOKS[name])
        for difference in differences(stored, new):
            found = True
            print(f"{name}: {difference}", flush=True)
    return int(found)


def execute(
    name: str, directory: Path, changes: Mapping[str, str] | None = None, timeout: float = 3600
) -> NotebookNode:
    """Returns a notebook with the outputs of a run from top to bottom.

    Args:
      name: of the notebook, without suffix.
      directory: the current directory of the run.
      changes: texts of the code to replace, with their replacements.
      timeout: seconds for one cell.
    """
    notebook: Any = nbformat.read(NOTEBOOKS[name], as_version=4)
    metadata = dict(notebook.metadata)
    for cell in notebook.cells:
        for old, new in (changes or {}).items():
            cell.source = cell.source.replace(old, new)
    resources = {"metadata": {"path": str(directory)}}
    client = NotebookClient(
        notebook, timeout=timeout, resources=resources, record_timing=False, coalesce_streams=True
    )
    platform = os.environ.get("JAX_PLATFORMS", "cpu")
    with mock.patch.dict(os.environ, {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": platform}):
        client.execute()
    notebook.metadata = NotebookNode(metadata)  # the run adds the version of Python
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [
                clean(output, directory) for output in cell.outputs if not is_log(output)
            ]
    return notebook


def is_log(output: NotebookNode) -> bool:
    """Returns whether an output holds the log messages of a cell."""
    return output.get("name") == "stderr"


def clean(output: NotebookNode, directory: Path) -> NotebookNode:
    """Returns an output without paths of this machine and log messages, with a small picture."""
    if "text" in output:
        lines = output.text.splitlines(keepends=True)
        text = "".join(line for line in lines if not LOG.match(line))
        for path, name in {sys.executable: "python", f"{directory}/": "", f"{ROOT}/": ""}.items():
            text = text.replace(path, name)
        output.text = text
    if "image/png" in output.get("data", {}):
        output.data["image/png"] = compress(output.data["image/png"])
    return output


def compress(png: str) -> str:
    """Returns a picture with few colours, which takes a third of the bytes."""
    picture = Image.open(io.BytesIO(base64.b64decode(png))).convert("RGB").quantize(NUM_COLORS)
    buffer = io.BytesIO()
    picture.save(buffer, "png", optimize=True)
    return base64.b64encode(buffer.getvalue()).decode()


def differences(stored: NotebookNode, new: NotebookNode) -> Iterator[str]:
    """Yields what differs in the outputs of two runs of a notebook, by cell."""
    for old_cell, new_cell in zip(stored.cells, new.cells, strict=True):
        if old_cell.cell_type != "code":
            continue
        counts = [num_pictures(cell) for cell in (old_cell, new_cell)]
        if counts[0] != counts[1]:
            yield f"cell {old_cell.id} has {counts[1]} pictures, stored are {counts[0]}"
        if VARIES in old_cell.metadata.get("tags", ()):
            continue
        old, new_text = printed(old_cell), printed(new_cell)
        if not same_text(old, new_text):
            yield f"cell {old_cell.id} prints\n{new_text}\nStored is\n{old}"


def same_text(one: str, other: str) -> bool:
    """Returns whether two texts are equal, if numbers with a fraction may differ by 2 %."""
    if NUMBER.sub("#", one).split() != NUMBER.sub("#", other).split():
        return False
    pairs = zip(NUMBER.findall(one), NUMBER.findall(other), strict=True)
    return all(
        a == b
        if a.lstrip("-").isdigit()
        else math.isclose(float(a), float(b), rel_tol=0.02, abs_tol=1e-3)
        for a, b in pairs
    )


def printed(cell: NotebookNode) -> str:
    """Returns the text that a cell printed."""
    return "".join(output.get("text", "") for output in cell.outputs)


def num_pictures(cell: NotebookNode) -> int:
    """Returns how many pictures a cell shows."""
    return sum("image/png" in output.get("data", {}) for output in cell.outputs)


if __name__ == "__main__":
    sys.exit(main())
