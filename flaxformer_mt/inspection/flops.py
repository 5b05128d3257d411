"""Floating-point operations of a program, counted on its jaxpr; nothing is compiled.

XLA's own count (`cost_analysis`) counts every loop once; this one multiplies by a scan's length.

A product of matrices [m k] and [k n] counts 2 m n k. Other arithmetic counts one for each output,
a reduction one for each input. Moving, comparing and integer arithmetic count nothing. A
scatter-add (the gradient of an embedding) counts one.
"""

import math
from typing import cast

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, jaxprs_in_params

from flaxformer_mt.data.batching.batch import Batch, BatchShape
from flaxformer_mt.model.initialization import Params, param_shapes
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.training.step import make_loss

_PER_OUTPUT = {
    *("add", "add_any", "sub", "mul", "div", "neg", "abs", "sign", "max", "min", "rem"),
    *("square", "sqrt", "cbrt", "rsqrt", "pow", "integer_pow", "floor", "ceil", "round"),
    *("exp", "exp2", "expm1", "log", "log1p", "logistic", "tanh", "erf", "erfc", "erf_inv"),
    *("sin", "cos", "tan", "cumsum", "cumlogsumexp"),
}
_PER_INPUT = {"reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "argmax", "argmin"}
# cuDNN's attention: how many products of the size of Q K^T it computes.
_FUSED_ATTENTION = {"dot_product_attention_fwd_wrapper": 2, "dot_product_attention_bwd_wrapper": 5}


def training_flops(model: Transformer, shape: BatchShape, *, r_drop: float = 0.0) -> int:
    """Returns the operations of the forward and the backward pass for a batch of this shape.

    They include dropout, the second pass of R-Drop (if its weight is not 0) and what `model.remat`
    computes again, but not the optimiser's update. All parameters are trained.
    """
    sums_of = make_loss(model, label_smoothing=0.1, r_drop=r_drop)

    def loss(params: Params, batch: Batch) -> jax.Array:
        return sums_of(params, batch, jnp.arange(shape.rows), jax.random.key(0)).loss

    return jaxpr_flops(jax.make_jaxpr(jax.grad(loss))(param_shapes(model), batch_like(shape)))


def batch_like(shape: BatchShape) -> Batch:
    """Returns the shapes and types of a batch, without its contents."""
    source = jax.ShapeDtypeStruct((shape.rows, shape.source_length), jnp.int32)
    target = jax.ShapeDtypeStruct((shape.rows, shape.target_length), jnp.int32)
    return Batch(*[source, target] * 3)  # pyrefly: ignore (shapes, not arrays)


def jaxpr_flops(jaxpr: Jaxpr | ClosedJaxpr) -> int:
    """Returns the floating-point operations of one run of the program."""
    inner = jaxpr.jaxpr if isinstance(jaxpr, ClosedJaxpr) else jaxpr
    return sum(equation_flops(equation) for equation in inner.eqns)


def equation_flops(equation: JaxprEqn) -> int:
    """Returns the floating-point operations of one equation, with those of what it calls.

    A `scan` and a Pallas kernel count their body as often as it runs, a `shard_map` once for each
    device, a `cond` its most expensive branch. A `while` loop counts its body once, since its
    length is not known.
    """
    bodies = [jaxpr_flops(body) for body in jaxprs_in_params(equation.params)]
    if bodies:
        if equation.primitive.name == "cond":
            return max(bodies)
        return sum(bodies) * _repetitions(equation)
    name = equation.primitive.name
    if name in _FUSED_ATTENTION:
        (batch, length, heads, width), keys = (_array_type(x).shape for x in equation.invars[:2])
        return _FUSED_ATTENTION[name] * 2 * batch * heads * length * keys[1] * width
    output = _array_type(equation.outvars[0])
    if not jnp.issubdtype(output.dtype, jnp.floating):
        return 0
    if name == "dot_general":
        left = _array_type(equation.invars[0]).shape
        (contracted, _), _ = equation.params["dimension_numbers"]
        return 2 * output.size * math.prod(left[axis] for axis in contracted)
    if name in _PER_INPUT:
        return _array_type(equation.invars[0]).size
    return output.size if name in _PER_OUTPUT else 0


def _repetitions(equation: JaxprEqn) -> int:
    """Returns how often an equation runs its body."""
    if equation.primitive.name == "pallas_call":
        return math.prod(equation.params["grid_mapping"].grid)
    if equation.primitive.name == "shard_map":
        return equation.params["mesh"].size
    return equation.params.get("length", 1)


def _array_type(atom: Var | Literal) -> ShapedArray:
    """Returns the shape and type of an array of a program."""
    return cast(ShapedArray, atom.aval)
