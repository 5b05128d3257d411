"""What a verification knows of an exported model: lines in, translations and scores out."""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from flaxformer_mt.translation.config import DecodingConfig


class Translation(NamedTuple):
    """One line, translated."""

    text: str
    score: float
    """Log-probability / tokens ** alpha, EOS counted; natural logarithm."""


@runtime_checkable
class Runner(Protocol):
    """An exported model in the engine that it was exported for."""

    versions: dict[str, str]
    """Of the engine's packages."""

    def translate(self, lines: Sequence[str]) -> list[Translation]:
        """The best translation of every line, none of which is blank."""
        ...


def group_by_limit(lengths: Sequence[int], config: DecodingConfig) -> dict[int, list[int]]:
    """The places of the sources of each length limit: other engines know one limit a call.

    `lengths` are those of the sources, EOS included; a limit is that of our own search.
    """
    places: dict[int, list[int]] = defaultdict(list)
    for place, length in enumerate(lengths):
        places[config.length_limit(length)].append(place)
    return dict(places)
