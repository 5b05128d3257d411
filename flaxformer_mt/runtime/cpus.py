"""The CPUs that this process may use; `taskset` and job schedulers restrict them."""

import os


def allowed_cpus() -> list[int]:
    """Returns the numbers of the CPUs."""
    if hasattr(os, "sched_getaffinity"):  # Linux
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def num_cpus() -> int:
    """Returns the number of CPUs, which is also JAX's number of threads."""
    return len(allowed_cpus())
