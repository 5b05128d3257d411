"""The demo's English-German sentence pairs, which the package contains.

`tools/demo_text` generates them with a small grammar. Their translation needs agreement, separable
verbs and changes of word order. The split "train" has 40,000 varied sentences, then 40,000 short
simple ones. "everyday" has 160,000 more for training, with other constructions and fixed phrases.
The validation and test text is varied.
"""

from pathlib import Path

from flaxformer_mt.data.sources.pair import Pair
from flaxformer_mt.data.sources.text_files import lines_of, read_text

_DIRECTORY = Path(__file__).parent / "demo"


def open_demo(split: str, count: int = 0, languages: tuple[str, str] = ("en", "de")) -> list[Pair]:
    """Returns the first `count` pairs of a split (0 = all of them).

    Raises ValueError for languages other than English to German, or a `count` above the size.
    """
    if languages != ("en", "de"):
        raise ValueError(
            "the demo text translates from en to de, but the languages are "
            f"{languages[0]} to {languages[1]}."
        )
    lines = lines_of(read_text(_DIRECTORY / f"{split}.tsv.xz"))
    pairs = [Pair(*line.split("\t")) for line in lines]
    if count > len(pairs):
        raise ValueError(
            f"the demo text has {len(pairs):,} pairs for {split}, got {count:,}; use "
            f"'demo:{split}' for all of them."
        )
    return pairs[: count or None]
