"""The process keeps freed memory: using it again costs no page faults."""

import mmap
import subprocess
import sys

import pytest

PROGRAM = """
import resource, threading
{prepare}
def work():
    for _ in range(20):
        [bytearray({megabytes} * 2**20) for _ in range({count})]
thread = threading.Thread(target=work)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
thread.start(); thread.join()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def page_faults(prepare: str, megabytes: int, count: int = 1) -> int:
    """Returns the page faults of a thread that allocates and frees `count` blocks 20 times."""
    program = PROGRAM.format(prepare=prepare, megabytes=megabytes, count=count)
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    return int(result.stdout)


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a setting of glibc")
KEEP = "from flaxformer_mt.runtime.host import *; keep_freed_memory()"
SHARE = f"{KEEP}; share_freed_memory()"


@pytest.mark.parametrize("count", [1, 3])
def test_freed_buffers_are_used_again(count):
    before, after = (page_faults(given, megabytes=40, count=count) for given in ("", KEEP))
    assert after < before / 5


def test_larger_buffers_need_a_shared_arena():
    assert page_faults(SHARE, megabytes=100) < page_faults(KEEP, megabytes=100) / 5


def test_even_more_than_2_gb():
    # The size of a step of a base model; never written, so that it takes no memory.
    program = f"{KEEP}; import numpy; numpy.empty(3 * 2**30, 'u1'); "
    program += "print(open('/proc/self/statm').read())"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    pages_kept = int(result.stdout.split()[0])
    assert pages_kept * mmap.PAGESIZE > 3 * 2**30
