"""Runs of several processes: connection, barriers and exchange of Python values.

Each process uses the devices of its own machine. In a TPU pod slice, under SLURM (`srun`) and under
Open MPI, JAX finds the other processes. Elsewhere, set three environment variables:

    JAX_COORDINATOR_ADDRESS=host:port  JAX_NUM_PROCESSES=2  JAX_PROCESS_ID=0   (second process: 1)
"""

import contextlib
import glob
import importlib.util
import itertools
import os
import pickle
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar, cast

import jax
import numpy as np
from absl import flags
from jax.experimental import multihost_utils
from orbax.checkpoint.multihost import sync_global_processes

from flaxformer_mt.runtime.command import memory_problem
from flaxformer_mt.storage.paths import AnyPath

T = TypeVar("T")

_BARRIER_TIMEOUT = 24 * 3600  # seconds
_SHARING_TIMEOUT = 20.0  # seconds
_barrier_numbers = itertools.count()  # each barrier needs its own name

_EXPLICIT = ("JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID")
# Variables with the number of tasks that SLURM or Open MPI started.
_TASKS = ("SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE")


def connect() -> None:
    """Connects to the other processes of this run, if any; call it before any other use of JAX.

    Raises ValueError if the environment variables contradict each other, and OSError if the other
    processes do not answer.
    """
    if jax.distributed.is_initialized():
        return
    explicit = _explicit_arguments()
    if not explicit and not _in_cluster():
        return
    jax.config.update("jax_cpu_collectives_implementation", "gloo")  # affects CPUs only
    options = dict(explicit)
    if not explicit and _is_alone_on_its_machine() and "JAX_LOCAL_DEVICE_IDS" not in os.environ:
        options["local_device_ids"] = []  # all; JAX's default is one GPU for each task
    try:
        jax.distributed.initialize(**options)
    except Exception as error:
        no_answer = isinstance(error, jax.errors.JaxRuntimeError)  # from another machine
        if not explicit and _is_tpu_vm() and not no_answer:  # a TPU of one machine
            return
        raise OSError(
            f"could not join the other processes of this run: {error}\nTo join them by hand, set "
            f"{', '.join(_EXPLICIT)} (docs/hardware.md)."
        ) from error
    _use_distributed_orbax_barriers()


def _use_distributed_orbax_barriers() -> None:
    """Makes Orbax use barriers of JAX's coordination service instead of sums over all devices.

    Orbax starts those sums from any thread. On CPUs (gloo), sums fail if two processes start them
    in a different order.
    """
    flags.FLAGS.experimental_orbax_use_distributed_barrier = True
    if not flags.FLAGS.is_parsed():  # only absl's `app.run` parses them
        flags.FLAGS.mark_as_parsed()


@contextlib.contextmanager
def exit_if_peer_lost() -> Iterator[None]:
    """Ends this process at once, with a message, when another process of the run is lost.

    Without this, the process would wait for the lost one.
    """
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        if jax.process_count() == 1:
            raise
        problem = memory_problem(error) or (
            "another process of this run is gone, or cannot be reached "
            f"({str(error).splitlines()[0]}). Start all processes again: the same command "
            "continues from the newest checkpoint."
        )
        print(f"error: {problem}", file=sys.stderr, flush=True)
        os._exit(1)  # sys.exit would wait for the other processes


def is_first() -> bool:
    """Returns whether this is the first process, which prints and writes for all."""
    return jax.process_index() == 0


def barrier() -> None:
    """Waits, up to a day, until all processes call it.

    Call it before an exchange of arrays if processes may arrive at very different times. On CPUs,
    the exchange itself times out after half a minute.
    """
    if jax.process_count() == 1:
        return
    everyone = set(range(jax.process_count()))
    name = f"barrier {next(_barrier_numbers)}"
    sync_global_processes(name, timeout=_BARRIER_TIMEOUT, processes=everyone)


def first_then_others(work: Callable[[], T]) -> T:
    """Returns `work()`. The other processes call it after the first one, so they find its files.

    Raises OSError if `work` failed in another process.
    """
    if jax.process_count() == 1:
        return work()
    result, failure = None, None
    for first, failed in ((True, "the first process"), (False, "another process")):
        if is_first() is first:
            try:
                result = work()
            except Exception as error:
                failure = error
        if any(_gather([failure is not None])):
            raise failure or OSError(f"{failed} of this run failed; its message has the reason")
    return cast(T, result)


def first_only(work: Callable[[], T]) -> T | None:
    """Returns `work()` in the first process, and None in the others, which wait for its end.

    Raises OSError if `work` failed in another process.
    """
    return first_then_others(lambda: work() if is_first() else None)


def broadcast_from_first(value: T) -> T:
    """Returns the value of the first process in all processes."""
    return value if jax.process_count() == 1 else _gather([value])[0]


def check_same(value: Any, what: str) -> None:
    """Raises ValueError in all processes if they have different values of `what`."""
    if jax.process_count() > 1 and len(set(map(repr, _gather([value])))) > 1:
        raise ValueError(
            f"the processes of this run have different {what}: give all of them the same. "
            "(All tasks of one `srun` are one run, unless SLURM_STEP_NUM_TASKS is unset in each.)"
        )


def check_shared(path: AnyPath, token: str) -> None:
    """Raises OSError in all processes if one of them does not see a file of the first process.

    The file must contain the `token` of the first process.
    """
    if jax.process_count() == 1:
        return
    first = broadcast_from_first(token)
    deadline = time.monotonic() + _SHARING_TIMEOUT  # network disks show a new file late
    while not (seen := _contains(path, first)) and time.monotonic() < deadline:
        time.sleep(0.5)
    found = _gather([seen])
    if not all(found):
        blind = ", ".join(map(str, np.flatnonzero(np.logical_not(found))))
        raise OSError(
            f"the processes of this run do not share the workdir {path.parent}: process {blind} "
            "does not see what process 0 writes there. All of them write checkpoints to it: give "
            "an address such as gs://bucket/run, or a network disk that every machine mounts at "
            "this path"
        )


def _contains(path: AnyPath, text: str) -> bool:
    try:
        return text in path.read_text(encoding="utf-8")
    except OSError:
        return False


def map_over_processes(count: int, work: Callable[[slice], Sequence[T]]) -> list[T]:
    """Returns the results of `work` for `count` items, in order. Each process computes a slice.

    All processes get all results, which must be picklable.

    Raises ValueError if the processes have different numbers of items, and OSError if `work` failed
    in another process.
    """
    processes, index = jax.process_count(), jax.process_index()
    if processes == 1:
        return list(work(slice(0, count)))
    counts = _gather([count])
    if set(counts) != {count}:
        raise ValueError(
            f"the processes of this run got {', '.join(map(str, counts))} items to work on: "
            "give all of them the same input, as a file"
        )
    mine = slice(index * count // processes, (index + 1) * count // processes)
    results, failure = None, None
    try:
        results = work(mine)
    except Exception as error:  # the others must not wait for this process
        failure = error
    parts = _gather([results])
    if None in parts:
        raise failure or OSError("another process of this run failed; its message has the reason")
    return [item for part in parts for item in part or ()]


def _gather(part: Sequence[T]) -> list[T]:
    """Returns the items of all processes, concatenated. All processes must call it."""
    barrier()
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


def _explicit_arguments() -> dict[str, Any]:
    """Returns the arguments of `jax.distributed.initialize` from the environment variables."""
    address, count, index = (os.environ.get(name, "") for name in _EXPLICIT)
    if not (address or count or index):
        return {}
    numbers = count.isdecimal() and index.isdecimal() and int(index) < int(count)
    if not (numbers and address.rpartition(":")[2].isdecimal()):
        raise ValueError(
            "to join processes by hand, set in each of them JAX_COORDINATOR_ADDRESS=host:port, "
            "JAX_NUM_PROCESSES, and JAX_PROCESS_ID from 0 to JAX_NUM_PROCESSES - 1; got "
            f"{address!r}, {count!r} and {index!r}"
        )
    return {
        "coordinator_address": address,
        "num_processes": int(count),
        "process_id": int(index),
        # Otherwise JAX would still look for a cluster.
        "cluster_detection_method": "deactivate",
    }


def _in_cluster() -> bool:
    return any(int(os.environ.get(name) or 1) > 1 for name in _TASKS) or _is_tpu_vm()


def _is_alone_on_its_machine() -> bool:
    """Returns whether SLURM or Open MPI started one task on each machine."""
    nodes = os.environ.get("SLURM_STEP_NUM_NODES")
    one_each = nodes is not None and nodes == os.environ.get("SLURM_STEP_NUM_TASKS")
    return one_each or os.environ.get("OMPI_COMM_WORLD_LOCAL_SIZE") == "1"


def _is_tpu_vm() -> bool:
    chips = glob.glob("/dev/accel[0-9]*") or glob.glob("/dev/vfio/[0-9]*")
    on_cpu = os.environ.get("JAX_PLATFORMS") == "cpu"
    return bool(chips) and importlib.util.find_spec("libtpu") is not None and not on_cpu


def print_from_first(text: str) -> None:
    """Prints on standard output, in the first process only."""
    if is_first():
        print(text, flush=True)
