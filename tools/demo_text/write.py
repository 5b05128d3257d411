"""Writes the demo's sentence pairs as compressed TSV files, one for each split.

    python -m tools.demo_text.write

The pairs ask of a model what real translation asks: agreement of gender, case and number, word
order that depends on the clause, verbs that split, negation that moves into the noun. The package
contains the files, so that the generator itself need not be installed.

The training text has three parts: varied sentences, as in the other splits; plain short ones as
people type them; and, in a file of its own, everyday sentences. None of the sentences in
`HAND_WRITTEN`, which measure those, is in it.
"""

import itertools
import lzma
import sys
import zlib
from functools import cache
from pathlib import Path

from tools.demo_text.draw import Dice
from tools.demo_text.everyday import draw_everyday
from tools.demo_text.everyday_basics import FIXED
from tools.demo_text.plain import draw_plain
from tools.demo_text.sentences import Sentence, draw_sentence
from tools.demo_text.typed import (
    MORE_CONTRACTIONS,
    as_title,
    as_typed,
    contract,
    contract_more,
    without_apostrophes,
)

VARIED = 40_000
SIZES = {"train": VARIED + 40_000, "everyday": 160_000, "validation": 500, "test": 1_000}
ROOT = Path(__file__).parents[2]
DIRECTORY = ROOT / "flaxformer_mt/data/sources/demo"
HAND_WRITTEN = ROOT / "tests/tools/demo_text/plain_sentences.tsv"


def make_pair(split: str, index: int, *, seed: int = 0) -> Sentence:
    """Returns the English and German sentence that (seed, split, index) determine.

    A sentence is in the split that `split_of` computes from its English text, so no sentence is in
    two splits. Within a split a short sentence may repeat.

    Raises:
      ValueError: there is no such split.
    """
    if split not in SIZES:
        raise ValueError(f"the splits are {', '.join(SIZES)}; got {split!r}.")
    for attempt in itertools.count():
        dice = Dice(f"{seed} {split} {index} {attempt}", blocks=4 if split == "everyday" else 1)
        varied = split != "everyday" and index < VARIED
        draw = draw_sentence if varied else draw_everyday if split == "everyday" else draw_plain
        pair = draw(dice)
        if split in ("validation", "test"):
            if split_of(pair[0]) == split:
                return pair
        elif pair[0].rstrip(".!").lower() in _FIXED or (
            split_of(pair[0]) == "train" and words_of(pair[0]) not in hand_written()
        ):
            if split == "everyday":
                pair = contract_more(dice, pair)
            typed = pair if varied else as_typed(dice, pair)
            if split != "everyday":
                return typed
            return without_apostrophes(dice, as_title(dice, typed))
    raise AssertionError("an endless loop ended")


_FIXED = frozenset(phrase.rstrip("!").lower() for phrase in FIXED)


@cache
def hand_written() -> frozenset[str]:
    """Returns the words of every English sentence in `HAND_WRITTEN`."""
    lines = HAND_WRITTEN.read_text(encoding="utf-8").splitlines()
    return frozenset(words_of(line.split("\t")[0]) for line in lines)


def words_of(english: str) -> str:
    """Returns the sentence without what `as_typed` changes: small letters, contracted, no stop."""
    return contract(contract(english), MORE_CONTRACTIONS).lower().rstrip(".?!").replace(",", "")


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
