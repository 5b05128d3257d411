"""Kernels: the operations of `model.kernels.Kernels` as a CPU, a GPU or a TPU computes them best.

The model works without this package. To add a set for another device, write a subpackage with a
`Kernels` record, and add its name to `KernelChoice` in `model/config.py`.
"""
