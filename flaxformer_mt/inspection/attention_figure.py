"""Attention drawn: one head, or the heads of all layers side by side."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from flaxformer_mt.inspection.canvas import (
    FAINT,
    INK,
    draw_cells,
    draw_scale,
    label_tokens,
    new_figure,
)
from flaxformer_mt.inspection.capture import KINDS, AttentionMaps, Kind, LabelledWeights

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.image import AxesImage

_TITLES = {
    "encoder": "Encoder self-attention: from each source token to all source tokens",
    "decoder": "Decoder self-attention: from each token as it is written to those read so far",
    "source": "Source attention: from each token as it is written to the source",
}
_AXES = {
    "encoder": ("looks", "at"),
    "decoder": ("to write", "looks at"),
    "source": ("to write", "looks at"),
}
_COLORS = "Blues"
_CELL = 0.17  # inches, of one token in a drawing of many heads
_WIDEST = 30.0  # inches, of a drawing


def draw_attention(
    maps: AttentionMaps,
    kind: Kind | Literal["all"] = "source",
    *,
    layer: int | None = None,
    head: int | None = None,
) -> "Figure":
    """A table of weights, tokens along its edges, for each head and layer (both count from 0).

    Rows look, columns are looked at, and each row sums to 1. Without `layer` or `head`: all of
    them, a row of tables a layer and a column a head. With both: one table with its numbers.

    Raises ValueError for a layer or head that there is not, and where Matplotlib is missing.
    """
    kinds = KINDS if kind == "all" else (kind,)
    parts = [_choose(name, maps.labelled(name), layer, head) for name in kinds]
    cell = _cell_size(parts)
    sizes = [_size(part, cell) for part in parts]
    heights = [height for _, height in sizes]
    figure = new_figure(max(width for width, _ in sizes), sum(heights))
    places = figure.subfigures(len(parts), 1, squeeze=False, height_ratios=heights)[:, 0]
    for place, part in zip(places, parts, strict=True):
        _draw_part(place, part, cell)
    return figure


class _Part(NamedTuple):
    """One kind of attention, and which of its layers and heads to draw."""

    kind: Kind
    labelled: LabelledWeights
    layers: list[int]
    heads: list[int]


def _choose(kind: Kind, labelled: LabelledWeights, layer: int | None, head: int | None) -> _Part:
    chosen = []
    counts = labelled.weights.shape[:2]
    for what, wanted, count in zip(("layer", "head"), (layer, head), counts, strict=True):
        if wanted is not None and not 0 <= wanted < count:
            raise ValueError(
                f"there is no {what} {wanted} of {kind} attention: it has 0 to {count - 1}"
            )
        chosen.append(list(range(count)) if wanted is None else [wanted])
    return _Part(kind, labelled, *chosen)


def _cell_size(parts: Sequence[_Part]) -> float:
    """Inches of a token: larger where there is one table, smaller where there are very many."""
    one = all(len(part.layers) == len(part.heads) == 1 for part in parts)
    columns = max(len(part.heads) * len(part.labelled.keys) for part in parts)
    return min(0.34 if one else _CELL, _WIDEST / columns)


def _size(part: _Part, cell: float) -> tuple[float, float]:
    """Width and height in inches of the drawing of one kind of attention."""
    of_letter = min(0.33 * cell, 0.07)
    queries, keys = part.labelled.queries, part.labelled.keys
    width = len(part.heads) * (cell * len(keys) + 0.12) + of_letter * max(map(len, queries))
    height = len(part.layers) * (cell * len(queries) + 0.3) + of_letter * max(map(len, keys))
    return max(width + 1.0, 5.0), height + 0.7


def _draw_part(place: "SubFigure", part: _Part, cell: float) -> None:
    """A row of tables a layer, with tokens along the left and the lower edge."""
    place.suptitle(_TITLES[part.kind], fontsize=11, color=INK, x=0.01, ha="left")
    size = len(part.layers), len(part.heads)
    grid = place.subplots(*size, squeeze=False, sharex=True, sharey=True)
    images = [
        _draw_head(grid[row, column], part.labelled, layer, head, cell, numbers=grid.size == 1)
        for row, layer in enumerate(part.layers)
        for column, head in enumerate(part.heads)
    ]
    looks, at = _AXES[part.kind]
    for axes in grid[:, 0]:
        axes.set_ylabel(looks, fontsize=8, color=FAINT)
    for axes in grid[-1]:
        axes.set_xlabel(at, fontsize=8, color=FAINT)
    draw_scale(place, images[0], grid, "weight")


def _draw_head(
    axes: "Axes", labelled: LabelledWeights, layer: int, head: int, cell: float, *, numbers: bool
) -> "AxesImage":
    weights = labelled.weights[layer, head]
    image = draw_cells(axes, weights, colors=_COLORS, low=0.0, high=1.0)
    label_tokens(axes, rows=labelled.queries, columns=labelled.keys, size=min(9.0, 46 * cell))
    axes.set_title(f"layer {layer}, head {head}", fontsize=8, color=INK, pad=3)
    if numbers:
        for t, s in np.argwhere(weights >= 0.05):
            color = "white" if weights[t, s] > 0.6 else INK
            text = f"{weights[t, s]:.2f}".removeprefix("0")
            axes.text(s, t, text, ha="center", va="center", fontsize=6.5, color=color)
    return image
