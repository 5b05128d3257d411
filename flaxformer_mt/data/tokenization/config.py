"""The configuration of the tokenizer: how text becomes token ids."""

import dataclasses
from typing import Literal

from flaxformer_mt.data.tokenization.vocabulary import EOS_ID

_FILE_FIELDS = {
    "sentencepiece": ("source_model", "target_model"),
    "word": ("source_vocab", "target_vocab"),
    "marian": ("source_model",),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenizerConfig:
    """How text becomes token ids. Vocabularies are learnt from the training text."""

    kind: Literal["sentencepiece", "word", "marian"] = "sentencepiece"
    """"sentencepiece": subword pieces; "word": words, separated by spaces; "marian": the
    vocabularies of a Hugging Face Marian model, which cannot be learnt here."""
    shared: bool = True
    """One vocabulary for both languages, learnt from both (section 5.1); False = one for each."""
    vocab_size: int = 8000
    """Size of a learnt vocabulary, special tokens included. Little text may give fewer tokens."""
    model_type: Literal["unigram", "bpe"] = "unigram"
    """SentencePiece: the algorithm that finds the pieces."""
    byte_fallback: bool = True
    """SentencePiece: encode rare characters as bytes (256 more ids), so that nothing is unknown."""
    character_coverage: float = 1.0
    """SentencePiece: share of the characters of the text that get a piece. Use 0.9995 for Chinese
    and Japanese: their rarest characters would fill the vocabulary."""
    normalization: Literal["nmt_nfkc", "nmt_nfkc_cf", "nfkc", "nfkc_cf", "identity"] = "nmt_nfkc"
    """SentencePiece: Unicode normalisation of the text; "_cf" also lower-cases. All but "identity"
    replace Chinese punctuation with Western, so use "identity" for a Chinese target."""
    max_lines: int = 100_000
    """SentencePiece: learn from at most this many random pairs; 0 = all."""
    min_count: int = 1
    """Words: a learnt vocabulary contains words that the training text has at least this often."""
    source_model: str = ""
    """SentencePiece: an existing .model file for the source (if shared, for both); "" = learn one.
    Marian: the directory with source.spm, target.spm and vocab.json."""
    target_model: str = ""
    """SentencePiece: an existing .model file for the target; "" = learn one."""
    source_vocab: str = ""
    """Words: an existing file of word<TAB>count rows for the source (if shared, for both). Its
    first four rows are padding, unknown, start and end. "" = learn one."""
    target_vocab: str = ""
    """Words: the same kind of file for the target; "" = learn one."""
    sampling_alpha: float = 0.0
    """Subword regularisation: a new random segmentation of the training text in each epoch;
    0 = off. Unigram: exponent of the probabilities, 0.1 to 0.5 (smaller = more random). BPE:
    probability to skip a merge, such as 0.1."""

    def __post_init__(self) -> None:
        for name, valid, rule in (
            ("vocab_size", self.vocab_size > EOS_ID + 1, "more than the 4 special tokens"),
            ("character_coverage", 0 < self.character_coverage <= 1, "above 0 and at most 1"),
            ("max_lines", self.max_lines >= 0, "0 (all) or positive"),
            ("min_count", self.min_count >= 1, "at least 1"),
            ("sampling_alpha", 0 <= self.sampling_alpha < 1, "0 (off) or between 0 and 1"),
        ):
            if not valid:
                raise ValueError(f"{name} must be {rule}, got {getattr(self, name)}.")
        allowed = _FILE_FIELDS[self.kind]
        for name in ("source_model", "target_model", "source_vocab", "target_vocab"):
            if getattr(self, name) and name not in allowed:
                raise ValueError(
                    f"{name}={getattr(self, name)!r} does not go with kind={self.kind!r}: "
                    "SentencePiece takes source_model and target_model, words take source_vocab "
                    "and target_vocab, Marian takes source_model (a directory)."
                )
        if self.kind != "sentencepiece" and self.sampling_alpha:
            raise ValueError(
                f"sampling_alpha needs kind='sentencepiece', got kind={self.kind!r}: set it to 0."
            )
        source, target = self.existing_files()
        if self.shared and source and target and source != target:
            raise ValueError(
                "shared=True is one vocabulary for both languages, but two files are given, "
                f"{source} and {target}. Give one of them, or set shared=False."
            )

    def existing_files(self) -> tuple[str, str]:
        """Returns the existing file of each side, or ""."""
        return self.source_model or self.source_vocab, self.target_model or self.target_vocab
