"""Writes the demo's sentence pairs as compressed TSV files, one for each split.

    python -m tools.demo_text.write

The pairs ask of a model what real translation asks: agreement of gender, case and number, word
order that depends on the clause, verbs that split, negation that moves into the noun. The package
contains the files, so that the generator itself need not be installed.
"""

import lzma
import sys
import zlib
from pathlib import Path

from tools.demo_text.draw import Dice
from tools.demo_text.sentences import Sentence, draw_sentence

SIZES = {"train": 40_000, "validation": 500, "test": 1_000}
DIRECTORY = Path(__file__).parents[2] / "flaxformer_mt/data/sources/demo"


def make_pair(split: str, index: int, *, seed: int = 0) -> Sentence:
    """Returns the English and German sentence that (seed, split, index) determine.

    A sentence is in the split that `split_of` computes from its English text, so no sentence is in
    two splits. Within a split a short sentence may repeat.

    Raises:
      ValueError: there is no such split.
    """
    if split not in SIZES:
        raise ValueError(f"the splits are {', '.join(SIZES)}; got {split!r}.")
    attempt = 0
    while True:
        pair = draw_sentence(Dice(f"{seed} {split} {index} {attempt}"))
        if split_of(pair[0]) == split:
            return pair
        attempt += 1


def split_of(english: str) -> str:
    """Returns the split of a sentence: a tenth of them is test, a tenth validation."""
    tenth = zlib.crc32(english.encode()) % 10
    return "test" if tenth == 0 else "validation" if tenth == 1 else "train"


def make_tsv(split: str, size: int) -> bytes:
    """Returns the first `size` pairs of a split as lines `English<TAB>German`, in UTF-8."""
    pairs = (make_pair(split, index) for index in range(size))
    return "".join(f"{english}\t{german}\n" for english, german in pairs).encode()


def main() -> None:
    """Writes the file of every split."""
    for split, size in SIZES.items():
        file = DIRECTORY / f"{split}.tsv.xz"
        file.write_bytes(lzma.compress(make_tsv(split, size), preset=9 | lzma.PRESET_EXTREME))
        print(f"{file}: {size:,} pairs, {file.stat().st_size:,} bytes", file=sys.stderr)


if __name__ == "__main__":
    main()
