"""The CPUs that a process may use."""

import subprocess
import sys

import pytest

from flaxformer_mt.runtime.host import allowed_cpus, num_cpus


def test_they_are_numbered_and_counted():
    assert num_cpus() == len(allowed_cpus()) >= 1


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell")
def test_only_those_that_the_process_was_given():
    last = allowed_cpus()[-1]
    code = (
        f"import os, sys; os.sched_setaffinity(0, [{last}]); "
        "from flaxformer_mt.runtime.host import allowed_cpus; "
        "print(allowed_cpus(), 'jax' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == f"[{last}] False\n"
