"""Processes that cut text into tokens anew for each epoch: all that training waits for in its data.

Apart from the rest of the room because Grain imports jax where it finds it.
"""

import multiprocessing
import os
import sys
import threading
from typing import Any

import grain
from absl import flags

from flaxformer_mt.data.tokenization.tokenized import Resampler, TokenizedPairs

# A tenth of a second or less of work, which is worth the way between two processes.
_PAIRS_OF_A_PART = 1024


class SampledEpochs:
    """The pairs of one epoch after another, as `Resampler.pairs_of` has them.

    The processes are a few parts of an epoch ahead. One thread may close what another waits for.

    Args:
      resampler: goes to each process, with all of its text.
      first_epoch: which `next` gives first.
      num_workers: how many processes.
    """

    def __init__(self, resampler: Resampler, *, first_epoch: int, num_workers: int):
        parts = _Parts(resampler, first_epoch)
        self._num_parts = len(parts.of_an_epoch)
        # Grain's workers ask for absl flags, which only absl's own `app.run` would have parsed.
        if not flags.FLAGS.is_parsed():
            flags.FLAGS.mark_as_parsed()
        unbuffered = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
        workers = grain.MultiprocessingOptions(num_workers=num_workers)
        dataset = grain.MapDataset.source(parts).to_iter_dataset(unbuffered)
        self._parts = iter(dataset.mp_prefetch(workers, worker_init_fn=_end_with_parent))
        # Grain's iterators are for one thread at a time.
        self._lock, self._closed = threading.Lock(), False

    def __next__(self) -> TokenizedPairs:
        """Raises OSError if a process was ended from outside."""
        return TokenizedPairs.concatenate([self._next_part() for _ in range(self._num_parts)])

    def close(self) -> None:
        """Ends the processes; who waits for an epoch gets a ValueError."""
        self._closed = True
        with self._lock:
            self._parts.close()

    def _next_part(self) -> TokenizedPairs:
        with self._lock:
            if self._closed:
                raise ValueError("these processes have been closed")
            try:
                return TokenizedPairs(*next(self._parts))
            except RuntimeError as error:
                raise OSError(
                    "a process that samples subwords has ended; if memory ran out, give "
                    f"data.num_workers fewer of them, as each has a copy of the text ({error})"
                ) from error


class _Parts:
    """All epochs from one on as one endless sequence of parts, of which each worker makes some."""

    def __init__(self, resampler: Resampler, first_epoch: int):
        self._resampler, self._first_epoch = resampler, first_epoch
        numbers, size = range(len(resampler.plain)), _PAIRS_OF_A_PART
        self.of_an_epoch = [numbers[start : start + size] for start in numbers[::size]]

    def __len__(self) -> int:
        return sys.maxsize

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        epoch, part = divmod(index, len(self.of_an_epoch))
        pairs = self._resampler.pairs_of(self._first_epoch + epoch, self.of_an_epoch[part])
        return pairs.inputs, pairs.inputs_offsets, pairs.targets, pairs.targets_offsets


def _end_with_parent(worker: int, num_workers: int) -> None:
    """In each process: Grain's go on for ever if training is killed."""
    del worker, num_workers
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, name="watch-parent", daemon=True).start()
