"""The walk of one training example through the model: what meets what, in order, in which shapes.

Nothing here knows the architecture. The loss of the real model is traced to a jaxpr, the list of
all its array operations in order; `places` says where in the model each of them stands, and what
neighbours at one place do together is a `Step`.
"""

import dataclasses
import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from flaxformer_mt.data.batching.batch import Batch, BatchShape
from flaxformer_mt.inspection.flops import equation_flops
from flaxformer_mt.inspection.letters import PROBE_SHAPE, axis_sizes, letters_of, probe_of
from flaxformer_mt.inspection.places import Place, places_of, step_name
from flaxformer_mt.inspection.program import Program, Shape
from flaxformer_mt.inspection.source_names import lines_of
from flaxformer_mt.model.initialization import init_params
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.training.step import batch_loss

_LAYOUT = {"broadcast_in_dim", "convert_element_type", "reshape", "squeeze", "transpose"}


@dataclasses.dataclass(frozen=True)
class Tensor:
    """What flows: `shape` in numbers, `axes` in letters, such as "[B S D]"."""

    shape: Shape
    axes: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Step:
    """A module, or a step between modules.

    Attributes:
      name: of the module ("self_attention"; with its method, if that is not `__call__`:
        "target_embedding.logits"), or what the code calls the result ("scores").
      inputs: what it reads, parameters apart; of a module without tokens, positions and masks,
        unless it reads nothing else.
      outputs: what others read of it.
      params: numbers in the parameters that it is the first to read.
      flops: floating-point operations, those of `children` among them.
      code: file and line, "attention.py:41".
      children: what it consists of, in order, if there are modules in it.
      repeats: how many equal ones follow one another; all other fields are of one.
    """

    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    params: int
    flops: int
    code: str
    children: tuple["Step", ...] = ()
    repeats: int = 1


def walk(model: Transformer, shape: BatchShape, *, label_smoothing: float = 0.0) -> list[Step]:
    """What a batch of this shape goes through up to the loss, without dropout; nothing is computed.

    Equal layers that follow one another are one `Step` with `repeats`.
    """
    probe = probe_of(model)
    letters = {size: letter for letter, size in axis_sizes(probe, PROBE_SHAPE).items()}
    probe_steps = _trace(probe, PROBE_SHAPE, label_smoothing=label_smoothing)
    return _with_axes(_trace(model, shape, label_smoothing=label_smoothing), probe_steps, letters)


def _trace(model: Transformer, shape: BatchShape, *, label_smoothing: float) -> list[Step]:
    """The steps, their axes still without letters."""
    # One after another, whatever the config says of loops: the same sums, told layer by layer.
    config = dataclasses.replace(model.config, layer_loop="unrolled", remat="none")
    unrolled = model.clone(config=config)
    params = jax.eval_shape(lambda: init_params(unrolled, jax.random.key(0)))

    def loss(params: Any, batch: Batch) -> jax.Array:
        return batch_loss(
            unrolled, params, batch, label_smoothing=label_smoothing, dropout_key=None
        )[0]

    traced = jax.make_jaxpr(loss)(params, batch_like(shape))
    program = Program(traced, len(jax.tree.leaves(params)))
    places = [places_of(equation, type(model).__name__) for equation in program.equations]
    return fold(_steps(program, places, 0, len(places), depth=0))


def _with_axes(
    steps: Sequence[Step], probes: Sequence[Step], letters: Mapping[int, str]
) -> list[Step]:
    """Each step with the letters that the step at its place in the probe tells."""

    def named(tensors: Sequence[Tensor], probed: Sequence[Tensor]) -> tuple[Tensor, ...]:
        return tuple(
            Tensor(one.shape, letters_of(one.shape, other.shape, letters))
            for one, other in zip(tensors, probed, strict=True)
        )

    return [
        dataclasses.replace(
            step,
            inputs=named(step.inputs, probe.inputs),
            outputs=named(step.outputs, probe.outputs),
            children=tuple(_with_axes(step.children, probe.children, letters)),
        )
        for step, probe in zip(steps, probes, strict=True)
    ]


def batch_like(shape: BatchShape) -> Batch:
    """The shapes and types of a batch, without its contents."""
    source = jax.ShapeDtypeStruct((shape.rows, shape.source_length), jnp.int32)
    target = jax.ShapeDtypeStruct((shape.rows, shape.target_length), jnp.int32)
    return Batch(*[source, target] * 3)  # pyright: ignore[reportArgumentType] (shapes, not arrays)


def fold(steps: Sequence[Step]) -> list[Step]:
    """Without repetitions: encoder_0, ..., encoder_5, if equal, become encoder_0 six times."""
    folded: list[Step] = []
    for step in steps:
        last = folded[-1] if folded else None
        if last and _stem(last.name) == _stem(step.name) and _same(last, step):
            folded[-1] = dataclasses.replace(last, repeats=last.repeats + 1)
        else:
            folded.append(step)
    return folded


def _same(one: Step, other: Step) -> bool:
    return dataclasses.replace(one, name="", repeats=1) == dataclasses.replace(other, name="")


def _stem(name: str) -> str:
    return re.sub(r"_\d+$", "", name)


def _steps(
    program: Program, places: Sequence[Sequence[Place]], start: int, stop: int, *, depth: int
) -> list[Step]:
    """The steps at one depth of the tree among the operations start..stop."""
    steps = []
    for (name, is_module), run in itertools.groupby(
        range(start, stop), key=lambda index: places[index][depth][:2]
    ):
        indices = list(run)
        begin, end = indices[0], indices[-1] + 1
        equations = program.equations[begin:end]
        if is_module:
            children = _steps_within(program, places, begin, end, depth=depth + 1)
            methods = {places[index][depth].method for index in indices}
            method = methods.pop() if len(methods) == 1 else ""
            full_name = f"{name}.{method}" if method else name
            steps.append(_step(program, full_name, begin, end, children, is_module=True))
        elif any(equation.primitive.name not in _LAYOUT for equation in equations):
            steps.append(_step(program, step_name(name, equations), begin, end))
    return steps


def _steps_within(
    program: Program, places: Sequence[Sequence[Place]], start: int, stop: int, *, depth: int
) -> list[Step]:
    """What a module consists of; nothing for one without modules in it, such as a linear map."""
    has_modules = any(len(places[index]) > depth + 1 for index in range(start, stop))
    return _steps(program, places, start, stop, depth=depth) if has_modules else []


def _step(
    program: Program,
    name: str,
    start: int,
    stop: int,
    children: Sequence[Step] = (),
    *,
    is_module: bool = False,
) -> Step:
    """The operations start..stop as one step."""
    equations = program.equations[start:stop]
    lines = lines_of(max(equations, key=equation_flops))
    return Step(
        name=name,
        inputs=tuple(map(Tensor, program.inputs(start, stop, numbers_only=is_module))),
        outputs=tuple(map(Tensor, program.outputs(start, stop))),
        params=program.num_params(start, stop),
        flops=sum(map(equation_flops, equations)),
        code="" if children or not lines else str(lines[0]),
        children=tuple(children),
    )
