"""The walk and the costs as text, in columns."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from flaxformer_mt.inspection.costs import Costs
from flaxformer_mt.inspection.letters import MEANINGS
from flaxformer_mt.inspection.walk import Step, Tensor

_HEADER = ("step", "reads -> makes", "in numbers", "parameters", "FLOPs", "code")
_ALIGN = "<<<>><"


def walk_table(steps: Sequence[Step]) -> str:
    """One line for each step, indented by depth. Of repeated layers the numbers are those of one.

    The last column says where in the package the step's costliest operation stands.
    """
    rows = [_HEADER, *_rows(steps, depth=0)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rows.insert(1, tuple("-" * width for width in widths))
    return "\n".join(_line(row, widths) for row in rows)


def axis_legend(sizes: Mapping[str, int]) -> str:
    """What the letters mean and how large they are here."""
    return "\n".join(
        f"  {letter}  {size:>6,}  {MEANINGS[letter]}" for letter, size in sizes.items()
    )


def cost_table(costs: Costs, *, forward: int, target_length: int) -> str:
    """Totals: parameters by part, operations in all and for a target token, memory.

    `forward` is the sum over the walk, in floating-point operations.
    """
    total = sum(costs.params.values())
    lines = [f"{'parameters':<28}{total:>14,}"]
    for part, count in costs.params.items():
        lines.append(f"{'  ' + part:<28}{count:>14,}{count / total:>9.1%}")
    lines += ["", f"{'FLOPs':<28}{'this example':>14}{'a target token':>18}"]
    for name, flops in (("forward", forward), ("forward and backward", costs.gradient)):
        each = short(flops / target_length)
        lines.append(f"{'  ' + name:<28}{short(flops):>14}{each:>18}")
    lines.append(f"{'  update, once a step':<28}{short(costs.update):>14}")
    lines += ["", "memory"]
    sizes = {"parameters": costs.param_bytes, "gradients": costs.param_bytes}
    for name, size in (sizes | {"optimiser state": costs.optimizer_bytes}).items():
        lines.append(f"{'  ' + name:<28}{short(size) + 'B':>14}")
    return "\n".join(lines)


def short(number: int | float) -> str:
    """Three digits and a unit: 41,984,000 is "42.0 M"; nothing is ""."""
    if not number:
        return ""
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            digits = f"{number / size:.{2 - int(math.log10(number / size))}f}"
            return f"{digits} {unit}"
    return f"{number:.0f}  "


def _rows(steps: Sequence[Step], *, depth: int) -> Iterator[tuple[str, ...]]:
    for step in steps:
        repeats = f"  x {step.repeats}" if step.repeats > 1 else ""
        yield (
            "  " * depth + step.name + repeats,
            _flow(step, lambda tensor: tensor.axes),
            _flow(step, lambda tensor: f"[{' '.join(map(str, tensor.shape))}]"),
            f"{step.params:,}" if step.params else "",
            short(step.flops),
            step.code,
        )
        yield from _rows(step.children, depth=depth + 1)


def _flow(step: Step, text: Callable[[Tensor], str]) -> str:
    return f"{', '.join(map(text, step.inputs))} -> {', '.join(map(text, step.outputs))}"


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = (
        f"{cell:{align}{width}}" for cell, align, width in zip(row, _ALIGN, widths, strict=True)
    )
    return "  ".join(cells).rstrip()
