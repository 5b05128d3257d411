"""The endless stream of training batches, prefetched by Grain, with a state to resume from.

A module of its own, because Grain imports jax if it is installed: configurations load without it.
"""

import sys
import threading
from concurrent.futures import Future, wait

import grain
import numpy as np

from flaxformer_mt.data.batching.batch import Batch
from flaxformer_mt.data.batching.plan import BatchPlan, Epochs, ShardRows
from flaxformer_mt.data.batching.workers import SampledEpochs, split_into_chunks
from flaxformer_mt.data.tokenization.tokenized import TokenizedPairs

# One thread is enough: it makes batches much faster than any model trains.
_READ_OPTIONS = grain.ReadOptions(num_threads=1, prefetch_buffer_size=8)


class BatchIterator(grain.DatasetIterator[Batch]):
    """Iterates over the batches of one process, epoch after epoch without end.

    A thread makes the batches ahead of time. The state, a JSON object, is {"epoch": ..., "index":
    ...} of the next batch that `next` returns; prefetched batches do not count. After `set_state`
    the same global batches follow, on any number of processes.

    Args:
      epochs: plans the epochs.
      shard_rows: selects the rows of each batch that this process reads; None = all rows.
      num_workers: processes for subword sampling; 0 = a thread.
    """

    def __init__(
        self,
        epochs: Epochs,
        *,
        shard_rows: ShardRows | None = None,
        num_workers: int = 0,
    ):
        super().__init__()
        self._epochs = epochs
        self._shard_rows = shard_rows
        self._num_workers = num_workers
        self._state = {"epoch": 0, "index": 0}
        self._stream: _Stream | None = None
        self._prefetched: grain.DatasetIterator[tuple[dict[str, int], Batch]] | None = None

    def __next__(self) -> Batch:
        if self._prefetched is None:
            self._prefetched = self._start()
        self._state, batch = next(self._prefetched)
        return batch

    def get_state(self) -> dict[str, int]:
        """Returns epoch and index of the next batch."""
        return dict(self._state)

    def set_state(self, state: dict[str, int]) -> None:
        """Continues at a state of `get_state`, of this or another process, forward or back.

        Raises:
          ValueError: this is no state of such an iterator.
        """
        if set(state) != {"epoch", "index"} or min(state.values()) < 0:
            raise ValueError(
                f"expected the state of a data iterator, {{'epoch': 0 or more, 'index': 0 or "
                f"more}}, got {state}; is the checkpoint from another version?"
            )
        self.close_prefetching()
        self._state = dict(state)

    def start_prefetch(self) -> None:
        """Starts to make batches before the first `next`, such as while the model compiles."""
        if self._prefetched is None:
            self._prefetched = self._start()
        self._prefetched.start_prefetch()

    def close(self) -> None:
        """Ends the background work."""
        self.close_prefetching()
        super().close()

    def close_prefetching(self) -> None:
        """Discards prefetched batches; the next call of `next` starts again."""
        if self._prefetched is not None:
            self._prefetched.close()
            self._prefetched = None
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _start(self) -> grain.DatasetIterator[tuple[dict[str, int], Batch]]:
        self._stream = _Stream(
            self._epochs,
            **self._state,
            shard_rows=self._shard_rows,
            num_workers=self._num_workers,
        )
        return iter(grain.MapDataset.source(self._stream).to_iter_dataset(_READ_OPTIONS))


class _Stream:
    """The batches from (epoch, index) on as an endless sequence, each with the state after it.

    Grain reads it in order, from one thread. Another thread plans the next epoch meanwhile, because
    with subword sampling this takes seconds.
    """

    def __init__(
        self,
        epochs: Epochs,
        epoch: int,
        index: int,
        *,
        shard_rows: ShardRows | None,
        num_workers: int,
    ):
        self._epochs = epochs
        self._first_epoch = epoch
        self._first_index = index
        self._shard_rows = shard_rows
        # The position after the last batch of each epoch, from the first epoch on.
        self._ends: list[int] = []
        self._plans: dict[int, Future[BatchPlan]] = {}
        self._closed = False
        self._sampled: SampledEpochs | None = None
        if num_workers and epochs.sampler is not None:
            self._sampled = SampledEpochs(
                epochs.sampler,
                first_epoch=epoch if epochs.needs_sampling(epoch) else epoch + 1,
                num_workers=num_workers,
            )

    def __len__(self) -> int:
        return sys.maxsize

    def __getitem__(self, index: int) -> tuple[dict[str, int], Batch]:
        position = index + self._first_index
        epoch = self._epoch_of(position)
        start = 0 if epoch == 0 else self._ends[epoch - 1]
        plan, step = self._plan(epoch), position - start
        rows = None if self._shard_rows is None else self._shard_rows(plan.shape(step))
        batch = plan.batch(step, rows)
        epoch += self._first_epoch
        if step + 1 < len(plan):
            return {"epoch": epoch, "index": step + 1}, batch
        return {"epoch": epoch + 1, "index": 0}, batch

    def _epoch_of(self, position: int) -> int:
        while not self._ends or position >= self._ends[-1]:
            plan = self._plan(len(self._ends))
            if len(plan) == 0:
                raise ValueError(
                    "an epoch has no batch, because its weights select no training pair; raise "
                    "data.train.weights."
                )
            self._ends.append((self._ends[-1] if self._ends else 0) + len(plan))
        return int(np.searchsorted(self._ends, position, side="right"))

    def _plan(self, epoch: int) -> BatchPlan:
        for e in (epoch, epoch + 1):
            if e not in self._plans:
                self._plans[e] = self._begin(e, after=self._plans.get(e - 1))
        self._plans.pop(epoch - 1, None)
        return self._plans[epoch].result()

    def _begin(self, epoch: int, *, after: "Future[BatchPlan] | None") -> "Future[BatchPlan]":
        planned: Future[BatchPlan] = Future()

        def plan() -> None:
            if after is not None:
                wait([after])  # the workers return one epoch after the other
            try:
                planned.set_result(self._plan_epoch(self._first_epoch + epoch))
            except BaseException as error:
                planned.set_exception(error)

        # A daemon thread in SentencePiece aborts the process when Python exits, so Python waits for
        # this thread, which stops early. A thread that waits for workers cannot stop.
        daemon = self._sampled is not None
        threading.Thread(target=plan, name="plan-epoch", daemon=daemon).start()
        return planned

    def _plan_epoch(self, epoch: int) -> BatchPlan:
        sampler = self._epochs.sampler
        if sampler is None or not self._epochs.needs_sampling(epoch):
            return self._epochs.plan(epoch)
        if self._sampled is not None:
            return self._epochs.plan(epoch, next(self._sampled))
        chunks = []
        for numbers in split_into_chunks(sampler):
            if self._closed or not threading.main_thread().is_alive():
                raise ValueError("this iterator has been closed")
            chunks.append(sampler.pairs_of(epoch, numbers))
        return self._epochs.plan(epoch, TokenizedPairs.concatenate(chunks))

    def close(self) -> None:
        """Ends the workers and the sampling."""
        self._closed = True
        if self._sampled is not None:
            self._sampled.close()
