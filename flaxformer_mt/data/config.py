"""The configuration `data`: which text a run reads, and how it becomes batches."""

import dataclasses
from typing import Literal

from flaxformer_mt.data.sources.corpora import CorpusConfig
from flaxformer_mt.data.sources.quarantine import parse_share
from flaxformer_mt.data.tokenization.config import TokenizerConfig
from flaxformer_mt.storage.dataclass_json import NOT_NEGATIVE, POSITIVE_INT, Bounds, check_fields

_BOUNDS = {
    **dict.fromkeys(("max_source_length", "max_target_length"), Bounds(2)),
    **dict.fromkeys(("tokens_per_batch", "num_buckets"), POSITIVE_INT),
    **dict.fromkeys(("num_workers", "in_memory_mb"), NOT_NEGATIVE),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Which text to train, validate and test on, and how it becomes batches."""

    directory: str = "."
    """Base directory of the relative file names below."""
    source_language: str = "en"
    """Source language, as an ISO 639 code."""
    target_language: str = "de"
    """Target language, as an ISO 639 code."""
    train: CorpusConfig = CorpusConfig()
    """Training text."""
    validation: CorpusConfig = CorpusConfig()
    """Text that measures progress and selects the best checkpoint. It does not change the training
    batches (except through `exclude`)."""
    test: CorpusConfig = CorpusConfig()
    """Text for the final score."""
    prepared: str = ""
    """Directory that `python -m flaxformer_mt.prepare` wrote. Training reads its token ids instead
    of the text of data.train, and needs little memory for any number of pairs."""
    in_memory_mb: int = 32
    """Training text of less than this many megabytes stays in memory (compressed text counts four
    times), and is tokenized at each start, which takes seconds. The first start of `train` prepares
    larger text, once, in ~/.cache/flaxformer_mt/prepared. Both give the same batches (see
    docs/scale.md)."""
    exclude: tuple[Literal["validation", "test"], ...] = ()
    """Drop training pairs whose source line is also in these sets."""
    max_bad_share: str = "5%"
    """Largest share of bad records in a training corpus: wrong number of columns, invalid UTF-8 or
    JSON, an empty side. They are dropped, and listed in quarantine.jsonl in the workdir. A larger
    share ends the run. 0 allows none, 100% any number."""
    tokenizer: TokenizerConfig = TokenizerConfig()
    """How text becomes token ids."""
    max_source_length: int = 256
    """Training pairs with more source tokens, EOS included, are dropped (and counted)."""
    max_target_length: int = 256
    """Training pairs with more target tokens, EOS included, are dropped (and counted)."""
    batching: Literal["bucket", "pack"] = "bucket"
    """"bucket": one pair per row, pairs of similar lengths per batch, several batch shapes.
    "pack": several pairs per row (they do not attend to each other), one batch shape. Its rows have
    max_source_length and max_target_length tokens. Padding is lowest if these lengths are several
    times the usual sentence length."""
    tokens_per_batch: int = 4096
    """Largest number of source tokens in a batch, and of target tokens, padding included."""
    num_buckets: int = 16
    """Bucketing: largest number of batch shapes. More shapes pad less; each is compiled once."""
    num_workers: int = 0
    """With tokenizer.sampling_alpha: number of processes that sample segmentations. Each has a copy
    of the text. Their start takes seconds in each epoch. 0 = one thread, which samples about 10,000
    pairs a second."""

    def __post_init__(self) -> None:
        check_fields(self, "data", _BOUNDS)
        parse_share(self.max_bad_share)
        self._check_languages()
        for split in self.exclude:
            if getattr(self, split) == CorpusConfig():
                raise ValueError(
                    f"data.exclude names {split!r}, but data.{split} lists no text; list it "
                    f"there, or remove {split!r} from data.exclude."
                )

    def _check_languages(self) -> None:
        """Raises ValueError unless the training text has every target language of held-out text."""
        known = self.train.target_languages
        for split in ("validation", "test"):
            corpus: CorpusConfig = getattr(self, split)
            given = corpus.target_languages
            if (known and corpus.names and not given) or set(given) - set(known):
                raise ValueError(
                    f"data.{split}.target_languages must name the language of each corpus, one of "
                    f"those of data.train ({', '.join(dict.fromkeys(known)) or 'none'}), got "
                    f"{', '.join(given) or 'none'}."
                )
