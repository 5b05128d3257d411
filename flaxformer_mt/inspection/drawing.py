"""What all figures share: an empty figure, a table of coloured cells, token labels.

Matplotlib is the extra [plots]. It is imported when something is drawn.
"""

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, FigureBase
    from matplotlib.image import AxesImage

INK, GRAY = "#26323f", "#9aa5b1"
SERIES = ("#2b6cb0", "#dd6b20", "#2f855a", "#805ad5", "#c53030")

_NEW_WORD = "▁"  # SentencePiece writes it before a word
# Matplotlib's own font, DejaVu Sans, has no Chinese, Japanese or Korean characters.
_EAST_ASIAN_FONTS = (
    *("Noto Sans CJK SC", "Noto Sans CJK JP", "WenQuanYi Micro Hei"),
    *("PingFang SC", "Hiragino Sans GB", "Microsoft YaHei"),
)


def new_figure(width: float, height: float) -> "Figure":
    """Returns an empty figure of this size in inches, which opens no window.

    Raises ValueError if Matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ValueError(
            "drawing needs the package matplotlib: pip install -e '.[plots]'"
        ) from error
    return Figure(figsize=(width, height), layout="constrained", dpi=120)


def draw_cells(
    axes: "Axes", values: Float[np.ndarray, "T S"], *, colors: str, low: float, high: float
) -> "AxesImage":
    """Draws a coloured square for each number; `low` and `high` are the ends of the colour map."""
    rows, columns = values.shape
    image = axes.imshow(values, cmap=colors, vmin=low, vmax=high, interpolation="nearest")
    axes.set_xticks(np.arange(columns + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(rows + 1) - 0.5, minor=True)
    axes.grid(which="minor", color="white", linewidth=0.4)
    axes.tick_params(which="both", length=0)
    style_axes(axes)
    return image


def draw_color_bar(figure: "FigureBase", image: "AxesImage", beside: Any, label: str) -> None:
    """Draws the colour map of `image` beside one or more axes."""
    bar = figure.colorbar(image, ax=beside, shrink=0.55, aspect=24, pad=0.01)
    low, high = image.get_clim()
    bar.set_ticks([low, (low + high) / 2, high])
    bar.ax.tick_params(labelsize=7, colors=INK, length=0)
    bar.ax.spines["outline"].set_visible(False)
    bar.set_label(label, fontsize=8, color=GRAY)


def style_axes(axes: "Axes", title: str = "", x: str = "", y: str = "") -> None:
    """Sets a thin gray frame and, where they are given, the title and the axis labels."""
    for spine in axes.spines.values():
        spine.set(color=GRAY, linewidth=0.6)
    axes.tick_params(colors=INK, labelsize=8)
    if title:
        axes.set_title(title, fontsize=10, color=INK)
    axes.set_xlabel(x, fontsize=8, color=GRAY)
    axes.set_ylabel(y, fontsize=8, color=GRAY)


def label_tokens(axes: "Axes", *, rows: Sequence[str], columns: Sequence[str], size: float) -> None:
    """Writes a token beside each row and below each column, in a font of `size` points."""
    style: dict[str, Any] = {"fontsize": size, "fontfamily": token_fonts(), "color": INK}
    axes.set_yticks(range(len(rows)), [_label(token) for token in rows], **style)
    axes.set_xticks(range(len(columns)), [_label(token) for token in columns], rotation=90, **style)


@functools.cache
def token_fonts() -> list[str]:
    """Returns the installed fonts to try for a token, in this order."""
    from matplotlib.font_manager import get_font_names

    installed = set(get_font_names())
    return ["DejaVu Sans", *(name for name in _EAST_ASIAN_FONTS if name in installed)]


def _label(token: str) -> str:
    """The token without the mark of a new word; a dollar sign would start a formula."""
    return (token.removeprefix(_NEW_WORD) or token).replace("$", r"\$")
