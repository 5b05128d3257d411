"""Figures of attention: one head, or the heads of all layers side by side.

Matplotlib is the extra [plots]. It is imported when something is drawn.
"""

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from flaxformer_mt.data.tokenization.vocabulary import SPACE
from flaxformer_mt.inspection.capture import KINDS, AttentionMaps, Kind, LabelledWeights

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.image import AxesImage

_TITLES: dict[Kind, str] = {
    "encoder": "Encoder self-attention: from each source token to all source tokens",
    "decoder": "Decoder self-attention: from each predicted token to the tokens read so far",
    "source": "Source attention: from each predicted token to the source",
}
_INK, _GRAY = "#26323f", "#9aa5b1"
_CELL, _CELL_OF_ONE_HEAD = 0.17, 0.34  # inches of a token
_MAX_WIDTH = 30.0  # inches of a figure
# Matplotlib's own font, DejaVu Sans, has no Chinese, Japanese or Korean characters.
_EAST_ASIAN_FONTS = (
    *("Noto Sans CJK SC", "Noto Sans CJK JP", "WenQuanYi Micro Hei"),
    *("PingFang SC", "Hiragino Sans GB", "Microsoft YaHei"),
)
_TITLE_WIDTH = 6.0  # inches, of the longest title


def figure_class() -> "type[Figure]":
    """Returns Matplotlib's class of figures. Raises ValueError if it is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ValueError("drawing needs the package matplotlib: pip install matplotlib") from error
    return Figure


def draw_attention(
    maps: AttentionMaps,
    kind: Kind | Literal["all"] = "source",
    *,
    layer: int | None = None,
    head: int | None = None,
) -> "Figure":
    """Returns a figure of attention weights, with a table for each layer (down) and head (across).

    Args:
      maps: the weights and their tokens. Rows are queries, columns are keys; a row sums to 1.
      kind: which attention.
      layer: the only layer to draw, counted from 0; None = all.
      head: the only head to draw, counted from 0; None = all. With `layer`, the table shows
        numbers too.

    Raises ValueError if there is no such layer or head, or if Matplotlib is not installed.
    """
    kinds = KINDS if kind == "all" else (kind,)
    parts = [_select(name, maps.labelled(name), layer, head) for name in kinds]
    one_head = layer is not None and head is not None
    columns = max(len(part.heads) * len(part.labelled.keys) for part in parts)
    cell = min(_CELL_OF_ONE_HEAD if one_head else _CELL, _MAX_WIDTH / columns)
    widths, heights = zip(*(_size(part, cell) for part in parts), strict=True)
    figure = figure_class()(figsize=(max(widths), sum(heights)), layout="constrained", dpi=120)
    subfigures = figure.subfigures(len(parts), 1, squeeze=False, height_ratios=heights)[:, 0]
    for subfigure, part in zip(subfigures, parts, strict=True):
        _draw_part(subfigure, part, cell)
    figure.draw_without_rendering()  # a low figure needs a second pass of the layout
    return figure


class _Part(NamedTuple):
    """One kind of attention, and its layers and heads to draw."""

    kind: Kind
    labelled: LabelledWeights
    layers: list[int]
    heads: list[int]


def _select(kind: Kind, labelled: LabelledWeights, layer: int | None, head: int | None) -> _Part:
    selected = []
    counts = labelled.weights.shape[:2]
    for what, index, count in zip(("layer", "head"), (layer, head), counts, strict=True):
        if index is not None and not 0 <= index < count:
            raise ValueError(
                f"there is no {what} {index} of {kind} attention: it has 0 to {count - 1}"
            )
        selected.append(list(range(count)) if index is None else [index])
    return _Part(kind, labelled, *selected)


def _size(part: _Part, cell: float) -> tuple[float, float]:
    """Returns width and height in inches of all tables of one kind, with their labels."""
    letter = min(0.39 * cell, 0.08)  # width of a letter in inches
    queries, keys = part.labelled.queries, part.labelled.keys
    width = len(part.heads) * (cell * len(keys) + 0.12) + letter * max(map(len, queries))
    height = len(part.layers) * (cell * len(queries) + 0.3) + letter * max(map(len, keys))
    return max(width + 1.0, _TITLE_WIDTH), height + 0.9


def _draw_part(figure: "SubFigure", part: _Part, cell: float) -> None:
    figure.suptitle(_TITLES[part.kind], fontsize=11, color=_INK, x=0.01, ha="left")
    size = len(part.layers), len(part.heads)
    grid = figure.subplots(*size, squeeze=False, sharex=True, sharey=True)
    images = [
        _draw_head(grid[row, column], part.labelled, layer, head, cell, numbers=grid.size == 1)
        for row, layer in enumerate(part.layers)
        for column, head in enumerate(part.heads)
    ]
    for axes in grid[:, 0]:
        axes.set_ylabel("query", fontsize=8, color=_GRAY)
    for axes in grid[-1]:
        axes.set_xlabel("key", fontsize=8, color=_GRAY)
    bar = figure.colorbar(images[0], ax=grid, shrink=0.55, aspect=24, pad=0.01, ticks=[0, 0.5, 1])
    bar.ax.tick_params(labelsize=7, colors=_INK, length=0)
    bar.ax.spines["outline"].set_visible(False)
    bar.set_label("weight", fontsize=8, color=_GRAY)


def _draw_head(
    axes: "Axes", labelled: LabelledWeights, layer: int, head: int, cell: float, *, numbers: bool
) -> "AxesImage":
    weights = labelled.weights[layer, head]  # [T S]
    image = axes.imshow(weights, cmap="Blues", vmin=0.0, vmax=1.0, interpolation="nearest")
    # White lines between the cells.
    axes.set_xticks(np.arange(weights.shape[1] + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(weights.shape[0] + 1) - 0.5, minor=True)
    axes.grid(which="minor", color="white", linewidth=0.4)
    axes.tick_params(which="both", length=0)
    for spine in axes.spines.values():
        spine.set(color=_GRAY, linewidth=0.6)
    style = {"fontsize": min(9.0, 46 * cell), "fontfamily": token_fonts(), "color": _INK}
    axes.set_yticks(range(len(labelled.queries)), _labels(labelled.queries), **style)
    axes.set_xticks(range(len(labelled.keys)), _labels(labelled.keys), rotation=90, **style)
    axes.set_title(f"layer {layer}, head {head}", fontsize=8, color=_INK, pad=3)
    if numbers:
        for t, s in np.argwhere(weights >= 0.05):
            color = "white" if weights[t, s] > 0.6 else _INK
            text = f"{weights[t, s]:.2f}".removeprefix("0")
            axes.text(s, t, text, ha="center", va="center", fontsize=6.5, color=color)
    return image


def _labels(tokens: Sequence[str]) -> list[str]:
    """Returns the tokens without the mark of a new word; a plain "$" would start a formula."""
    return [(token.removeprefix(SPACE) or token).replace("$", r"\$") for token in tokens]


@functools.cache
def token_fonts() -> list[str]:
    """Returns the installed fonts to try for a token, in this order."""
    from matplotlib.font_manager import get_font_names

    installed = set(get_font_names())
    return ["DejaVu Sans", *(name for name in _EAST_ASIAN_FONTS if name in installed)]
