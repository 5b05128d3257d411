"""The modules of a model as text, in columns."""

from collections.abc import Sequence

from flaxformer_mt.inspection.modules import ModuleRow, Shape, fold_layers

_HEADER = ("module", "class", "input -> output", "parameters", "FLOPs")
_ALIGN = "<<<>>"
_UNITS = "kMGTPE"


def module_table(rows: Sequence[ModuleRow]) -> str:
    """Returns the text of a table with a line for each module, indented by depth.

    Equal layers share a line such as "encoder_0 x 6"; its numbers are those of one layer.
    """
    cells = [_HEADER, *(_cells(row, repeats) for row, repeats in fold_layers(rows))]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    cells.insert(1, tuple("-" * width for width in widths))
    return "\n".join(
        "  ".join(map("{:{}{}}".format, line, _ALIGN, widths)).rstrip() for line in cells
    )


def short(number: int | float) -> str:
    """Returns three digits and a unit: 41,984,000 is "42.0 M"; 0 is ""."""
    if not number:
        return ""
    if number < 999.5:
        return f"{number:.0f}"
    digits, exponent = f"{number:.2e}".split("e")  # rounded to three digits
    power = min(int(exponent) // 3, len(_UNITS))
    shift = int(exponent) - 3 * power
    return f"{float(digits) * 10**shift:.{max(2 - shift, 0)}f} {_UNITS[power - 1]}"


def _cells(row: ModuleRow, repeats: int) -> tuple[str, ...]:
    depth = row.path.count("/") + 1 if row.path else 0
    name = row.path.split("/")[-1] or "model"
    return (
        "  " * depth + name + (f" x {repeats}" if repeats > 1 and depth == 1 else ""),
        row.kind,
        f"{_text(row.inputs)} -> {_text(row.outputs)}",
        f"{row.params:,}" if row.params else "",
        short(row.flops),
    )


def _text(shape: Shape) -> str:
    return f"[{' '.join(map(str, shape))}]"
