"""The modules of a model in the order in which a batch passes through them.

Flax's own `nn.tabulate` compiles every module by itself to count its FLOPs, which is slow. Here one
trace gives all of it: `nn.intercept_methods` sees the shapes, and the name stack of the jaxpr gives
the module of each operation.
"""

import dataclasses
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import flax.linen as nn
import jax

from flaxformer_mt.data.batching.batch import BatchShape
from flaxformer_mt.inspection.flops import batch_like, equation_flops
from flaxformer_mt.model.initialization import param_shapes
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


def module_rows(model: Transformer, shape: BatchShape) -> list[ModuleRow]:
    """Returns every module that has parameters or computes something, each before its submodules.

    The model is traced without dropout, layer after layer; nothing is computed. A module that is
    called several times has one row, with the shapes of its last `__call__`.
    """
    config = dataclasses.replace(model.config, layer_loop="unrolled", remat="none")
    unrolled = model.clone(config=config)
    params = param_shapes(unrolled)
    calls: dict[Path, tuple[str, Shape, Shape] | None] = {}  # class, inputs, outputs

    def record(method: Any, args: Any, kwargs: Any, context: Any) -> Any:
        if context.method_name == "setup":
            return method(*args, **kwargs)
        path = context.module.path
        calls.setdefault(path, None)  # a module before those that it calls
        result = method(*args, **kwargs)
        if context.method_name == "__call__" or calls[path] is None:
            kind = type(context.module).__name__
            calls[path] = kind, _first_shape(args), _first_shape(result)
        return result

    with nn.intercept_methods(record):
        program = jax.make_jaxpr(lambda params, batch: unrolled.apply({"params": params}, *batch))(
            params, batch_like(shape)
        )
    flops: Counter[Path] = Counter()
    for equation in program.eqns:
        path = _module_path(str(equation.source_info.name_stack))
        for depth in range(len(path) + 1):
            flops[path[:depth]] += equation_flops(equation)
    first = {path: index for index, path in enumerate(calls)}
    in_order = sorted(
        calls, key=lambda path: [first.get(path[:i], 0) for i in range(len(path) + 1)]
    )
    rows = [
        ModuleRow("/".join(path), *call, _num_params(params, path), flops[path])
        for path in in_order
        if (call := calls[path])
    ]
    return [row for row in rows if row.params or row.flops]


def fold_layers(rows: Sequence[ModuleRow]) -> Iterator[tuple[ModuleRow, int]]:
    """Yields each row and the number of equal layers that it stands for: encoder_0 for all six."""
    layers = [list(part) for _, part in itertools.groupby(rows, lambda row: row.path.split("/")[0])]
    for _, equal in itertools.groupby(layers, _without_numbers):
        first, *others = equal
        for row in first:
            yield row, 1 + len(others)


def _without_numbers(layer: Sequence[ModuleRow]) -> list[ModuleRow]:
    return [row._replace(path=re.sub(r"^([a-z]+_)\d+", r"\1", row.path)) for row in layer]


def _first_shape(tree: Any) -> Shape:
    return next((x.shape for x in jax.tree.leaves(tree) if hasattr(x, "shape")), ())


def _module_path(name_stack: str) -> Path:
    """Returns ("encoder_0", "query") for "Transformer/encoder_0/query.keys_values"."""
    path: list[str] = []
    for scope in name_stack.split("/"):
        name = scope.split(".")[0]
        # The stack also has an einsum's letters, and a name twice if a method calls its own module.
        if re.fullmatch(r"\w+", name) and path[-1:] != [name]:
            path.append(name)
    return tuple(path[1:])


def _num_params(params: Any, path: Path) -> int:
    for name in path:
        params = params.get(name, {})
    return sum(x.size for x in jax.tree.leaves(params))


def params_by_part(params: Any) -> dict[str, int]:
    """Returns the numbers of parameters of "encoder", "decoder" and "embeddings".

    The output projection and its bias count as embeddings.
    """
    counts = {"embeddings": 0, "encoder": 0, "decoder": 0}
    for name in params:
        stack = re.match(r"encoder|decoder", name)
        counts[stack[0] if stack else "embeddings"] += _num_params(params, (name,))
    return counts
