"""Subword pieces of a SentencePiece unigram or BPE model."""

import functools
import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, SupportsInt

from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

from flaxformer_mt.data.sources.language_tags import languages_in, split_tag, tag_of
from flaxformer_mt.data.tokenization.config import TokenizerConfig
from flaxformer_mt.data.tokenization.subword_sampling import BpeDropout, PieceTable, UnigramSampler
from flaxformer_mt.data.tokenization.vocabulary import (
    BOS_ID,
    EOS_ID,
    PAD_ID,
    SPACE,
    UNK_ID,
    Vocabulary,
    until_end,
    without_line_breaks,
)
from flaxformer_mt.data.worker_processes import in_thread


def load_model(model: bytes) -> SentencePieceProcessor:
    """Returns the processor of a `.model` file. Raises ValueError if the bytes are not a model."""
    try:
        # b"none" is invalid. SentencePiece accepts an empty model without an error.
        processor = SentencePieceProcessor(model_proto=model or b"none")
    except RuntimeError as error:
        raise ValueError("not a SentencePiece model") from error
    if not processor.get_piece_size():
        raise ValueError("not a SentencePiece model: it is empty")
    return processor


class SentencePieceVocabulary(Vocabulary):
    """Subword pieces (Kudo and Richardson 2018), from a SentencePiece unigram or BPE model.

    An existing model keeps its ids. Special tokens that it lacks (T5 has no BOS, many models have
    no padding) get the ids after its last piece.
    """

    suffix: ClassVar[str] = ".model"

    def __init__(self, model: bytes, sampling_alpha: float = 0.0) -> None:
        """Loads a model.

        Args:
          model: content of a SentencePiece `.model` file.
          sampling_alpha: randomness of `sample`. 0 = none; unigram: exponent of the
            probabilities (smaller = more random); BPE: probability to skip a merge.

        Raises ValueError if the bytes are not a model.
        """
        self._model, self._alpha = model, sampling_alpha
        self._processor = processor = load_model(model)
        names = [processor.id_to_piece(token) for token in range(processor.get_piece_size())]
        self._tags = {
            tag_of(language): processor.piece_to_id(tag_of(language))
            for language in languages_in(names)
        }
        self.unk_id: int = processor.unk_id()
        self.pad_id: int = _find_or_add(names, processor.pad_id(), "<pad>")
        self.bos_id: int = _find_or_add(names, processor.bos_id(), "<s>")
        self.eos_id: int = _find_or_add(names, processor.eos_id(), "</s>")
        self.pieces: tuple[str, ...] = tuple(names)
        self.size: int = len(names)
        self._silent = {self.pad_id, self.bos_id}

    @classmethod
    def learn(
        cls, lines: Iterable[str], config: TokenizerConfig, *, symbols: Sequence[str] = ()
    ) -> "SentencePieceVocabulary":
        """Learns a model from `lines`. `symbols` are words to include, such as language tags.

        Raises ValueError if there is too little text, or too many characters for the vocabulary.
        """
        model, failed = io.BytesIO(), list[Exception]()

        def text() -> Iterator[str]:
            try:
                yield from lines
            except Exception as error:  # SentencePiece makes a RuntimeError of it
                failed.append(error)
                raise

        try:
            train = functools.partial(
                SentencePieceTrainer.train,
                sentence_iterator=text(),
                model_writer=model,
                model_type=config.model_type,
                vocab_size=config.vocab_size,
                max_sentence_length=1 << 30,  # by default, it omits lines of more than 4192 bytes
                hard_vocab_limit=False,  # little text gives fewer pieces, not an error
                byte_fallback=config.byte_fallback,
                character_coverage=config.character_coverage,
                normalization_rule_name=config.normalization,
                user_defined_symbols=list(symbols),
                pad_id=PAD_ID,
                unk_id=UNK_ID,
                bos_id=BOS_ID,
                eos_id=EOS_ID,
                minloglevel=2,  # errors only
            )
            in_thread(train)  # it can take minutes, and ignores signals
        except RuntimeError as error:
            if failed:
                raise failed[0] from None
            if match := re.search(r"smaller than required_chars. \d+ vs (\d+)", str(error)):
                of_bytes = "the 256 bytes of byte_fallback " if config.byte_fallback else ""
                raise ValueError(
                    f"vocab_size={config.vocab_size} is too small for this text: its characters, "
                    f"{of_bytes}and the special tokens alone are {match[1]}. Raise vocab_size, or "
                    f"lower character_coverage (from {config.character_coverage})."
                ) from error
            if "sentences_.empty()" in str(error) or "all_chars_count" in str(error):
                raise ValueError(
                    "there is no text to learn the vocabulary from: every training line is blank."
                ) from error
            raise ValueError(
                f"SentencePiece cannot learn a vocabulary from this text: {error}"
            ) from error
        return cls(model.getvalue(), config.sampling_alpha)

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickles the model without the caches of the sampler.
        return SentencePieceVocabulary, (self._model, self._alpha)

    def tokenize(self, text: str) -> list[int]:
        """Returns the piece ids of `text`, with EOS at the end and no BOS."""
        tag, text = self._split_tag(text)
        return self._join(tag, self._processor.encode(text))

    def tokenize_texts(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns `tokenize` of each text. It uses all cores."""
        if not self._tags:
            without_eos = self._processor.encode(list(texts))
            for ids in without_eos:
                ids.append(self.eos_id)
            return without_eos
        tags_and_texts = [self._split_tag(text) for text in texts]
        found = self._processor.encode([text for _, text in tags_and_texts])
        return [self._join(tag, ids) for (tag, _), ids in zip(tags_and_texts, found, strict=True)]

    def detokenize(self, ids: Iterable[SupportsInt]) -> str:
        """Returns the text of `ids` up to the first EOS, without padding and BOS.

        Line breaks, which byte pieces can spell, become spaces. An unknown piece becomes " ⁇ ".
        """
        return without_line_breaks(
            self._processor.decode(until_end(ids, self.eos_id, self._silent))
        )

    def sample(self, text: str, random: Callable[[], float]) -> list[int]:
        """Returns token ids of a random segmentation, or `tokenize(text)` if sampling is off."""
        if not self._alpha:
            return self.tokenize(text)
        tag, text = self._split_tag(text)
        sample, pieces_cross_spaces = self._sampler
        normalized = self._processor.normalize(text)
        ids: list[int] = []
        for segment in [normalized] if pieces_cross_spaces else _words(normalized):
            ids += sample(segment, random)
        return self._join(tag, ids)

    def to_bytes(self) -> bytes:
        """Returns the content of the model file."""
        return self._model

    def _split_tag(self, text: str) -> tuple[str, str]:
        """Returns (tag, text to segment); the tag is "" unless it is a piece of the vocabulary."""
        tag, rest = split_tag(text)
        return (tag, rest) if tag in self._tags else ("", text)

    def _join(self, tag: str, ids: list[int]) -> list[int]:
        """Adds the tag and EOS to token ids; drops a tag without text."""
        return [*([self._tags[tag]] if tag and ids else []), *ids, self.eos_id]

    @functools.cached_property
    def _sampler(self) -> tuple[Callable[[str, Callable[[], float]], list[int]], bool]:
        """The function that samples a segment, and whether pieces cross word boundaries."""
        # Imported here, because only sampling needs protobuf.
        from sentencepiece import sentencepiece_model_pb2

        pb2: Any = sentencepiece_model_pb2  # generated at run time: no types
        proto = pb2.ModelProto.FromString(self._model)
        table = _piece_table(proto.pieces, self.unk_id)
        crossing = any(SPACE in piece[1:] for piece in table.ids)
        if proto.trainer_spec.model_type == pb2.TrainerSpec.UNIGRAM:
            return UnigramSampler(table, self._alpha).sample, crossing
        if proto.trainer_spec.model_type == pb2.TrainerSpec.BPE:
            return BpeDropout(table, self._alpha).sample, crossing
        raise ValueError(
            "sampling_alpha needs a SentencePiece model of type unigram or BPE; this one has whole "
            "words or characters. Set sampling_alpha to 0."
        )


def _find_or_add(pieces: list[str], token: int, name: str) -> int:
    """Returns the id of a special token. If `token` is -1, adds `name` as the last piece."""
    if token >= 0:
        return token
    pieces.append(name)
    return len(pieces) - 1


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
                f"sampling does not support user-defined symbols such as {piece.piece!r} of this "
                "SentencePiece model. Set sampling_alpha to 0."
            )
    return PieceTable(ids, scores, tuple(byte_ids), unk_id)


def _words(normalized: str) -> list[str]:
    """Splits "▁a▁word" into "▁a" and "▁word"."""
    first, *others = normalized.split(SPACE)
    return ([first] if first else []) + [SPACE + word for word in others]
