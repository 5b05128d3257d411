"""The endless stream of training batches, prefetched by Grain, that can be put back where it was.

Apart from `pipeline.py` because Grain imports jax where it finds it: the rest of the data room, and
with it every configuration and the translator, loads without either.
"""

import sys
import threading
from concurrent.futures import Future, wait

import grain
import numpy as np

from flaxformer_mt.data.batching.batch import Batch
from flaxformer_mt.data.batching.plan import BatchPlan, Epochs, RowShare
from flaxformer_mt.data.batching.workers import SampledEpochs

# One thread suffices: it pads far faster than any model trains, and Python runs one at a time.
_READ_OPTIONS = grain.ReadOptions(num_threads=1, prefetch_buffer_size=8)


class BatchIterator(grain.DatasetIterator[Batch]):
    """Batches of one process, epoch after epoch without end, made in the background.

    The state is {"epoch": ..., "index": ...} of the batch that comes next: it counts batches handed
    out, never those merely prefetched. JSON can hold it. Once it is set, on any number of
    processes, the same global batches follow as did when it was taken.

    Args:
      epochs: what the batches are computed from.
      share: which rows of each batch this process reads; None = all.
      num_workers: processes that cut the text anew for each epoch, if that is asked for; 0 = a
        thread.
    """

    def __init__(
        self,
        epochs: Epochs,
        *,
        share: RowShare | None = None,
        num_workers: int = 0,
    ):
        super().__init__()
        self._epochs = epochs
        self._share = share
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
        """Where the next batch stands."""
        return dict(self._state)

    def set_state(self, state: dict[str, int]) -> None:
        """Goes to where `get_state` was called, in this or another process, forward or back.

        Raises:
          ValueError: not a state of this iterator.
        """
        if set(state) != {"epoch", "index"} or min(state.values()) < 0:
            raise ValueError(
                f"expected the state of a data iterator, {{'epoch': 0 or more, 'index': 0 or "
                f"more}}, got {state}; is the checkpoint from another version?"
            )
        self.close_prefetching()
        self._state = dict(state)

    def start_prefetch(self) -> None:
        """Begins to make batches before the first is asked for (while the model compiles, say)."""
        if self._prefetched is None:
            self._prefetched = self._start()
        self._prefetched.start_prefetch()

    def close(self) -> None:
        """Ends the background work."""
        self.close_prefetching()
        super().close()

    def close_prefetching(self) -> None:
        """Throws away what was prefetched; the next batch starts it again."""
        if self._prefetched is not None:
            self._prefetched.close()
            self._prefetched = None
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _start(self) -> grain.DatasetIterator[tuple[dict[str, int], Batch]]:
        self._stream = _Stream(
            self._epochs, **self._state, share=self._share, num_workers=self._num_workers
        )
        return iter(grain.MapDataset.source(self._stream).to_iter_dataset(_READ_OPTIONS))


class _Stream:
    """The batches from (epoch, index) on as one endless sequence, each with the state after it.

    Grain reads it onwards, from one thread. While an epoch is read, the next is planned beside it:
    with subword regularisation that takes seconds, for which training would otherwise stand still.
    """

    def __init__(
        self, epochs: Epochs, epoch: int, index: int, *, share: RowShare | None, num_workers: int
    ):
        self._epochs = epochs
        self._first_epoch = epoch
        self._first_index = index
        self._share = share
        # Of each epoch from the first on: the position after its last batch.
        self._ends: list[int] = []
        self._plans: dict[int, Future[BatchPlan]] = {}
        self._sampled: SampledEpochs | None = None
        if num_workers and epochs.resampler is not None:
            self._sampled = SampledEpochs(
                epochs.resampler,
                first_epoch=epoch if epochs.resamples(epoch) else epoch + 1,
                num_workers=num_workers,
            )

    def __len__(self) -> int:
        return sys.maxsize

    def __getitem__(self, index: int) -> tuple[dict[str, int], Batch]:
        position = index + self._first_index
        epoch = self._epoch_of(position)
        start = 0 if epoch == 0 else self._ends[epoch - 1]
        plan, step = self._plan(epoch), position - start
        rows = None if self._share is None else self._share(plan.shape(step))
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
                    "an epoch without a single batch: the weights leave no training pair; raise "
                    "them."
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
                wait([after])  # the workers give one epoch after the other
            try:
                planned.set_result(self._plan_epoch(self._first_epoch + epoch))
            except BaseException as error:
                planned.set_exception(error)

        # Not an executor: Python would wait for its threads before it ends.
        threading.Thread(target=plan, name="plan-epoch", daemon=True).start()
        return planned

    def _plan_epoch(self, epoch: int) -> BatchPlan:
        if self._sampled is not None and self._epochs.resamples(epoch):
            return self._epochs.plan(epoch, next(self._sampled))
        return self._epochs.plan(epoch)

    def close(self) -> None:
        """Ends the workers."""
        if self._sampled is not None:
            self._sampled.close()
