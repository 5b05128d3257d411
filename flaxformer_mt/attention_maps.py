"""Draw where a translation looks: `python -m flaxformer_mt.attention_maps`.

From Python, in a notebook say:

maps = capture(Translator.load("workdir"), "The old dog sleeps.")
draw_attention(maps, "source", layer=1)
"""

import dataclasses
from pathlib import Path
from typing import Literal

from flaxformer_mt.cli import command
from flaxformer_mt.inspection.attention_figure import draw_attention
from flaxformer_mt.inspection.attention_page import attention_page
from flaxformer_mt.inspection.capture import AttentionMaps, attention_weights, capture
from flaxformer_mt.inspection.model_figures import draw_masks, draw_positions, draw_schedule
from flaxformer_mt.runtime.exit import leave

__all__ = [
    "AttentionMaps",
    "attention_page",
    "attention_weights",
    "capture",
    "draw_attention",
    "draw_masks",
    "draw_positions",
    "draw_schedule",
]

_SUFFIXES = (".png", ".svg", ".pdf", ".html")


@dataclasses.dataclass(frozen=True, kw_only=True)
class AttentionMapsArguments:
    """Draw where a translation looks: encoder, decoder and source attention.

    An image is a table of weights a head, tokens along its edges; rows look, columns are looked at.
    An HTML file shows all layers and heads and follows the mouse; it needs no network.
    """

    workdir: str
    """Directory of a trained model: the --workdir of training."""
    source: str
    """The sentence, as text."""
    target: str = ""
    """A translation of it, as text. If not given, the model's own."""
    output: str
    """File to write: .png, .svg or .pdf for an image, .html for a page."""
    attention: Literal["encoder", "decoder", "source", "all"] = "all"
    """Which attention an image shows: within the source, within the target, or from target to
    source."""
    layer: int | None = None
    """The layer that an image shows, counted from 0. If not given, all."""
    head: int | None = None
    """The head that an image shows, counted from 0. If not given, all."""
    checkpoint: str = "auto"
    """Which parameters: averaged, best, last, or the number of a step; auto is the first of
    averaged, best and last that there is."""

    def __post_init__(self) -> None:
        if Path(self.output).suffix not in _SUFFIXES:
            raise ValueError(
                f"--output must end in one of {', '.join(_SUFFIXES)}, got {self.output!r}"
            )


def attention_maps(arguments: AttentionMapsArguments) -> None:
    """Translate, capture and write the file."""
    from flaxformer_mt.runtime.compilation_cache import keep_programs
    from flaxformer_mt.translation.translator import Translator

    keep_programs()
    translator = Translator.load(arguments.workdir, which=arguments.checkpoint)
    maps = capture(translator, arguments.source, arguments.target or None)
    output = Path(arguments.output)
    if output.suffix == ".html":
        output.write_text(attention_page(maps), encoding="utf-8")
    else:
        layer, head = arguments.layer, arguments.head
        figure = draw_attention(maps, arguments.attention, layer=layer, head=head)
        figure.savefig(output, dpi=150)
    print(f"{output}: {maps.source_text} -> {maps.target_text}")


main = command("attention_maps", AttentionMapsArguments, attention_maps)

if __name__ == "__main__":
    leave(main())
