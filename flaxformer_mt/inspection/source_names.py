"""Which line of our source asked for an array operation, and what the code calls its result."""

import ast
import functools
from pathlib import Path
from typing import NamedTuple

from jax.extend.core import JaxprEqn

PACKAGE = Path(__file__).parents[1]


class Line(NamedTuple):
    """A line of this package that a program passed through."""

    file: str
    function: str
    """Of a class with its class: "MultiHeadAttention.keys_values"; otherwise "mix"."""
    number: int

    def __str__(self) -> str:
        return f"{Path(self.file).name}:{self.number}"


def lines_of(equation: JaxprEqn) -> list[Line]:
    """The calls inside of this package that led to the operation, innermost first."""
    traceback = equation.source_info.traceback
    return [
        Line(frame.file_name, frame.function_name, frame.line_num)
        for frame in (traceback.frames if traceback else ())
        if frame.file_name.startswith(str(PACKAGE))
    ]


def assigned_name(line: Line) -> str:
    """`scores` for a line of `scores = compare(...)`; "" for one that assigns nothing."""
    statement = _statements(line.file).get(line.number)
    if isinstance(statement, ast.Assign):
        return ast.unparse(statement.targets[0]).strip("()")
    return ""


def called_name(line: Line) -> str:
    """`activation` for a line of `return self.activation(...)`; "" where nothing is called."""
    value = getattr(_statements(line.file).get(line.number), "value", None)
    return ast.unparse(value.func).split(".")[-1] if isinstance(value, ast.Call) else ""


@functools.cache
def _statements(file: str) -> dict[int, ast.stmt]:
    """The innermost statement on each line of a file."""
    tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    found: dict[int, ast.stmt] = {}
    for node in ast.walk(tree):  # breadth first: what is inside comes later, and overwrites
        if isinstance(node, ast.stmt):
            last = node.end_lineno or node.lineno
            found.update(dict.fromkeys(range(node.lineno, last + 1), node))
    return found
