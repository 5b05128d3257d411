"""One language's text to token ids and back: SentencePiece pieces, or whole words."""

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol, SupportsInt, runtime_checkable

from sentencepiece import SentencePieceProcessor

from flaxformer_mt.data.sources.language_tags import languages_in, split_tag, tag_of
from flaxformer_mt.data.sources.text_files import read_lines
from flaxformer_mt.data.tokenization.subword_sampling import BpeDropout, PieceTable, UnigramSampler

# Ids in every vocabulary that is learnt here, and in word files: their first four rows.
PAD_ID, UNK_ID, BOS_ID, EOS_ID = range(4)
UNKNOWN_WORD = "<unk>"
_SPACE = "▁"  # how SentencePiece writes a space inside of pieces


@runtime_checkable
class Vocabulary(Protocol):
    """What the rest of the package knows of a vocabulary."""

    suffix: ClassVar[str]
    """Of its file in the workdir."""
    size: int
    """V, special tokens included."""
    pad_id: int
    unk_id: int
    bos_id: int
    eos_id: int

    @property
    def pieces(self) -> tuple[str, ...]:
        """The text of every token id."""
        ...

    def tokenize(self, text: str) -> list[int]:
        """Token ids of `text`, with EOS at the end and no BOS."""
        ...

    def detokenize(self, ids: Iterable[SupportsInt]) -> str:
        """The line of text that `ids` stand for, up to the first EOS, without special tokens."""
        ...

    def sample(self, text: str, random: Callable[[], float]) -> list[int]:
        """As `tokenize`, but cut differently each time: a function of `text` and of what `random`
        gives, numbers from [0, 1), alone."""
        ...

    def to_bytes(self) -> bytes:
        """The content of its file."""
        ...


class SentencePieceVocabulary:
    """Subword pieces (Kudo and Richardson 2018), from a SentencePiece unigram or BPE model.

    A model made elsewhere keeps its ids. Special tokens that it lacks (T5's have no BOS, many no
    padding) get the ids after its last piece.
    """

    suffix: ClassVar[str] = ".model"

    def __init__(self, model: bytes, sampling_alpha: float = 0.0) -> None:
        """Loads a model.

        Args:
          model: content of a SentencePiece `.model` file.
          sampling_alpha: what `sample` does: 0 = as `tokenize`; else for unigram models the
            exponent of the probabilities (small = wild), for BPE the probability to skip a merge.

        Raises ValueError if these bytes are no model, or one that cannot be sampled from.
        """
        self._model, self._alpha = model, sampling_alpha
        try:
            processor = SentencePieceProcessor(model_proto=model) if model else None
        except RuntimeError as error:
            raise ValueError("not a SentencePiece model") from error
        if processor is None or not processor.get_piece_size():
            raise ValueError("not a SentencePiece model: it is empty")
        self._processor: SentencePieceProcessor = processor
        self.size: int = processor.get_piece_size()
        self.unk_id: int = processor.unk_id()
        self.pad_id: int = self._special(processor.pad_id())
        self.bos_id: int = self._special(processor.bos_id())
        self.eos_id: int = self._special(processor.eos_id())
        self._silent = {self.pad_id, self.bos_id}
        names = map(processor.id_to_piece, range(processor.get_piece_size()))
        self._tags = {
            tag_of(language): processor.piece_to_id(tag_of(language))
            for language in languages_in(names)
        }

    def __reduce__(self) -> tuple[Any, ...]:
        # The sampler's cache cannot go to a worker process, and the model is small.
        return SentencePieceVocabulary, (self._model, self._alpha)

    def tokenize(self, text: str) -> list[int]:
        """Piece ids of `text`, with EOS at the end and no BOS."""
        tag, text = self._split_tag(text)
        return self._join(tag, self._processor.encode(text))

    def tokenize_texts(self, texts: Sequence[str]) -> list[list[int]]:
        """The same of many texts, on all cores."""
        tags_and_texts = [self._split_tag(text) for text in texts]
        found = self._processor.encode([text for _, text in tags_and_texts])
        return [self._join(tag, ids) for (tag, _), ids in zip(tags_and_texts, found, strict=True)]

    def detokenize(self, ids: Iterable[SupportsInt]) -> str:
        """The one line of text that `ids` stand for, up to the first EOS, without padding and BOS.

        Line breaks, which bytes can spell, become spaces. An unknown piece reads " ⁇ ".
        """
        return without_line_breaks(
            self._processor.decode(until_end(ids, self.eos_id, self._silent))
        )

    def sample(self, text: str, random: Callable[[], float]) -> list[int]:
        """As `tokenize`, but cut differently each time, as wildly as `sampling_alpha` says."""
        if not self._alpha:
            return self.tokenize(text)
        tag, text = self._split_tag(text)
        draw, pieces_cross_spaces = self._sampler
        normalised = self._processor.normalize(text)
        ids: list[int] = []
        for segment in [normalised] if pieces_cross_spaces else _words(normalised):
            ids += draw(segment, random)
        return self._join(tag, ids)

    @property
    def pieces(self) -> tuple[str, ...]:
        """The text of every token id; special tokens that the model lacks by their usual names."""
        names = {self.pad_id: "<pad>", self.bos_id: "<s>", self.eos_id: "</s>"}
        in_model = self._processor.get_piece_size()
        return tuple(
            self._processor.id_to_piece(token) if token < in_model else names[token]
            for token in range(self.size)
        )

    def to_bytes(self) -> bytes:
        """The model file."""
        return self._model

    def _split_tag(self, text: str) -> tuple[str, str]:
        """A tag that is a piece, or "", and the rest, which alone is normalised and cut."""
        tag, rest = split_tag(text)
        return (tag, rest) if tag in self._tags else ("", text)

    def _join(self, tag: str, ids: list[int]) -> list[int]:
        """With the tag and the end; a tag before nothing is nothing."""
        return [*([self._tags[tag]] if tag and ids else []), *ids, self.eos_id]

    def _special(self, token_id: int) -> int:
        if token_id >= 0:
            return token_id
        self.size += 1
        return self.size - 1

    @functools.cached_property
    def _sampler(self) -> tuple[Callable[[str, Callable[[], float]], list[int]], bool]:
        """How to cut a segment, and whether a segment is more than a word."""
        # Not above: whoever does not sample should not wait for protobuf.
        from sentencepiece import sentencepiece_model_pb2

        pb2: Any = sentencepiece_model_pb2  # generated at run time: no types
        proto = pb2.ModelProto.FromString(self._model)
        table = _piece_table(proto.pieces, self.unk_id)
        crossing = any(_SPACE in piece[1:] for piece in table.ids)
        if proto.trainer_spec.model_type == pb2.TrainerSpec.UNIGRAM:
            return UnigramSampler(table, self._alpha).sample, crossing
        if proto.trainer_spec.model_type == pb2.TrainerSpec.BPE:
            return BpeDropout(table, self._alpha).sample, crossing
        raise ValueError(
            "sampling_alpha needs a SentencePiece model of type unigram or BPE; this one has whole "
            "words or characters. Set sampling_alpha to 0."
        )


class WordVocabulary:
    """Whole words, separated by white space. Any other word is unknown."""

    suffix: ClassVar[str] = ".vocab.tsv"
    pad_id: int = PAD_ID
    unk_id: int = UNK_ID
    bos_id: int = BOS_ID
    eos_id: int = EOS_ID

    def __init__(self, rows: Sequence[tuple[str, int]]) -> None:
        """Takes (word, count) rows; the first four are padding, unknown, start and end.

        Raises ValueError for fewer rows, an empty word, or one that comes twice.
        """
        if len(rows) <= EOS_ID:
            raise ValueError(
                "a word vocabulary starts with four rows for padding, unknown, start and end; "
                f"this one has only {len(rows)}"
            )
        self._rows = tuple(rows)
        self._words = tuple(word for word, _ in rows)
        self.size: int = len(rows)
        first_row: dict[str, int] = {}
        for row, word in enumerate(self._words):
            if not word:
                raise ValueError(f"row {row + 1} holds no word")
            if word in first_row:
                raise ValueError(f"rows {first_row[word] + 1} and {row + 1} both hold {word!r}")
            first_row[word] = row
        # A text that spells out a special token must not get it: "</s>" would end the sentence.
        self._ids = {word: row for word, row in first_row.items() if row > EOS_ID}

    @classmethod
    def read(cls, path: Path) -> "WordVocabulary":
        """Reads a file of `word<TAB>count` rows.

        Raises FileNotFoundError, or ValueError with the number of the bad row.
        """
        lines = read_lines(path)
        rows = []
        for index in range(lines.num_sentences):
            word, tab, count = lines.sentence(index).partition("\t")
            if not (tab and count.strip().isdecimal()):
                raise ValueError(
                    f"{path}, line {index + 1}: expected word<TAB>count, got "
                    f"{lines.sentence(index)[:80]!r}"
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
        """The most frequent words of `lines`, those with equal counts in alphabetic order.

        Args:
          lines: text with its words separated by white space.
          max_size: of the vocabulary, its four special tokens included.
          min_count: rarer words are left out.
          symbols: words that it has in any case, such as language tags.

        Raises ValueError if that leaves no word.
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
        return cls([(word, 0) for word in special] + frequent[: max(0, max_size - len(special))])

    def tokenize(self, text: str) -> list[int]:
        """Word ids of `text`, with EOS at the end and no BOS."""
        words = text.split()
        if len(words) == 1 and split_tag(words[0]) == (words[0], "") and words[0] in self._ids:
            words = []  # a tag before nothing is nothing
        ids = [self._ids.get(word, UNK_ID) for word in words]
        ids.append(EOS_ID)
        return ids

    def detokenize(self, ids: Iterable[SupportsInt]) -> str:
        """The words joined by spaces, up to the first EOS, without padding and BOS.

        An unknown word reads "<unk>".
        """
        kept = until_end(ids, EOS_ID, {PAD_ID, BOS_ID})
        words = (UNKNOWN_WORD if token == UNK_ID else self._words[token] for token in kept)
        return without_line_breaks(" ".join(words))

    def sample(self, text: str, random: Callable[[], float]) -> list[int]:
        """The same as `tokenize`: a word can be cut in one way only."""
        return self.tokenize(text)

    @property
    def pieces(self) -> tuple[str, ...]:
        """The word of every token id, special tokens as their rows name them."""
        return self._words

    def to_bytes(self) -> bytes:
        """The rows as a `word<TAB>count` file."""
        return "".join(f"{word}\t{count}\n" for word, count in self._rows).encode("utf-8")


def tokenize_texts(vocabulary: Vocabulary, texts: Sequence[str]) -> list[list[int]]:
    """Token ids of every text, as `vocabulary.tokenize` has them; quicker where it can be."""
    if isinstance(vocabulary, SentencePieceVocabulary):
        return vocabulary.tokenize_texts(texts)
    return [vocabulary.tokenize(text) for text in texts]


def _piece_table(pieces: Iterable[Any], unk_id: int) -> PieceTable:
    normal, user_defined, byte = 1, 4, 6  # ModelProto.SentencePiece.Type
    ids, scores, byte_ids = {}, {}, []
    for token, piece in enumerate(pieces):
        if piece.type == normal:
            ids[piece.piece], scores[piece.piece] = token, piece.score
        elif piece.type == byte:
            byte_ids.append(token)
        elif piece.type == user_defined and not languages_in([piece.piece]):
            raise ValueError(
                f"sampling does not know user-defined symbols such as {piece.piece!r} of this "
                "SentencePiece model. Set sampling_alpha to 0."
            )
    return PieceTable(ids, scores, tuple(byte_ids), unk_id)


def _words(normalised: str) -> list[str]:
    """Splits "▁a▁word" into "▁a" and "▁word"."""
    first, *others = normalised.split(_SPACE)
    return ([first] if first else []) + [_SPACE + word for word in others]


def until_end(ids: Iterable[SupportsInt], eos_id: int, silent: set[int]) -> list[int]:
    """The ids before the first EOS, without the silent ones."""
    kept = []
    for token in map(int, ids):
        if token == eos_id:
            break
        if token not in silent:
            kept.append(token)
    return kept


def without_line_breaks(text: str) -> str:
    """`text` with every line break that Python knows as a space."""
    return " ".join(text.splitlines())
