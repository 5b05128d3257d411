"""A vocabulary of whole words, stored as a file of `word<TAB>count` rows."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar, SupportsInt

from flaxformer_mt.data.sources.language_tags import split_tag
from flaxformer_mt.data.sources.text_files import lines_of, read_text
from flaxformer_mt.data.tokenization.vocabulary import (
    BOS_ID,
    EOS_ID,
    PAD_ID,
    UNK_ID,
    Vocabulary,
    until_end,
    without_line_breaks,
)

UNKNOWN_WORD = "<unk>"


class WordVocabulary(Vocabulary):
    """Whole words, separated by white space. Words outside the vocabulary are unknown."""

    suffix: ClassVar[str] = ".vocab.tsv"
    pad_id: int = PAD_ID
    unk_id: int = UNK_ID
    bos_id: int = BOS_ID
    eos_id: int = EOS_ID

    def __init__(self, rows: Sequence[tuple[str, int]]) -> None:
        """Stores (word, count) rows; the first four are padding, unknown, start and end.

        Raises ValueError for fewer rows, an empty word, or a repeated word.
        """
        if len(rows) <= EOS_ID:
            raise ValueError(
                "a word vocabulary starts with four rows for padding, unknown, start and end; "
                f"this one has only {len(rows)}"
            )
        self._rows = tuple(rows)
        self.pieces: tuple[str, ...] = tuple(word for word, _ in rows)
        self.size: int = len(rows)
        first_row: dict[str, int] = {}
        for row, word in enumerate(self.pieces):
            if not word:
                raise ValueError(f"row {row + 1} holds no word")
            if word in first_row:
                raise ValueError(f"rows {first_row[word] + 1} and {row + 1} both hold {word!r}")
            first_row[word] = row
        # Text must not contain special tokens: the word "</s>" would end the sentence.
        self._ids = {word: row for word, row in first_row.items() if row > EOS_ID}

    @classmethod
    def read(cls, path: Path) -> "WordVocabulary":
        """Reads a file of `word<TAB>count` rows.

        Raises FileNotFoundError, or ValueError with the number of the bad row.
        """
        rows = []
        for number, line in enumerate(lines_of(read_text(path)), start=1):
            word, tab, count = line.partition("\t")
            if not (tab and count.strip().isdecimal()):
                raise ValueError(
                    f"{path}, line {number}: expected word<TAB>count, got {line[:80]!r}"
                )
            rows.append((word, int(count)))
        for row, (word, _) in enumerate(rows[: EOS_ID + 1]):
            if word.isalpha() and not word.isupper():
                raise ValueError(
                    f"{path}, line {row + 1}: the first four rows must be the special tokens for "
                    f"padding, unknown, start and end (as <PAD>, <UNK>, <S>, </S>), got {word!r}"
                )
        try:
            return cls(rows)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error

    @classmethod
    def learn(
        cls, lines: Iterable[str], *, max_size: int, min_count: int, symbols: Sequence[str] = ()
    ) -> "WordVocabulary":
        """Returns a vocabulary of the most frequent words; equal counts in alphabetical order.

        Args:
          lines: text with its words separated by white space.
          max_size: largest number of words, the four special tokens included.
          min_count: rarer words become unknown.
          symbols: words to include regardless of their counts, such as language tags.

        Raises ValueError if no word is frequent enough.
        """
        special = ("<pad>", UNKNOWN_WORD, "<s>", "</s>", *symbols)
        counts = Counter(word for line in lines for word in line.split())
        ranked = sorted(counts.items(), key=lambda row: (-row[1], row[0]))
        frequent = [
            (word, count) for word, count in ranked if count >= min_count and word not in special
        ]
        if not frequent:
            raise ValueError(
                "there is no text to learn the vocabulary from: no training line has a word "
                f"{min_count} times or more."
            )
        if max_size <= len(special):
            raise ValueError(
                f"vocab_size={max_size} leaves no word beside the {len(special)} special tokens "
                "and tags; raise vocab_size."
            )
        return cls([(word, 0) for word in special] + frequent[: max_size - len(special)])

    def tokenize(self, text: str) -> list[int]:
        """Returns the word ids of `text`, with EOS at the end and no BOS."""
        words = text.split()
        if len(words) == 1 and split_tag(words[0]) == (words[0], "") and words[0] in self._ids:
            words = []  # a tag without text
        ids = [self._ids.get(word, UNK_ID) for word in words]
        ids.append(EOS_ID)
        return ids

    def detokenize(self, ids: Iterable[SupportsInt]) -> str:
        """Returns the words up to the first EOS, joined by spaces, without padding and BOS.

        An unknown word becomes "<unk>".
        """
        kept = until_end(ids, EOS_ID, {PAD_ID, BOS_ID})
        words = (UNKNOWN_WORD if token == UNK_ID else self.pieces[token] for token in kept)
        return without_line_breaks(" ".join(words))

    def to_bytes(self) -> bytes:
        """Returns the rows as a `word<TAB>count` file."""
        return "".join(f"{word}\t{count}\n" for word, count in self._rows).encode("utf-8")
