"""Freed memory stays with the process: using it again costs no page faults."""

import subprocess
import sys

import pytest

PROGRAM = """
import resource, threading
{prepare}
def work():
    for _ in range(20):
        bytearray(40 * 2**20)  # an arena of another thread than the first has room for it
thread = threading.Thread(target=work)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
thread.start(); thread.join()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def page_faults(prepare: str) -> int:
    program = PROGRAM.format(prepare=prepare)
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    return int(result.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="a setting of glibc")
def test_buffers_are_used_again():
    kept, returned = page_faults("import flaxformer_mt"), page_faults("")
    assert kept < returned / 5
