"""The modules of a model in the order in which a batch passes through them.

Flax's own `nn.tabulate` compiles every module by itself to count its FLOPs: 40 seconds for the base
model. Here one trace gives all of it. `nn.intercept_methods` sees shapes, and the jaxpr's name
stack tells for each operation in which module it is.
"""

import dataclasses
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from flaxformer_mt.data.batching.batch import Batch, BatchShape
from flaxformer_mt.inspection.flops import equation_flops
from flaxformer_mt.model.initialization import init_params
from flaxformer_mt.model.transformer import Transformer

Shape = tuple[int, ...]
Path = tuple[str, ...]


class ModuleRow(NamedTuple):
    """One module of a model.

    Attributes:
      path: its name below the model, such as "encoder_0/self_attention/query"; "" is the model.
      kind: its class, such as "Linear".
      inputs: shape of its first argument.
      outputs: shape of its result.
      params: numbers in its parameters, those of its submodules included.
      flops: floating-point operations of all its calls, those of its submodules included.
    """

    path: str
    kind: str
    inputs: Shape
    outputs: Shape
    params: int
    flops: int


class _Call(NamedTuple):
    path: Path
    method: str
    kind: str
    inputs: Shape
    outputs: Shape


def module_rows(model: Transformer, shape: BatchShape) -> list[ModuleRow]:
    """Every module that has parameters or computes something: each before its submodules.

    The model is traced without dropout, layer after layer; nothing is computed. A module that is
    called several times has one row, with the shapes of its last `__call__`.
    """
    config = dataclasses.replace(model.config, layer_loop="unrolled", remat="none")
    unrolled = model.clone(config=config)
    params = jax.eval_shape(lambda: init_params(unrolled, jax.random.key(0)))
    calls: list[_Call | None] = []
    with nn.intercept_methods(_recorder(calls)):
        program = jax.make_jaxpr(lambda params, batch: unrolled.apply({"params": params}, *batch))(
            params, batch_like(shape)
        )
    flops: Counter[Path] = Counter()
    for equation in program.eqns:
        path = _module_path(str(equation.source_info.name_stack))
        for depth in range(len(path) + 1):
            flops[path[:depth]] += equation_flops(equation)
    found = [call for call in calls if call]
    first = {call.path: place for place, call in reversed(list(enumerate(found)))}
    in_order = sorted(
        first, key=lambda path: [first.get(path[:i], 0) for i in range(len(path) + 1)]
    )
    rows = [_row(path, found, params, flops) for path in in_order]
    return [row for row in rows if row.params or row.flops]


def batch_like(shape: BatchShape) -> Batch:
    """The shapes and types of a batch, without its contents."""
    source = jax.ShapeDtypeStruct((shape.rows, shape.source_length), jnp.int32)
    target = jax.ShapeDtypeStruct((shape.rows, shape.target_length), jnp.int32)
    return Batch(*[source, target] * 3)  # pyright: ignore[reportArgumentType] (shapes, not arrays)


def fold_layers(rows: Sequence[ModuleRow]) -> Iterator[tuple[ModuleRow, int]]:
    """Each row with the number of equal layers that it stands for: encoder_0 for six of them."""
    layers = [list(part) for _, part in itertools.groupby(rows, lambda row: row.path.split("/")[0])]
    for _, equal in itertools.groupby(layers, _without_numbers):
        first, *others = equal
        for row in first:
            yield row, 1 + len(others)


def _without_numbers(layer: Sequence[ModuleRow]) -> list[ModuleRow]:
    return [row._replace(path=re.sub(r"^([a-z]+_)\d+", r"\1", row.path)) for row in layer]


def _recorder(calls: list[_Call | None]) -> Any:
    """An interceptor that notes each call of a module, the outer one before the inner ones.

    It notes no call that returns its input as it is, such as dropout without a key.
    """

    def record(next_fun: Any, args: Any, kwargs: Any, context: Any) -> Any:
        if context.method_name == "setup":
            return next_fun(*args, **kwargs)
        place, module = len(calls), context.module
        calls.append(None)
        result = next_fun(*args, **kwargs)
        if not any(result is x for x in args):
            shapes = _first_shape(args), _first_shape(result)
            calls[place] = _Call(module.path, context.method_name, type(module).__name__, *shapes)
        return result

    return record


def _first_shape(tree: Any) -> Shape:
    return next((x.shape for x in jax.tree.leaves(tree) if hasattr(x, "shape")), ())


def _module_path(name_stack: str) -> Path:
    """("encoder_0", "self_attention") of "Transformer/encoder_0/self_attention.keys_values"."""
    path: list[str] = []
    for scope in name_stack.split("/"):
        name = scope.split(".")[0]
        # An einsum adds its letters to the stack; a method that calls its own module, its name.
        if re.fullmatch(r"\w+", name) and path[-1:] != [name]:
            path.append(name)
    return tuple(path[1:])


def _row(
    path: Path, calls: Sequence[_Call], params: Mapping[str, Any], flops: Mapping[Path, int]
) -> ModuleRow:
    found = [call for call in calls if call.path == path]
    call = next((call for call in reversed(found) if call.method == "__call__"), found[-1])
    tree: Any = params
    for name in path:
        tree = tree.get(name, {})
    count = sum(x.size for x in jax.tree.leaves(tree))
    return ModuleRow("/".join(path), call.kind, call.inputs, call.outputs, count, flops[path])
