"""Several processes as one run: how they find each other, and what they tell each other.

Each drives the devices of its own machine. JAX finds the others by itself in a TPU pod slice, under
SLURM (`srun`) and under Open MPI; elsewhere three environment variables say where they are:

    JAX_COORDINATOR_ADDRESS=host:port  JAX_NUM_PROCESSES=2  JAX_PROCESS_ID=0   (of the second: 1)
"""

import contextlib
import glob
import importlib.util
import itertools
import os
import pickle
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import jax
import numpy as np
from absl import flags
from jax.experimental import multihost_utils
from orbax.checkpoint.multihost import sync_global_processes

T = TypeVar("T")

_HOURS = 24 * 3600  # in seconds
_meetings = itertools.count()  # each needs a name of its own

_EXPLICIT = ("JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID")
# How many tasks SLURM and Open MPI started; of one there is nobody to be found.
_TASKS = ("SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE")


def connect() -> None:
    """Joins the other processes of this run, if there are any; before JAX is used otherwise.

    Raises:
      ValueError: the environment variables contradict each other: says how.
      OSError: the others do not answer.
    """
    if jax.distributed.is_initialized():
        return
    explicit = _explicit_place()
    if not explicit and not _in_cluster():
        return
    jax.config.update("jax_cpu_collectives_implementation", "gloo")  # only CPUs heed it
    try:
        jax.distributed.initialize(**explicit)
    except Exception as error:
        if not explicit and _is_tpu_vm():  # a TPU of one machine: nobody to be found
            return
        raise OSError(f"could not join the other processes of this run: {error}") from error
    _let_orbax_wait_without_devices()


def _let_orbax_wait_without_devices() -> None:
    """Its barriers are sums over all devices, from any thread, unless it is told otherwise.

    Between CPUs, two sums that meet in another order in another process end both.
    """
    flags.FLAGS.experimental_orbax_use_distributed_barrier = True
    if not flags.FLAGS.is_parsed():  # only absl's own `app.run` would have parsed them
        flags.FLAGS.mark_as_parsed()


@contextlib.contextmanager
def exit_if_peer_lost() -> Iterator[None]:
    """Of several processes: when another one is gone, says so and ends this one as well, at once.

    It could only wait for the other, and a scheduler would pay for that.
    """
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        if jax.process_count() == 1:
            raise
        reason = str(error).splitlines()[0]
        print(
            f"error: another process of this run is gone, or cannot be reached ({reason}). Start "
            "all of them again: the same command goes on from the newest checkpoint.",
            file=sys.stderr,
            flush=True,
        )
        os._exit(1)  # not sys.exit, which would wait for the others


def is_first() -> bool:
    """Whether this process speaks and writes for all."""
    return jax.process_index() == 0


def barrier() -> None:
    """Waits, for hours if need be, until all processes are here.

    To be called before they exchange arrays wherever one may come much later than another: that
    fails after half a minute between CPUs.
    """
    if jax.process_count() == 1:
        return
    everyone = set(range(jax.process_count()))
    sync_global_processes(f"meeting {next(_meetings)}", timeout=_HOURS, processes=everyone)


def first_then_others(work: Callable[[], T]) -> T:
    """Does `work` in the first process, then in all others: what it writes, they find.

    Raises:
      OSError: in the others, where it failed in the first, which says why.
    """
    if jax.process_count() == 1:
        return work()
    result, failure = None, None
    if is_first():
        try:
            result = work()
        except Exception as error:
            failure = error
    failed = broadcast_from_first(failure is not None)
    if failure is not None:
        raise failure
    if failed:
        raise OSError("the first process of this run could not start: it says why")
    return work() if result is None else result


def broadcast_from_first(value: bool) -> bool:
    """What the first process finds, in all of them: clocks differ, and they must do the same."""
    if jax.process_count() == 1:
        return value
    barrier()
    return bool(multihost_utils.broadcast_one_to_all(np.array(value)))


def map_over_processes(count: int, work: Callable[[slice], Sequence[T]]) -> list[T]:
    """Work on `count` items, shared among the processes; all results, in order, in all of them.

    Args:
      count: of the items; the same in every process.
      work: what a process does with a slice of them; its results can be pickled.

    Raises:
      ValueError: the processes have different numbers of items.
    """
    processes, index = jax.process_count(), jax.process_index()
    if processes == 1:
        return list(work(slice(0, count)))
    barrier()
    counts = np.ravel(multihost_utils.process_allgather(np.array([count])))
    if np.any(counts != count):
        raise ValueError(
            f"the processes of this run were given {', '.join(map(str, counts))} items to work on: "
            "give all of them the same input, as a file"
        )
    mine = slice(index * count // processes, (index + 1) * count // processes)
    done = work(mine)
    barrier()
    return _gather(done)


def _gather(part: Sequence[T]) -> list[T]:
    """The parts of all processes, one after another."""
    mine = np.frombuffer(pickle.dumps(list(part)), np.uint8)
    sizes = np.ravel(multihost_utils.process_allgather(np.array([len(mine)])))
    padded = np.zeros(int(sizes.max()), np.uint8)
    padded[: len(mine)] = mine
    everything = np.asarray(multihost_utils.process_allgather(padded)).reshape(len(sizes), -1)
    return [
        item
        for row, size in zip(everything, sizes, strict=True)
        for item in pickle.loads(row[:size].tobytes())
    ]


def _explicit_place() -> dict[str, Any]:
    """What the environment variables say, as `jax.distributed.initialize` wants it."""
    given = [name for name in _EXPLICIT if os.environ.get(name)]
    if not given:
        return {}
    if missing := [name for name in _EXPLICIT if name not in given]:
        raise ValueError(
            f"{', '.join(given)} is set, but not {' and '.join(missing)}: to join processes by "
            f"hand, set {', '.join(_EXPLICIT)} in each of them"
        )
    address, count, index = (os.environ[name] for name in _EXPLICIT)
    if not (count.isdecimal() and index.isdecimal() and int(index) < int(count)):
        raise ValueError(
            f"JAX_PROCESS_ID={index} must be a number from 0 to JAX_NUM_PROCESSES - 1, and "
            f"JAX_NUM_PROCESSES={count} at least 1"
        )
    if not address.rpartition(":")[2].isdecimal():
        raise ValueError(f"JAX_COORDINATOR_ADDRESS must be host:port, got {address!r}")
    return {
        "coordinator_address": address,
        "num_processes": int(count),
        "process_id": int(index),
        # Else JAX would look for a cluster all the same.
        "cluster_detection_method": "deactivate",
    }


def _in_cluster() -> bool:
    return any(int(os.environ.get(name) or 1) > 1 for name in _TASKS) or _is_tpu_vm()


def _is_tpu_vm() -> bool:
    chips = glob.glob("/dev/accel[0-9]*") or glob.glob("/dev/vfio/[0-9]*")
    on_cpu = os.environ.get("JAX_PLATFORMS") == "cpu"
    return bool(chips) and importlib.util.find_spec("libtpu") is not None and not on_cpu


def print_from_first(text: str) -> None:
    """Prints on standard output, once for all processes."""
    if is_first():
        print(text)
        sys.stdout.flush()
