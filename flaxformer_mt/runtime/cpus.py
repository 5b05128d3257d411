"""The CPUs that this process may use: `taskset` and job schedulers give it fewer than there are."""

import os


def allowed_cpus() -> list[int]:
    """Their numbers."""
    if hasattr(os, "sched_getaffinity"):  # Linux
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def num_cpus() -> int:
    """How many there are: as many threads as JAX has."""
    return len(allowed_cpus())
