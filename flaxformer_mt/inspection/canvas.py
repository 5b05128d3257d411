"""What all drawings share: a new figure, a table of coloured cells, tokens along its edges.

Matplotlib is the extra [plots]; it is imported when something is drawn, and not before.
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

INK, FAINT, BLUE, ORANGE, GREEN = "#26323f", "#9aa5b1", "#2b6cb0", "#dd6b20", "#2f855a"
SERIES = (BLUE, ORANGE, GREEN, "#805ad5", "#c53030")

_NEW_WORD = "▁"  # SentencePiece writes it before a word
# What writes Chinese, Japanese and Korean on Linux, macOS and Windows: DejaVu Sans does not.
_EAST_ASIAN = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "WenQuanYi Micro Hei",
    "PingFang SC",
    "Hiragino Sans GB",
    "Microsoft YaHei",
)


def new_figure(width: float, height: float) -> "Figure":
    """An empty figure, in inches, which belongs to no window.

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
    """A coloured square for each number, with thin white lines between them."""
    rows, columns = values.shape
    image = axes.imshow(values, cmap=colors, vmin=low, vmax=high, interpolation="nearest")
    axes.set_xticks(np.arange(columns + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(rows + 1) - 0.5, minor=True)
    axes.grid(which="minor", color="white", linewidth=0.4)
    axes.tick_params(which="both", length=0)
    frame(axes)
    return image


def draw_scale(figure: "FigureBase", image: "AxesImage", beside: Any, label: str) -> None:
    """A narrow bar that says which colour is which number, `beside` one or more axes."""
    bar = figure.colorbar(image, ax=beside, shrink=0.55, aspect=24, pad=0.01)
    low, high = image.get_clim()
    bar.set_ticks([low, (low + high) / 2, high])
    bar.ax.tick_params(labelsize=7, colors=INK, length=0)
    bar.ax.spines["outline"].set_visible(False)
    bar.set_label(label, fontsize=8, color=FAINT)


def frame(axes: "Axes", *sides: str) -> None:
    """A thin line along the given sides (all, if none is given), and nothing along the others."""
    for side, spine in axes.spines.items():
        spine.set_visible(not sides or side in sides)
        spine.set(color=FAINT, linewidth=0.6)
    axes.tick_params(colors=INK)


def label_tokens(axes: "Axes", *, rows: Sequence[str], columns: Sequence[str], size: float) -> None:
    """Writes a token beside each row and below each column."""
    style: dict[str, Any] = {"fontsize": size, "fontfamily": token_fonts(), "color": INK}
    axes.set_yticks(range(len(rows)), [_plain(token) for token in rows], **style)
    axes.set_xticks(range(len(columns)), [_plain(token) for token in columns], rotation=90, **style)


@functools.cache
def token_fonts() -> list[str]:
    """Fonts that are installed and together write most scripts; the first that can, does."""
    from matplotlib.font_manager import get_font_names

    installed = set(get_font_names())
    return ["DejaVu Sans", *(name for name in _EAST_ASIAN if name in installed)]


def _plain(token: str) -> str:
    """Without the mark of a new word; and a dollar sign would start a formula."""
    return (token.removeprefix(_NEW_WORD) or token).replace("$", r"\$")
