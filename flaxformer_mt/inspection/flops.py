"""What a program computes, in floating-point operations, read off its jaxpr: nothing is compiled.

A matrix product of [m k] and [k n] counts 2 m n k; every other sum, product, root or exponential
one for each number that it makes; a reduction one for each number that it reads. Moving numbers
(transposing, gathering, selecting), comparing them and computing with integers count nothing.
"""

import math
from typing import cast

import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, jaxprs_in_params

_PER_OUTPUT = {
    *("add", "add_any", "sub", "mul", "div", "neg", "abs", "sign", "max", "min", "rem"),
    *("square", "sqrt", "cbrt", "rsqrt", "pow", "integer_pow", "floor", "ceil", "round"),
    *("exp", "exp2", "expm1", "log", "log1p", "logistic", "tanh", "erf", "erfc", "erf_inv"),
    *("sin", "cos", "tan", "cumsum", "cumlogsumexp"),
}
_PER_INPUT = {"reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "argmax", "argmin"}
_PER_UPDATE = {"scatter-add", "scatter_add"}


def array_type(atom: Var | Literal) -> ShapedArray:
    """Shape and type of an array of a program."""
    return cast(ShapedArray, atom.aval)


def jaxpr_flops(jaxpr: Jaxpr | ClosedJaxpr) -> int:
    """Floating-point operations of one run of the program."""
    inner = jaxpr.jaxpr if isinstance(jaxpr, ClosedJaxpr) else jaxpr
    return sum(equation_flops(equation) for equation in inner.eqns)


def equation_flops(equation: JaxprEqn) -> int:
    """Those of one line of a program, with all that it calls.

    A scan counts its body as often as it runs, a `cond` its costliest branch, a `while` loop
    (whose length no one knows beforehand) its body once.
    """
    bodies = [jaxpr_flops(body) for body in jaxprs_in_params(equation.params)]
    if bodies:
        if equation.primitive.name == "cond":
            return max(bodies)
        return sum(bodies) * equation.params.get("length", 1)
    name = equation.primitive.name
    output = array_type(equation.outvars[0])
    if not jnp.issubdtype(output.dtype, jnp.floating):
        return 0
    if name == "dot_general":
        left = array_type(equation.invars[0]).shape
        (contracted, _), _ = equation.params["dimension_numbers"]
        return 2 * output.size * math.prod(left[axis] for axis in contracted)
    if name in _PER_INPUT:
        return array_type(equation.invars[0]).size
    if name in _PER_UPDATE:
        return array_type(equation.invars[-1]).size
    return output.size if name in _PER_OUTPUT else 0
