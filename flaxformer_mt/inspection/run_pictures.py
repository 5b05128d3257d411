"""Pictures of a finished run: its loss, and the attention of one translation."""

import contextlib
import io
from typing import TYPE_CHECKING

from flaxformer_mt.inspection.attention_figure import draw_attention, figure_class
from flaxformer_mt.inspection.capture import capture
from flaxformer_mt.storage.paths import AnyPath, PathLike, as_path, write_file
from flaxformer_mt.training.reporting import read_metrics
from flaxformer_mt.translation.translator import Translator

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def save_pictures(
    workdir: PathLike, translator: Translator, sentence: str, translation: str | None = None
) -> tuple[AnyPath, ...]:
    """Writes loss.png and attention.png to `workdir`; returns their paths.

    Without Matplotlib (the extra [plots]) it writes and returns nothing. attention.png has the
    source attention of the last decoder layer for `sentence` and its translation (None = translate
    it). A sentence that is too long for the model gets none.
    """
    try:
        figure_class()
    except ValueError:
        return ()
    last_layer = translator.model.config.num_decoder_layers - 1
    figures = {"loss.png": draw_loss(workdir)}
    with contextlib.suppress(ValueError):  # the sentence is longer than the model reads
        maps = capture(translator, sentence, translation)
        figures["attention.png"] = draw_attention(maps, layer=last_layer)
    for name, figure in figures.items():
        picture = io.BytesIO()
        figure.savefig(picture)
        write_file(as_path(workdir) / name, picture.getvalue())
    return tuple(as_path(workdir) / name for name in figures)


def draw_loss(workdir: PathLike) -> "Figure":
    """Returns a figure of the cross-entropy in nats a token, of training and of validation.

    It has no label smoothing, so that both can be compared.
    """
    lines = read_metrics(workdir)
    figure = figure_class()(figsize=(6.4, 3.6), layout="constrained", dpi=120)
    axes = figure.subplots()
    for kind, marker in (("train", ""), ("validation", "o")):
        points = [
            (
                line["step"],
                line.get("nll", line.get("loss")),
            )  # BLEU only, if no pair was short enough
            for line in lines
            if line["kind"] == kind and "loss" in line
        ]
        if points:
            axes.plot(*zip(*points, strict=True), marker=marker, label=kind)
    axes.set_xlabel("update")
    axes.set_ylabel("cross-entropy, nats per token")
    axes.grid(alpha=0.3)
    axes.legend()
    return figure
