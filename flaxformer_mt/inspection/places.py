"""Where in the model an array operation stands: the modules around it, and the step it is part of.

Linen notes the modules in the operation's scope: "Transformer/encoder_0/self_attention/query". A
step is what lies between modules, a statement of the module's code, and is called what the code
calls its result.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from jax.extend.core import JaxprEqn

from flaxformer_mt.inspection.flops import equation_flops
from flaxformer_mt.inspection.source_names import Line, assigned_name, called_name, lines_of

_OPERATORS = {"add": "sum", "mul": "product"}


class Place(NamedTuple):
    """One level of the way to an operation: a module, or at the end a step."""

    name: str
    is_module: bool
    method: str = ""
    """Of the module; "" is `__call__`."""


def places_of(equation: JaxprEqn, root: str) -> list[Place]:
    """The way from the root module inwards; what stands outside of it is the loss."""
    modules: list[Place] = []
    for scope in str(equation.source_info.name_stack).split("/"):
        name, _, method = scope.partition(".")
        if not re.fullmatch(r"\w+", name):  # the letters of an einsum
            continue
        if modules and modules[-1].name == name:  # a module calls a method of its own
            modules.pop()
        modules.append(Place(name, True, method))
    if not modules:
        return [Place("loss", False)]
    outer = modules[1:] if modules[0].name == root else modules
    return [*outer, Place(_statement(equation), False)]


def step_name(name: str, equations: Sequence[JaxprEqn]) -> str:
    """The name of a step for people: of a `return`, what it calls or computes."""
    if not name.startswith("return"):
        return name
    costly = [e.primitive.name for e in equations if equation_flops(e)]
    if len(costly) == 1 and costly[0] in _OPERATORS:
        return _OPERATORS[costly[0]]
    line = _line_of_module(lines_of(equations[0]))[0]
    called = called_name(line)
    return called if called[:1].isalpha() else line.function.split(".")[-1].strip("_")


def _statement(equation: JaxprEqn) -> str:
    """What the module's code calls the result: the same for all operations of a statement."""
    line, called = _line_of_module(lines_of(equation))
    name = assigned_name(line)
    if not name:
        return f"return {line}"
    # `x = self.embed(shift_right(...))`: x says little, the function that was called says more.
    return called if called and len(name) == 1 else name


def _line_of_module(lines: Sequence[Line]) -> tuple[Line, str]:
    """The line of the innermost method, and the function that it calls there, if any."""
    depth = next(index for index, line in enumerate(lines) if "." in line.function)
    return lines[depth], lines[depth - 1].function if depth else ""
