"""From a data configuration to batches, in four stages.

    read       sources/         pairs of text, without excluded lines
    tokenize   tokenization/    token ids, once (or once an epoch with subword sampling)
    plan       batching/        batch shapes, and for each epoch which pairs are in which batch
    batch      batching/        padded arrays, prefetched

The order of the data is a function of the seed alone; see `plan.py`. NumPy only.
"""

import dataclasses
import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Int

from flaxformer_mt.data.batching.batch import Batch, BatchShape
from flaxformer_mt.data.batching.buckets import choose_bucket_shapes, num_rows
from flaxformer_mt.data.batching.packing import pack_pairs
from flaxformer_mt.data.batching.plan import (
    BatchPlan,
    Epochs,
    ShardRows,
    bucket_pairs,
    plan_in_order,
)
from flaxformer_mt.data.config import DataConfig
from flaxformer_mt.data.fingerprints import fingerprint_data
from flaxformer_mt.data.held_out import read_pairs
from flaxformer_mt.data.prepared.cache import prepare_large_text
from flaxformer_mt.data.report import DataReport, SplitCounts
from flaxformer_mt.data.sources.pair import Pair
from flaxformer_mt.data.tokenization.tokenized import SubwordSampler, TokenizedPairs, tokenize_pairs
from flaxformer_mt.data.tokenization.tokenizer import Tokenizer
from flaxformer_mt.data.training_text import (
    TrainingText,
    read_prepared,
    read_text,
)
from flaxformer_mt.storage.paths import AnyPath

if TYPE_CHECKING:
    from flaxformer_mt.data.batching.iterator import BatchIterator

# Fixed, so that 1, 2, 4 and 8 devices train on the same batches, without empty rows.
_ROWS_MULTIPLE_OF = 8


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Data:
    """All data of a training run. `build_data` makes it."""

    tokenizer: Tokenizer
    epochs: Epochs
    """The training pairs and how they become batches."""
    validation: tuple[Pair, ...]
    """Every validation pair as text, for BLEU. It includes pairs that are too long or empty."""
    validation_plan: BatchPlan
    """The batches of the validation loss. Pairs longer than all training shapes get another one."""
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
        """Hashes of the training corpora and of the batching settings; see `fingerprints`."""
        return fingerprint_data(self.report.corpora, self.epochs)

    def train_iterator(self) -> "BatchIterator":
        """Returns this process's rows of the training batches, epoch after epoch without end."""
        # Imported here, because Grain imports jax, which takes seconds.
        from flaxformer_mt.data.batching.iterator import BatchIterator

        return BatchIterator(self.epochs, shard_rows=self.shard_rows)

    def validation_batches(self, shard_rows: ShardRows | None = None) -> Iterator[Batch]:
        """Yields this process's rows of the validation batches, always in the same order.

        `shard_rows` replaces `self.shard_rows`, if validation partitions batches differently.
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
    num_prepare_processes: int = 0,
) -> Data:
    """Reads and tokenizes the text, and chooses the batch shapes.

    Args:
      config: what to read.
      tokenizer_directory: where the tokenizer is. The first run learns it and saves it there.
      seed: determines the order of the data and subword sampling.
      shard_rows: selects the rows of each batch that this process reads; None = all rows. It does
        not change the batches.
      quarantine: file that lists the bad records of the training text; None = only count them.
      num_prepare_processes: number of processes that prepare training text of more than
        `config.in_memory_mb`, once, in the user's cache; 0 = read text of any size into memory.

    Raises:
      ValueError: unusable text or settings, or no pair to train on.
      FileNotFoundError: a file does not exist.
    """
    if seed < 0:
        raise ValueError(f"the seed must not be negative, got {seed}.")
    held_out = {
        split: read_pairs(config, getattr(config, split)) for split in ("validation", "test")
    }
    if num_prepare_processes and not config.prepared:
        config = prepare_large_text(
            config, held_out, tokenizer_directory, quarantine, num_prepare_processes
        )
    if config.prepared:
        tokenizer, train = read_prepared(config, held_out, tokenizer_directory)
    else:
        tokenizer, train = read_text(config, held_out, tokenizer_directory, quarantine)
    validation, _, too_long = tokenize_pairs(
        held_out["validation"],
        tokenizer,
        max_source_length=config.max_source_length,
        max_target_length=config.max_target_length,
    )
    epochs = _plan_epochs(config, train, tokenizer, seed)
    if not len(epochs.plan(0)):
        raise ValueError(
            f"with the weights {train.weights} an epoch contains none of the {len(train.pairs)} "
            "pairs; raise data.train.weights."
        )
    return Data(
        tokenizer=tokenizer,
        epochs=epochs,
        validation=held_out["validation"],
        validation_plan=plan_in_order(
            validation,
            _with_room_for(validation, epochs.shapes, config.tokens_per_batch),
            epochs.batcher,
        ),
        test=held_out["test"],
        report=_report(
            train,
            SplitCounts(read=len(held_out["validation"]), kept=len(validation), dropped=too_long),
            len(held_out["test"]),
            epochs,
        ),
        shard_rows=shard_rows,
    )


def _report(
    train: TrainingText, validation: SplitCounts, num_test: int, epochs: Epochs
) -> DataReport:
    first_epoch = epochs.plan(0)
    return DataReport(
        corpora=train.names,
        weights=train.weights,
        train=train.counts,
        validation=validation,
        test=SplitCounts(read=num_test, kept=num_test),
        source=train.sides[0],
        target=train.sides[1],
        shapes=epochs.shapes,
        padding=first_epoch.padding,
        pairs_per_row=first_epoch.pairs_per_row,
        steps_per_epoch=len(first_epoch) * epochs.num_parts,
        first_bad=train.first_bad,
        quarantine=train.quarantine,
    )


def _plan_epochs(
    config: DataConfig, train: TrainingText, tokenizer: Tokenizer, seed: int
) -> Epochs:
    """Chooses the batch shapes for the lengths of the training text, including sampled lengths.

    The shapes do not depend on the validation text, so that it can change between runs.
    """
    sampler = None
    if config.tokenizer.sampling_alpha > 0:
        sampler = SubwordSampler(
            text=train.text,
            plain=train.pairs,
            tokenizer=tokenizer,
            seed=seed,
            max_source_length=config.max_source_length,
            max_target_length=config.max_target_length,
            num_workers=config.num_workers,
        )
    epochs = Epochs(
        pairs=train.pairs,
        shapes=(),
        seed=seed,
        corpus_sizes=train.sizes,
        weights=train.weights,
        batcher=pack_pairs if config.batching == "pack" else bucket_pairs,
        sampler=sampler,
        part_size=train.part_size,
    )
    first = epochs.sample(0)
    measured = [train.pairs.length_counts()]
    if sampler is not None:
        measured.append(first.length_counts())
    shapes = choose_shapes(config, *np.concatenate(measured).T)
    if sampler is not None:
        sampler = dataclasses.replace(
            sampler,
            max_source_length=shapes[-1].source_length,
            max_target_length=shapes[-1].target_length,
        )
    epochs = dataclasses.replace(epochs, shapes=shapes, sampler=sampler)
    # Keeps the plan of epoch 0, because sampling and packing take seconds.
    return dataclasses.replace(epochs, first=epochs.plan(0, first))


def _with_room_for(
    pairs: TokenizedPairs, shapes: tuple[BatchShape, ...], tokens_per_batch: int
) -> tuple[BatchShape, ...]:
    """Returns the shapes, and a larger one if some pairs do not fit the largest."""
    largest = shapes[-1]
    source = int(pairs.source_lengths.max(initial=largest.source_length))
    target = int(pairs.target_lengths.max(initial=largest.target_length))
    if (source, target) == (largest.source_length, largest.target_length):
        return shapes
    longest = max(source, target)
    tokens = max(tokens_per_batch, _ROWS_MULTIPLE_OF * longest)  # a long line must not end a run
    rows = num_rows(longest, tokens, _ROWS_MULTIPLE_OF)
    return (*shapes, BatchShape(rows, source, target))


def choose_shapes(
    config: DataConfig,
    source_lengths: Int[np.ndarray, "n"],
    target_lengths: Int[np.ndarray, "n"],
    counts: Int[np.ndarray, "n"] | None = None,
) -> tuple[BatchShape, ...]:
    """Returns the batch shapes for pairs of these lengths (in tokens), in ascending order.

    `counts` is the number of pairs with each pair of lengths; None = one each.

    Raises:
      ValueError: data.tokens_per_batch is too small for the longest pair.
    """
    if config.batching == "pack":
        source, target = config.max_source_length, config.max_target_length
        rows = num_rows(max(source, target), config.tokens_per_batch, _ROWS_MULTIPLE_OF)
        return (BatchShape(rows, source, target),)
    return choose_bucket_shapes(
        source_lengths,
        target_lengths,
        counts,
        tokens_per_batch=config.tokens_per_batch,
        num_buckets=config.num_buckets,
        rows_multiple_of=_ROWS_MULTIPLE_OF,
    )
