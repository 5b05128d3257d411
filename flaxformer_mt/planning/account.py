"""The compiler's account of memory: of a program that it made, and of one that it refused."""

import re
from typing import Any


def peak_memory(compiled: Any) -> tuple[int, int]:
    """(all, arguments alone): bytes that a compiled program needs on each device."""
    held = compiled.memory_analysis()
    arguments = held.argument_size_in_bytes
    results = held.output_size_in_bytes - held.alias_size_in_bytes
    return arguments + results + held.temp_size_in_bytes, arguments


def wanted_memory(message: str) -> int:
    """The bytes that a compiler asked for when it ran out of memory; 0 if it does not say.

    As in "Ran out of memory in memory space hbm. Used 20.51G of 15.75G hbm", or (of temporaries
    alone) "the total memory required for HLO temporaries (834.50G) exceeds available HBM (15.75G)".
    """
    used = re.search(r"(?:Used |required [^(]*\()([\d.]+)([KMGT])", message)
    return round(float(used[1]) * 1024 ** (1 + "KMGT".index(used[2]))) if used else 0
