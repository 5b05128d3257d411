"""From a data configuration to batches: the way text takes, from files to the model's door.

    pair sources -> excluded lines left out -> tokenised once -> batch shapes -> a plan per epoch
    -> batches, prefetched

The order of the data is a function of the seed alone; see `plan.py`. Numpy only.
"""

import contextlib
import dataclasses
import functools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from jaxtyping import Int

from flaxformer_mt.data.batching.batch import Batch, BatchShape
from flaxformer_mt.data.batching.buckets import choose_bucket_shapes
from flaxformer_mt.data.batching.mixture import temperature_weights
from flaxformer_mt.data.batching.packing import pack_pairs, packed_shape
from flaxformer_mt.data.batching.plan import (
    BatchPlan,
    Epochs,
    RowShare,
    bucket_pairs,
    plan_in_order,
)
from flaxformer_mt.data.fingerprints import fingerprint_data
from flaxformer_mt.data.report import DataReport, SplitCounts, describe_side
from flaxformer_mt.data.sources.corpora import Corpus, CorpusConfig, open_corpus
from flaxformer_mt.data.sources.pair import Pair, PairSource
from flaxformer_mt.data.sources.selection import SelectedPairs, source_lines, without_lines
from flaxformer_mt.data.tokenization.tokenized import Resampler, TokenizedPairs, tokenize_source
from flaxformer_mt.data.tokenization.tokenizer import Tokenizer, TokenizerConfig, build_tokenizer

if TYPE_CHECKING:
    from flaxformer_mt.data.batching.iterator import BatchIterator

# Rows always divide by this, whatever the hardware: 1, 2, 4 and 8 devices have full rows alike.
_ROWS_MULTIPLE_OF = 8


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Which text to train, validate and test on, and how it is cut into batches."""

    directory: str = "."
    """Where the files named below lie."""
    source_language: str = "en"
    """Language translated from, as an ISO 639 code."""
    target_language: str = "de"
    """Language translated into, as an ISO 639 code."""
    train: CorpusConfig = CorpusConfig()
    """Text to learn from."""
    validation: CorpusConfig = CorpusConfig()
    """Text to watch progress on and choose the best checkpoint by."""
    test: CorpusConfig = CorpusConfig()
    """Text to report the final score on."""
    exclude: tuple[Literal["validation", "test"], ...] = ()
    """Leave training pairs out whose source line also stands in these sets."""
    tokenizer: TokenizerConfig = TokenizerConfig()
    """How text becomes token ids."""
    max_source_length: int = 256
    """Training pairs with more source tokens are dropped (and counted). The end token counts."""
    max_target_length: int = 256
    """Training pairs with more target tokens are dropped (and counted). The end token counts."""
    batching: Literal["bucket", "pack"] = "bucket"
    """"bucket": a pair a row, in batches of pairs of like lengths, of several shapes; "pack":
    several pairs in each row (they do not see each other), in batches of one shape, whose rows are
    max_source_length and max_target_length long: several times the usual sentence, and in
    proportion to the tokens of the languages, pads least."""
    tokens_per_batch: int = 4096
    """Bounds the source cells and the target cells of a batch each, padding included."""
    num_buckets: int = 16
    """Bucketing: at most so many batch shapes. More of them pad less; each is compiled once."""
    num_workers: int = 0
    """With tokenizer.sampling_alpha: processes that cut the text anew for each epoch, each with a
    copy of it; 0 = a thread, which is enough for some 10,000 pairs a second."""

    def __post_init__(self) -> None:
        for name, least in (
            ("max_source_length", 2),
            ("max_target_length", 2),
            ("tokens_per_batch", 1),
            ("num_buckets", 1),
            ("num_workers", 0),
        ):
            if getattr(self, name) < least:
                raise ValueError(
                    f"data.{name} must be at least {least}, got {getattr(self, name)}."
                )
        if self.batching not in ("bucket", "pack"):
            raise ValueError(f"data.batching is 'bucket' or 'pack', got {self.batching!r}.")
        self._check_languages()
        for split in self.exclude:
            if split not in ("validation", "test"):
                raise ValueError(f"data.exclude may hold 'validation' and 'test', got {split!r}.")
            if getattr(self, split) == CorpusConfig():
                raise ValueError(
                    f"data.exclude names {split!r}, but data.{split} lists no text; list it "
                    f"there, or take {split!r} out of data.exclude."
                )

    def _check_languages(self) -> None:
        """Raises ValueError unless held-out text has tags as the training text has them."""
        known = self.train.target_languages
        for split in ("validation", "test"):
            corpus: CorpusConfig = getattr(self, split)
            given = corpus.target_languages
            if (known and corpus.names and not given) or set(given) - set(known):
                raise ValueError(
                    f"data.{split}.target_languages must name the language of each corpus, out of "
                    f"those of data.train ({', '.join(dict.fromkeys(known)) or 'none'}), got "
                    f"{', '.join(given) or 'none'}."
                )


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Data:
    """Everything a training run reads. Made by `build_data`."""

    tokenizer: Tokenizer
    epochs: Epochs
    """The training pairs and how they are put into batches."""
    validation: tuple[Pair, ...]
    """Every validation pair as text, for BLEU: those too long or empty too."""
    validation_plan: BatchPlan
    """The batches of the validation loss."""
    test: tuple[Pair, ...]
    """Every test pair as text."""
    report: DataReport
    share: RowShare | None
    """Which rows of each batch this process reads; None = all."""
    num_workers: int

    @property
    def shapes(self) -> tuple[BatchShape, ...]:
        """Shapes of the global batches, over all processes, in ascending order."""
        return self.epochs.shapes

    @functools.cached_property
    def fingerprints(self) -> dict[str, str]:
        """Of the training corpora and of how they become batches; see `data.fingerprints`."""
        return fingerprint_data(self.report.corpora, self.epochs)

    def train_iterator(self) -> "BatchIterator":
        """This process's rows of the training batches, from the first epoch on, without end."""
        # Not above: Grain imports jax, for which who only wants a configuration should not wait.
        from flaxformer_mt.data.batching.iterator import BatchIterator

        return BatchIterator(self.epochs, share=self.share, num_workers=self.num_workers)

    def validation_batches(self) -> Iterator[Batch]:
        """This process's rows of one pass over the validation pairs, always in the same order."""
        plan = self.validation_plan
        for index in range(len(plan)):
            yield plan.batch(index, None if self.share is None else self.share(plan.shape(index)))


def build_data(
    config: DataConfig,
    *,
    tokenizer_directory: str,
    seed: int,
    share: RowShare | None = None,
) -> Data:
    """Reads and tokenises the text, and chooses the batch shapes.

    Args:
      config: what to read.
      tokenizer_directory: where the tokenizer is kept; learnt and written there the first time.
      seed: of the order of the data, and of subword regularisation.
      share: which rows of a batch of a shape this process reads; None = all. The batches
        themselves are the same whoever shares them.

    Raises:
      ValueError: text or settings that cannot be used, or that leave nothing to train on.
      FileNotFoundError: a file that is not there.
    """
    if seed < 0:
        raise ValueError(f"the seed must not be negative, got {seed}.")
    held_out = {
        "validation": read_pairs(config, config.validation),
        "test": read_pairs(config, config.test),
    }
    corpus = _open(config, config.train)
    if not corpus.sources:
        raise ValueError(
            "data.train lists no text; give text files as data.train.source and data.train.target, "
            "or other sources as data.train.pairs."
        )
    corpus, excluded = _exclude(corpus, held_out, config.exclude)
    tokenizer = build_tokenizer(
        config.tokenizer, corpus, directory=tokenizer_directory, data_directory=config.directory
    )
    train = _tokenize(config, corpus.sources, tokenizer)
    _check_any_left(train, excluded)
    weights = corpus.weights
    if config.train.temperature:
        weights = temperature_weights([len(text) for text in train.texts], config.train.temperature)
    validation = _tokenize(config, (held_out["validation"],), tokenizer)
    epochs = _plan_epochs(
        config,
        train,
        validation.pairs,
        tokenizer=tokenizer,
        weights=weights,
        seed=seed,
    )
    first_epoch = epochs.plan(0)
    if not len(first_epoch):
        raise ValueError(
            f"the weights {weights} leave an epoch of {len(train.pairs)} pairs without a "
            "single one; raise them in data.train.weights."
        )
    report = DataReport(
        corpora=tuple(corpus.names),
        weights=tuple(weights),
        train=_count(train, excluded),
        validation=_count(validation),
        test=SplitCounts(read=len(held_out["test"]), kept=len(held_out["test"])),
        source=describe_side("source", tokenizer.source, train.texts, train.pairs),
        target=describe_side("target", tokenizer.target, train.texts, train.pairs),
        shapes=epochs.shapes,
        padding=first_epoch.padding,
        pairs_per_row=first_epoch.pairs_per_row,
        steps_per_epoch=len(first_epoch),
    )
    return Data(
        tokenizer=tokenizer,
        epochs=epochs,
        validation=held_out["validation"],
        validation_plan=plan_in_order(validation.pairs, epochs.shapes, epochs.cut),
        test=held_out["test"],
        report=report,
        share=share,
        num_workers=config.num_workers,
    )


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class _Tokenized:
    """A corpus of one or more sources, tokenised."""

    texts: tuple[SelectedPairs, ...]
    """The usable pairs of each source, as text."""
    pairs: TokenizedPairs
    """The same, of all sources one after the other, as token ids."""
    dropped: Counter[str]
    """Pairs left out, by reason."""


def _open(config: DataConfig, corpus: CorpusConfig) -> Corpus:
    return open_corpus(
        corpus,
        directory=config.directory,
        source_language=config.source_language,
        target_language=config.target_language,
    )


def read_pairs(config: DataConfig, corpus: CorpusConfig) -> tuple[Pair, ...]:
    """All pairs of a validation or test set; none if the configuration lists no text for it."""
    sources = _open(config, corpus).sources
    return tuple(source[index] for source in sources for index in range(len(source)))


def _exclude(
    corpus: Corpus, held_out: Mapping[str, Sequence[Pair]], splits: Sequence[str]
) -> tuple[Corpus, Counter[str]]:
    """The corpus without pairs whose source line stands in one of `splits`; how many those were."""
    excluded: Counter[str] = Counter()
    for split in splits:
        lines = source_lines(held_out[split])
        selected = tuple(without_lines(source, lines) for source in corpus.sources)
        excluded[f"with a {split} line as source"] = sum(map(len, corpus.sources)) - sum(
            map(len, selected)
        )
        corpus = dataclasses.replace(corpus, sources=selected)
    return corpus, excluded


def _tokenize(
    config: DataConfig, sources: Sequence[PairSource], tokenizer: Tokenizer
) -> _Tokenized:
    parts = [
        tokenize_source(
            source,
            tokenizer,
            max_source_length=config.max_source_length,
            max_target_length=config.max_target_length,
        )
        for source in sources
    ]
    return _Tokenized(
        texts=tuple(
            SelectedPairs(source, part.kept) for source, part in zip(sources, parts, strict=True)
        ),
        pairs=TokenizedPairs.concatenate([part.pairs for part in parts]),
        dropped=sum((part.dropped for part in parts), Counter()),
    )


def _check_any_left(train: _Tokenized, excluded: Counter[str]) -> None:
    if not len(train.pairs):
        raise ValueError(
            f"no training pair is left: {_count(train, excluded)}. Check data.train, "
            f"data.max_source_length, data.max_target_length and data.exclude."
        )


def _count(split: _Tokenized, excluded: Counter[str] | None = None) -> SplitCounts:
    left_out = split.dropped + (excluded or Counter())
    return SplitCounts(
        read=len(split.pairs) + left_out.total(), kept=len(split.pairs), left_out=left_out
    )


def _plan_epochs(
    config: DataConfig,
    train: _Tokenized,
    validation: TokenizedPairs,
    *,
    tokenizer: Tokenizer,
    weights: Sequence[float],
    seed: int,
) -> Epochs:
    """Chooses the batch shapes, from the lengths that training and validation will really have."""
    resampler, first = None, train.pairs
    if config.tokenizer.sampling_alpha > 0:
        resampler = Resampler(
            texts=train.texts,
            plain=train.pairs,
            tokenizer=tokenizer,
            seed=seed,
            max_source_length=config.max_source_length,
            max_target_length=config.max_target_length,
        )
        first = _sample_first(resampler, config.num_workers)
    measured = (first, train.pairs, validation)
    shapes = choose_shapes(
        config,
        np.concatenate([pairs.source_lengths for pairs in measured]),
        np.concatenate([pairs.target_lengths for pairs in measured]),
    )
    if resampler is not None:
        resampler = dataclasses.replace(
            resampler,
            max_source_length=shapes[-1].source_length,
            max_target_length=shapes[-1].target_length,
        )
    epochs = Epochs(
        pairs=train.pairs,
        shapes=shapes,
        seed=seed,
        corpus_sizes=tuple(map(len, train.texts)),
        weights=tuple(weights),
        cut=pack_pairs if config.batching == "pack" else bucket_pairs,
        resampler=resampler,
    )
    # Kept: to sample and to pack it took seconds.
    return dataclasses.replace(epochs, first=epochs.plan(0, first))


def _sample_first(resampler: Resampler, num_workers: int) -> TokenizedPairs:
    """The pairs of the first epoch."""
    if not num_workers:
        return resampler.pairs_of(0)
    # Not above: Grain imports jax, for which who only wants a configuration should not wait.
    from flaxformer_mt.data.batching.workers import SampledEpochs

    with contextlib.closing(
        SampledEpochs(resampler, first_epoch=0, num_workers=num_workers)
    ) as epochs:
        return next(epochs)


def choose_shapes(
    config: DataConfig, source_lengths: Int[np.ndarray, "n"], target_lengths: Int[np.ndarray, "n"]
) -> tuple[BatchShape, ...]:
    """The shapes of batches of pairs of these lengths (in tokens), in ascending order.

    Raises:
      ValueError: data.tokens_per_batch is too small for them.
    """
    if config.batching == "pack":
        shape = packed_shape(
            max_source_length=config.max_source_length,
            max_target_length=config.max_target_length,
            tokens_per_batch=config.tokens_per_batch,
            rows_multiple_of=_ROWS_MULTIPLE_OF,
        )
        return (shape,)
    return choose_bucket_shapes(
        source_lengths,
        target_lengths,
        tokens_per_batch=config.tokens_per_batch,
        num_buckets=config.num_buckets,
        rows_multiple_of=_ROWS_MULTIPLE_OF,
    )
