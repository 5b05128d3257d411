"""The parts of the paper that are pictures already: positions, masks, the learning rate."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float

from flaxformer_mt.inspection.canvas import (
    FAINT,
    INK,
    SERIES,
    draw_cells,
    draw_scale,
    frame,
    label_tokens,
    new_figure,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw_positions(table: Float[np.ndarray, "T D"]) -> "Figure":
    """Positional encodings (section 3.5), three ways.

    Left the table itself; in the middle some of its columns, as waves over the positions; right
    how alike any two positions are, as the cosine of the angle between their rows.
    """
    length, width = table.shape
    figure = new_figure(12.0, 3.8)
    values, waves, alike = figure.subplots(1, 3, width_ratios=[1.35, 1.2, 1])
    limit = float(np.abs(table).max())
    image = values.imshow(table, cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto")
    _label(values, "The table", "dimension", "position")
    draw_scale(figure, image, values, "")
    for color, column in zip(SERIES, _spread(width), strict=False):
        waves.plot(table[:, column], ".-", lw=1, ms=4, color=color, label=f"dimension {column}")
    _label(waves, "Some of its columns", "position", "")
    waves.legend(frameon=False, fontsize=8, loc="upper right", ncols=2)
    waves.set_ylim(-1.15 * limit, 1.55 * limit)
    rows = table / np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1e-9)
    image = alike.imshow(rows @ rows.T, cmap="Blues", vmin=0.0, vmax=1.0)
    _label(alike, "How alike two positions are", "position", "position")
    draw_scale(figure, image, alike, "")
    alike.set(xlim=(-0.5, length - 0.5), ylim=(length - 0.5, -0.5))
    return figure


def draw_masks(masks: Mapping[str, Bool[np.ndarray, "_ _"]]) -> "Figure":
    """Who may look at whom (section 3.2.3): a table for each mask, under its name.

    Rows look, columns are looked at; blue cells are allowed.
    """
    figure = new_figure(max(5.0, 2.9 * len(masks)), 3.7)
    for axes, (name, mask) in zip(
        figure.subplots(1, len(masks), squeeze=False)[0], masks.items(), strict=True
    ):
        draw_cells(axes, mask.astype(np.float32), colors="Blues", low=0.0, high=1.4)
        rows, columns = (list(map(str, range(n))) for n in mask.shape)
        label_tokens(axes, rows=rows, columns=columns, size=7.0)
        axes.tick_params(axis="x", rotation=0)
        _label(axes, name, "key (looked at)", "query (looks)")
    return figure


def draw_schedule(
    schedules: Mapping[str, Callable[[Array], ArrayLike]], num_steps: int
) -> "Figure":
    """Learning rates over the steps of training (equation 3), each under its name."""
    figure = new_figure(7.0, 3.2)
    axes = figure.subplots()
    steps = np.unique(np.linspace(0, num_steps - 1, 400).astype(int))  # [400]
    for color, (name, schedule) in zip(SERIES, schedules.items(), strict=False):
        axes.plot(steps, np.asarray(schedule(jnp.asarray(steps))), color=color, label=name)
    _label(axes, "Learning rate", "step", "")
    axes.set(xlim=(0, num_steps), ylim=(0, None))
    axes.legend(frameon=False, fontsize=9)
    return figure


def _spread(width: int) -> list[int]:
    """A few columns, from the fastest waves to the slow ones."""
    return sorted({0, width // 8 // 2 * 2, width // 4 // 2 * 2, width // 2 // 2 * 2})


def _label(axes: "Axes", title: str, x: str, y: str) -> None:
    axes.set_title(title, fontsize=10, color=INK)
    axes.set_xlabel(x, fontsize=8, color=FAINT)
    axes.set_ylabel(y, fontsize=8, color=FAINT)
    axes.tick_params(labelsize=8)
    frame(axes)
