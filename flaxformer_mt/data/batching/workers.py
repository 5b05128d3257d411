"""Processes that sample the segmentations of each epoch, which takes most of the time for data.

A module of its own, because Grain imports jax if it is installed.
"""

import multiprocessing
import os
import sys
import threading
from typing import Any

import grain
from absl import flags

from flaxformer_mt.data.tokenization.tokenized import SubwordSampler, TokenizedPairs

# Pairs in a message between processes: at most a tenth of a second of work.
_CHUNK_SIZE = 1024


def split_into_chunks(sampler: SubwordSampler) -> list[range]:
    """Returns the numbers of all pairs, in chunks that `SubwordSampler.pairs_of` takes."""
    numbers = range(len(sampler.plain))
    return [numbers[start : start + _CHUNK_SIZE] for start in numbers[::_CHUNK_SIZE]]


class SampledEpochs:
    """Iterates over epochs; each is `SubwordSampler.pairs_of(epoch)`.

    The processes work a few chunks ahead. One thread may call `close` while another waits in
    `next`.

    Args:
      sampler: is copied to each process, with all of its text.
      first_epoch: of the iteration.
      num_workers: number of processes.
    """

    def __init__(self, sampler: SubwordSampler, *, first_epoch: int, num_workers: int):
        chunks = _Chunks(sampler, first_epoch)
        self._chunks_per_epoch = len(chunks.numbers)
        # Grain's workers read absl flags, which only `absl.app.run` parses.
        if not flags.FLAGS.is_parsed():
            flags.FLAGS.mark_as_parsed()
        unbuffered = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
        workers = grain.MultiprocessingOptions(num_workers=num_workers)
        dataset = grain.MapDataset.source(chunks).to_iter_dataset(unbuffered)
        self._chunks = iter(dataset.mp_prefetch(workers, worker_init_fn=_end_with_parent))
        # Grain's iterators are not thread-safe.
        self._lock, self._closed = threading.Lock(), False

    def __next__(self) -> TokenizedPairs:
        """Returns the pairs of the next epoch. Raises OSError if a process was killed."""
        return TokenizedPairs.concatenate(
            [self._next_chunk() for _ in range(self._chunks_per_epoch)]
        )

    def close(self) -> None:
        """Ends the processes. A thread that waits in `next` gets a ValueError."""
        self._closed = True
        with self._lock:
            self._chunks.close()

    def _next_chunk(self) -> TokenizedPairs:
        with self._lock:
            if self._closed:
                raise ValueError("these processes have been closed")
            try:
                return TokenizedPairs(*next(self._chunks))
            except RuntimeError as error:
                raise OSError(
                    "a process that samples subwords has ended. If memory ran out, lower "
                    f"data.num_workers: each process has a copy of the text ({error})"
                ) from error


class _Chunks:
    """The epochs from `first_epoch` on as one endless sequence of chunks."""

    def __init__(self, sampler: SubwordSampler, first_epoch: int):
        self._sampler, self._first_epoch = sampler, first_epoch
        self.numbers = split_into_chunks(sampler)

    def __len__(self) -> int:
        return sys.maxsize

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        epoch, chunk = divmod(index, len(self.numbers))
        pairs = self._sampler.pairs_of(self._first_epoch + epoch, self.numbers[chunk])
        return pairs.inputs, pairs.inputs_offsets, pairs.targets, pairs.targets_offsets


def _end_with_parent(worker: int, num_workers: int) -> None:
    """Ends a worker process with its parent; Grain's workers do not end if training is killed."""
    del worker, num_workers
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, name="watch-parent", daemon=True).start()
