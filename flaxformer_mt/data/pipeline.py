"""From a data configuration to batches, in four stages.

    read       sources/         pairs of text, without excluded lines
    tokenize   tokenization/    token ids, once (or once an epoch with subword sampling)
    plan       batching/        batch shapes, and for each epoch which pairs are in which batch
    batch      batching/        padded arrays, prefetched

The order of the data is a function of the seed alone; see `plan.py`. NumPy only.
"""

import dataclasses
import functools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Int

from flaxformer_mt.data.batching.batch import Batch, BatchShape
from flaxformer_mt.data.batching.buckets import choose_bucket_shapes, num_rows
from flaxformer_mt.data.batching.mixture import temperature_weights
from flaxformer_mt.data.batching.packing import pack_pairs, packed_shape
from flaxformer_mt.data.batching.plan import (
    BatchPlan,
    Epochs,
    ShardRows,
    bucket_pairs,
    plan_in_order,
)
from flaxformer_mt.data.config import DataConfig
from flaxformer_mt.data.fingerprints import fingerprint_data
from flaxformer_mt.data.report import DataReport, SplitCounts, describe_side
from flaxformer_mt.data.sources.corpora import Corpus, CorpusConfig, open_corpus, set_aside
from flaxformer_mt.data.sources.pair import Pair, PairSource
from flaxformer_mt.data.sources.quarantine import count_kinds
from flaxformer_mt.data.sources.selection import SelectedPairs, source_lines, without_lines
from flaxformer_mt.data.tokenization.tokenized import (
    SubwordSampler,
    TokenizedPairs,
    tokenize_source,
)
from flaxformer_mt.data.tokenization.tokenizer import Tokenizer, build_tokenizer
from flaxformer_mt.storage.paths import AnyPath

if TYPE_CHECKING:
    from flaxformer_mt.data.batching.iterator import BatchIterator

# On every hardware, so that 1, 2, 4 and 8 devices train on the same batches without empty rows.
_ROWS_MULTIPLE_OF = 8


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Data:
    """Everything a training run reads. Made by `build_data`."""

    tokenizer: Tokenizer
    epochs: Epochs
    """The training pairs and how they become batches."""
    validation: tuple[Pair, ...]
    """Every validation pair as text, for BLEU, including too long and empty ones."""
    validation_plan: BatchPlan
    """The batches of the validation loss: those of training, and one shape for longer pairs."""
    test: tuple[Pair, ...]
    """Every test pair as text."""
    report: DataReport
    shard_rows: ShardRows | None
    """Selects the rows of each batch that this process reads; None = all rows."""

    @property
    def shapes(self) -> tuple[BatchShape, ...]:
        """Shapes of the global batches, over all processes, in ascending order."""
        return self.epochs.shapes

    @functools.cached_property
    def fingerprints(self) -> dict[str, str]:
        """Hashes of the training corpora and of how they become batches; see `fingerprints`."""
        return fingerprint_data(self.report.corpora, self.epochs)

    def train_iterator(self) -> "BatchIterator":
        """Returns this process's rows of the training batches, epoch after epoch without end."""
        # Imported here, because Grain imports jax, which takes seconds.
        from flaxformer_mt.data.batching.iterator import BatchIterator

        return BatchIterator(self.epochs, shard_rows=self.shard_rows)

    def validation_batches(self, shard_rows: ShardRows | None = None) -> Iterator[Batch]:
        """Yields this process's rows of the validation batches, always in the same order.

        `shard_rows` replaces that of the data, for another partition than that of training.
        """
        plan, shard_rows = self.validation_plan, shard_rows or self.shard_rows
        for index in range(len(plan)):
            yield plan.batch(index, None if shard_rows is None else shard_rows(plan.shape(index)))


def build_data(
    config: DataConfig,
    *,
    tokenizer_directory: str,
    seed: int,
    shard_rows: ShardRows | None = None,
    quarantine: AnyPath | None = None,
) -> Data:
    """Reads and tokenizes the text, and chooses the batch shapes.

    Args:
      config: what to read.
      tokenizer_directory: of the tokenizer, which is learnt and saved there the first time.
      seed: of the order of the data and of subword sampling.
      shard_rows: selects the rows of each batch that this process reads; None = all rows. It does
        not change the batches.
      quarantine: file to list the bad records of the training text in; None = they are counted
        only.

    Raises:
      ValueError: unusable text or settings, or no pair to train on.
      FileNotFoundError: a file does not exist.
    """
    if seed < 0:
        raise ValueError(f"the seed must not be negative, got {seed}.")
    held_out = {
        "validation": read_pairs(config, config.validation),
        "test": read_pairs(config, config.test),
    }
    corpus = _open(config, config.train, screened=True)
    if not corpus.sources:
        raise ValueError(
            "data.train lists no text; give text files as data.train.source and data.train.target, "
            "or other sources as data.train.pairs."
        )
    bad = set_aside(corpus, config.max_bad_share, quarantine)
    corpus, excluded = _exclude(corpus, held_out, config.exclude)
    excluded += count_kinds(bad)
    tokenizer = build_tokenizer(
        config.tokenizer, corpus, directory=tokenizer_directory, data_directory=config.directory
    )
    train = _tokenize(config, corpus.sources, tokenizer)
    if not len(train.pairs):
        raise ValueError(
            f"no training pair is left: {_count(train, excluded)}. Check data.train, "
            f"data.max_source_length, data.max_target_length and data.exclude."
        )
    weights = corpus.weights
    if config.train.temperature:
        weights = temperature_weights([len(text) for text in train.texts], config.train.temperature)
    validation = _tokenize(config, (held_out["validation"],), tokenizer)
    epochs = _plan_epochs(
        config,
        train,
        tokenizer=tokenizer,
        weights=weights,
        seed=seed,
    )
    first_epoch = epochs.plan(0)
    if not len(first_epoch):
        raise ValueError(
            f"with the weights {weights} an epoch contains none of the {len(train.pairs)} pairs; "
            "raise data.train.weights."
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
        first_bad=str(bad[0]) if bad else "",
        quarantine=str(quarantine or "") if bad else "",
    )
    return Data(
        tokenizer=tokenizer,
        epochs=epochs,
        validation=held_out["validation"],
        validation_plan=plan_in_order(
            validation.pairs,
            _with_room_for(validation.pairs, epochs.shapes, config.tokens_per_batch),
            epochs.batcher,
        ),
        test=held_out["test"],
        report=report,
        shard_rows=shard_rows,
    )


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class _Tokenized:
    """A corpus of one or more sources, tokenized."""

    texts: tuple[SelectedPairs, ...]
    """The kept pairs of each source, as text."""
    pairs: TokenizedPairs
    """The same pairs, of all sources one after the other, as token ids."""
    dropped: Counter[str]
    """Numbers of dropped pairs by reason."""


def _open(config: DataConfig, corpus: CorpusConfig, *, screened: bool = False) -> Corpus:
    return open_corpus(
        corpus,
        directory=config.directory,
        source_language=config.source_language,
        target_language=config.target_language,
        screened=screened,
    )


def read_pairs(config: DataConfig, corpus: CorpusConfig) -> tuple[Pair, ...]:
    """Returns all pairs of a validation or test set; none if the configuration lists no text."""
    sources = _open(config, corpus).sources
    return tuple(source[index] for source in sources for index in range(len(source)))


def _exclude(
    corpus: Corpus, held_out: Mapping[str, Sequence[Pair]], splits: Sequence[str]
) -> tuple[Corpus, Counter[str]]:
    """Drops pairs whose source line is in one of `splits`, and counts them."""
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


def _count(split: _Tokenized, excluded: Counter[str] | None = None) -> SplitCounts:
    dropped = split.dropped + (excluded or Counter())
    kept = len(split.pairs)
    return SplitCounts(read=kept + dropped.total(), kept=kept, dropped=dropped)


def _plan_epochs(
    config: DataConfig,
    train: _Tokenized,
    *,
    tokenizer: Tokenizer,
    weights: Sequence[float],
    seed: int,
) -> Epochs:
    """Chooses the batch shapes for the lengths of the training text, sampled too.

    They do not depend on other text, so that another validation set trains on the same batches.
    """
    sampler, first = None, train.pairs
    if config.tokenizer.sampling_alpha > 0:
        sampler = SubwordSampler(
            texts=train.texts,
            plain=train.pairs,
            tokenizer=tokenizer,
            seed=seed,
            max_source_length=config.max_source_length,
            max_target_length=config.max_target_length,
            num_workers=config.num_workers,
        )
        first = sampler.pairs_of(0)
    measured = (first, train.pairs)
    shapes = choose_shapes(
        config,
        np.concatenate([pairs.source_lengths for pairs in measured]),
        np.concatenate([pairs.target_lengths for pairs in measured]),
    )
    if sampler is not None:
        sampler = dataclasses.replace(
            sampler,
            max_source_length=shapes[-1].source_length,
            max_target_length=shapes[-1].target_length,
        )
    epochs = Epochs(
        pairs=train.pairs,
        shapes=shapes,
        seed=seed,
        corpus_sizes=tuple(map(len, train.texts)),
        weights=tuple(weights),
        batcher=pack_pairs if config.batching == "pack" else bucket_pairs,
        sampler=sampler,
    )
    # Planned once, because sampling and packing take seconds.
    return dataclasses.replace(epochs, first=epochs.plan(0, first))


def _with_room_for(
    pairs: TokenizedPairs, shapes: tuple[BatchShape, ...], tokens_per_batch: int
) -> tuple[BatchShape, ...]:
    """Returns the shapes, and one more if some of the pairs are longer than the largest."""
    source, target = (
        max([length, *lengths.tolist()])
        for length, lengths in zip(
            shapes[-1][1:], (pairs.source_lengths, pairs.target_lengths), strict=True
        )
    )
    if (source, target) == shapes[-1][1:]:
        return shapes
    rows = num_rows(max(source, target), tokens_per_batch, _ROWS_MULTIPLE_OF)
    return (*shapes, BatchShape(rows, source, target))


def choose_shapes(
    config: DataConfig, source_lengths: Int[np.ndarray, "n"], target_lengths: Int[np.ndarray, "n"]
) -> tuple[BatchShape, ...]:
    """Returns the batch shapes for pairs of these lengths (in tokens), in ascending order.

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
