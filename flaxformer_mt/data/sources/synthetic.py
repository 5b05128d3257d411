"""The built-in data: endless English-German sentence pairs, from a seed.

They ask of a model what real translation asks: agreement of gender, case and number, an order of
words that depends on the clause, verbs that split, negation that moves into the noun. The
sentences themselves are the work of `grammar`.
"""

import zlib

from flaxformer_mt.data.sources.grammar.draw import Dice
from flaxformer_mt.data.sources.grammar.sentences import draw_sentence
from flaxformer_mt.data.sources.pair import Pair

SPLITS = ("train", "validation", "test")


class Grammar:
    """Random access to `size` sentence pairs of one split, each a pure function of (seed, index).

    The split of a sentence hangs on its English text alone (see `split_of`), and a candidate of
    another split is drawn anew. So no sentence is ever in two splits, whatever their seeds and
    sizes. Within a split a short sentence may repeat.
    """

    def __init__(self, split: str = "train", *, size: int = 100_000, seed: int = 0) -> None:
        """Prepare nothing: each pair is made when it is asked for.

        Raises:
          ValueError: the split is none of train, validation and test, or the size is not positive.
        """
        if split not in SPLITS:
            raise ValueError(f"The grammar has the splits {', '.join(SPLITS)}; got {split!r}.")
        if size < 1:
            raise ValueError(f"The grammar needs a size of at least 1 pair; got {size}.")
        self.split, self.size, self.seed = split, size, seed

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> Pair:
        if not 0 <= index < self.size:
            raise IndexError(f"Pair {index} of a grammar with {self.size} pairs (0 is the first).")
        attempt = 0
        while True:
            dice = Dice(f"{self.seed} {self.split} {index} {attempt}")
            pair = Pair(*draw_sentence(dice))
            if split_of(pair.source) == self.split:
                return pair
            attempt += 1


def split_of(english: str) -> str:
    """The split to which a sentence belongs: a tenth is test, a tenth validation."""
    tenth = zlib.crc32(english.encode()) % 10
    return "test" if tenth == 0 else "validation" if tenth == 1 else "train"
