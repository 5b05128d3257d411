"""Freed memory stays with the process: using it again costs no page faults."""

import mmap
import subprocess
import sys

import pytest

from flaxformer_mt.host_memory import BLOCK, in_blocks

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
    """Of a thread that takes and frees so many blocks of so much 20 times."""
    program = PROGRAM.format(prepare=prepare, megabytes=megabytes, count=count)
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    return int(result.stdout)


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a setting of glibc")
KEEP = "import flaxformer_mt"
SHARE = "from flaxformer_mt.host_memory import share_freed_memory; share_freed_memory()"


@pytest.mark.parametrize("count", [1, 3])
def test_buffers_are_used_again(count):
    before, after = (page_faults(given, megabytes=40, count=count) for given in ("", KEEP))
    assert after < before / 5


def test_larger_ones_where_all_threads_share_an_arena():
    assert page_faults(SHARE, megabytes=100) < page_faults(KEEP, megabytes=100) / 5


XLA_PROGRAM = """
import resource, flaxformer_mt, jax, numpy as np
from flaxformer_mt.host_memory import in_blocks
jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 2)  # each works in a thread of its own
mesh = jax.make_mesh((2,), ("data",))
def sort_many(x):
    return sum(jax.numpy.sort(x * factor, axis=0)[0] for factor in range(8))
x = jax.device_put(np.ones((2**11, 2**11), np.float32), jax.NamedSharding(mesh, jax.P("data")))
on_both = jax.shard_map(sort_many, mesh=mesh, in_specs=jax.P("data"), out_specs=jax.P("data"))
program = jax.jit(on_both, compiler_options={options})
faults = []
for _ in range(20):
    program(x).block_until_ready()
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
print(faults[-1] - faults[9])
"""


def page_faults_of_xla(options: str) -> int:
    """Of a program that takes more than 64 MB on each of two devices, once it has run ten times."""
    program = XLA_PROGRAM.format(options=options)
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    return int(result.stdout)


def test_buffers_of_a_program_in_blocks_are_used_again():
    assert page_faults_of_xla("in_blocks(0)") < page_faults_of_xla("None") / 5


def test_a_block_holds_the_largest_array():
    for largest, block in ((3, BLOCK), (2**26, 2**26)):
        assert list(in_blocks(largest).values()) == [block]


def test_even_more_than_2_gb():
    # As much as a step of a base model; it is not written, so that it takes no memory.
    program = f"{KEEP}, numpy; numpy.empty(3 * 2**30, 'u1'); print(open('/proc/self/statm').read())"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    pages_kept = int(result.stdout.split()[0])
    assert pages_kept * mmap.PAGESIZE > 3 * 2**30
