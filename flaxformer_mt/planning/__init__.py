"""A recipe and hardware -> the compiler's estimate of memory, operations and time.

Nothing runs: programs are compiled for devices that need not exist here. `workload` gives the batch
shapes, `hardware` the devices, `compiler` reads one compiled program, `memory` has the training
step and searches the micro-batch that fits, `plans` puts all of it together.
"""
