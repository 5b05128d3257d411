"""Compiler estimates of memory, operations and time of a recipe on some hardware.

Programs are compiled but not run, so the devices need not exist here. `workload` has the batch
shapes, `hardware` the devices, `compiler` the estimate of one program, `memory` the training step
and the search for the micro-batch that fits, and `plans` the plan of a recipe.
"""
