"""Faster implementations of the operations of `model.kernels.Kernels` for CPUs, GPUs and TPUs.

The model works without this package. To add a set for another device, write a module with a
`Kernels` record, and add its name to `KernelChoice` in `model/config.py`.
"""
