"""Draw the attention of a translation: `python -m flaxformer_mt.attention_maps`.

In a notebook:

    maps = capture(Translator.load("workdir"), "The old dog sleeps.")
    draw_attention(maps, "source", layer=1)
"""

import dataclasses
from pathlib import Path
from typing import Literal

from flaxformer_mt.cli import command
from flaxformer_mt.inspection.attention_figure import draw_attention, figure_class
from flaxformer_mt.inspection.capture import AttentionMaps, capture
from flaxformer_mt.runtime.command import exit_process
from flaxformer_mt.runtime.compilation_cache import keep_programs
from flaxformer_mt.storage.paths import as_path, make_folder, move_file, working_copy
from flaxformer_mt.translation.translator import Translator

__all__ = ["AttentionMaps", "capture", "draw_attention"]

_SUFFIXES = (".png", ".svg", ".pdf")


@dataclasses.dataclass(frozen=True, kw_only=True)
class AttentionMapsArguments:
    """Draw encoder, decoder and source attention of one translation.

    The image has a table of weights for each layer and head. Rows are queries, columns are keys.
    The source is read as one sentence, and unknown words are not copied.
    """

    workdir: str
    """Directory of a trained model: the --workdir of training."""
    source: str
    """The sentence, as text."""
    target: str = ""
    """A translation of it, as text. If not given, the model's own."""
    output: str
    """Image to write: .png, .svg or .pdf."""
    attention: Literal["encoder", "decoder", "source", "all"] = "all"
    """Which attention: within the source, within the target, or from target to source."""
    layer: int | None = None
    """The only layer to draw, counted from 0. If not given, all."""
    head: int | None = None
    """The only head to draw, counted from 0. If not given, all."""
    checkpoint: str = "auto"
    """Which parameters: averaged, best, last, or the number of a step. auto takes the first of
    averaged, best and last that exists."""

    def __post_init__(self) -> None:
        if Path(self.output).suffix not in _SUFFIXES:
            raise ValueError(
                f"--output must end in one of {', '.join(_SUFFIXES)}, got {self.output!r}"
            )


def attention_maps(arguments: AttentionMapsArguments) -> None:
    """Translates the sentence, draws its attention and writes the image."""
    figure_class()  # before the translation, which can take a while
    make_folder(as_path(arguments.output).parent)
    keep_programs()
    translator = Translator.load(arguments.workdir, checkpoint=arguments.checkpoint)
    maps = capture(translator, arguments.source, arguments.target or None)
    layer, head = arguments.layer, arguments.head
    figure = draw_attention(maps, arguments.attention, layer=layer, head=head)
    picture = working_copy(as_path(arguments.output))
    figure.savefig(picture, dpi=150)
    move_file(picture, as_path(arguments.output))
    print(f"{arguments.output}: {maps.source_text} -> {maps.target_text}")


main = command("attention_maps", AttentionMapsArguments, attention_maps)

if __name__ == "__main__":
    exit_process(main())
