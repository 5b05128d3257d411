"""Figures of the paper's positional encodings, masks and learning rate."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float

from flaxformer_mt.inspection.drawing import (
    SERIES,
    draw_cells,
    draw_color_bar,
    label_tokens,
    new_figure,
    style_axes,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_positions(table: Float[np.ndarray, "T D"]) -> "Figure":
    """Draws positional encodings (section 3.5) in three ways.

    From left to right: the table, some of its columns over the positions, and the cosine similarity
    of every two positions.
    """
    length, width = table.shape
    figure = new_figure(12.0, 3.8)
    left, middle, right = figure.subplots(1, 3, width_ratios=[1.35, 1.2, 1])
    limit = float(np.abs(table).max())
    image = left.imshow(table, cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto")
    style_axes(left, "The table", "dimension", "position")
    draw_color_bar(figure, image, left, "")
    # From the shortest wavelength to long ones; even columns are sines.
    columns = sorted({0, width // 16 * 2, width // 8 * 2, width // 4 * 2})
    for color, column in zip(SERIES, columns, strict=False):
        middle.plot(table[:, column], ".-", lw=1, ms=4, color=color, label=f"dimension {column}")
    style_axes(middle, "Some of its columns", "position")
    middle.legend(frameon=False, fontsize=8, loc="upper right", ncols=2)
    middle.set_ylim(-1.15 * limit, 1.55 * limit)
    rows = table / np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1e-9)
    image = right.imshow(rows @ rows.T, cmap="Blues", vmin=0.0, vmax=1.0)
    style_axes(right, "Cosine similarity", "position", "position")
    draw_color_bar(figure, image, right, "")
    right.set(xlim=(-0.5, length - 0.5), ylim=(length - 0.5, -0.5))
    return figure


def draw_masks(masks: Mapping[str, Bool[np.ndarray, "_ _"]]) -> "Figure":
    """Draws attention masks (section 3.2.3) under their names.

    Rows are queries, columns are keys; a query attends to the blue cells.
    """
    figure = new_figure(max(5.0, 2.9 * len(masks)), 3.7)
    grid = figure.subplots(1, len(masks), squeeze=False)[0]
    for axes, (name, mask) in zip(grid, masks.items(), strict=True):
        draw_cells(axes, mask.astype(np.float32), colors="Blues", low=0.0, high=1.4)
        rows, columns = (list(map(str, range(n))) for n in mask.shape)
        label_tokens(axes, rows=rows, columns=columns, size=7.0)
        axes.tick_params(axis="x", rotation=0)
        style_axes(axes, name, "key", "query")
    return figure


def draw_schedule(
    schedules: Mapping[str, Callable[[Array], ArrayLike]], num_steps: int
) -> "Figure":
    """Draws learning rates (equation 3) over the first `num_steps` steps, with their names."""
    figure = new_figure(7.0, 3.2)
    axes = figure.subplots()
    steps = np.unique(np.linspace(0, num_steps - 1, 400).astype(int))  # [400]
    for color, (name, schedule) in zip(SERIES, schedules.items(), strict=False):
        axes.plot(steps, np.asarray(schedule(jnp.asarray(steps))), color=color, label=name)
    style_axes(axes, "Learning rate", "step")
    axes.set(xlim=(0, num_steps), ylim=(0, None))
    axes.legend(frameon=False, fontsize=9)
    return figure
