"""The endless stream of training batches, prefetched by Grain, with a state to resume from.

This is a separate module because Grain imports jax, and configurations must load without jax.
"""

import threading
from concurrent.futures import Future

from grain.experimental import ThreadPrefetchDatasetIterator

from flaxformer_mt.data.batching.batch import Batch
from flaxformer_mt.data.batching.plan import BatchPlan, Epochs, ShardRows

_NUM_PREFETCHED = 8


class BatchIterator(ThreadPrefetchDatasetIterator[Batch]):
    """Iterates over the batches of one process, epoch after epoch without end.

    A thread makes the batches ahead of time. The state is a JSON object, {"epoch": ..., "index":
    ...}, of the next batch that `next` returns, not of prefetched batches. After `set_state`, the
    same global batches follow on any number of processes.

    Args:
      epochs: plans the epochs.
      shard_rows: selects the rows of each batch that this process reads; None = all rows.
    """

    def __init__(self, epochs: Epochs, *, shard_rows: ShardRows | None = None):
        self._batches = _Batches(epochs, shard_rows)
        super().__init__(self._batches, prefetch_buffer_size=_NUM_PREFETCHED)

    def get_state(self) -> dict[str, int]:
        """Returns epoch and index of the next batch."""
        return dict(super().get_state())

    def close(self) -> None:
        """Ends the background work."""
        self._batches.closed = True  # first, because Grain waits for its thread
        super().close()


class _Batches:
    """The batches in order. A thread plans the next epoch, because sampling takes seconds."""

    def __init__(self, epochs: Epochs, shard_rows: ShardRows | None):
        self.closed = False
        self._epochs, self._shard_rows = epochs, shard_rows
        self._epoch, self._index = 0, 0
        self._plans: dict[int, Future[BatchPlan]] = {}
        self._planning = threading.Lock()  # one epoch at a time

    def __iter__(self) -> "_Batches":
        return self

    def __next__(self) -> Batch:
        plan = self._plan(self._epoch)
        shape = plan.shape(self._index)
        rows = None if self._shard_rows is None else self._shard_rows(shape)
        batch = plan.batch(self._index, rows)
        self._index += 1
        if self._index == len(plan):
            self._epoch, self._index = self._epoch + 1, 0
        return batch

    def get_state(self) -> dict[str, int]:
        return {"epoch": self._epoch, "index": self._index}

    def set_state(self, state: dict[str, int]) -> None:
        if set(state) != {"epoch", "index"} or min(state.values()) < 0:
            raise ValueError(
                f"expected the state of a data iterator, {{'epoch': 0 or more, 'index': 0 or "
                f"more}}, got {state}; is the checkpoint from another version?"
            )
        self._epoch, self._index = state["epoch"], state["index"]

    def _plan(self, epoch: int) -> BatchPlan:
        wanted = (epoch, epoch + 1)
        self._plans = {e: self._plans.get(e) or self._start_planning(e) for e in wanted}
        plan = self._plans[epoch].result()
        if self._index < len(plan):
            return plan
        # The saved index is past the end: this epoch had more batches when the state was saved.
        self._epoch, self._index = epoch + 1, self._index - len(plan)
        return self._plan(self._epoch)

    def _start_planning(self, epoch: int) -> "Future[BatchPlan]":
        planned: Future[BatchPlan] = Future()

        def plan() -> None:
            try:
                with self._planning:
                    planned.set_result(self._epochs.plan(epoch, is_stopped=self._is_stopped))
            except BaseException as error:
                planned.set_exception(error)

        # If Python exits while a daemon thread runs SentencePiece, the process aborts. So this is
        # not a daemon thread: Python waits for it at exit, and `_is_stopped` ends it early.
        threading.Thread(target=plan, name="plan-epoch", daemon=False).start()
        return planned

    def _is_stopped(self) -> bool:
        return self.closed or not threading.main_thread().is_alive()
