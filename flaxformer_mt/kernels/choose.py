"""The choice of kernels for a device."""

import importlib

from flaxformer_mt.model.kernels import REFERENCE, KernelChoice, Kernels


def choose_kernels(choice: KernelChoice, platform: str) -> Kernels:
    """Returns the kernels of a choice; "auto" means those for the platform.

    A platform without kernels, or whose package is missing, gets the reference.

    Args:
      choice: the field `model.kernels` of a config.
      platform: "cpu", "gpu" or "tpu", as `jax.default_backend()` gives it.

    Raises:
      ValueError: the chosen kernels are not installed.
    """
    name = platform if choice == "auto" else choice
    if name == "reference":
        return REFERENCE
    try:
        return importlib.import_module(f"flaxformer_mt.kernels.{name}").KERNELS
    except ModuleNotFoundError as error:
        if choice == "auto":
            return REFERENCE
        raise ValueError(
            f"model.kernels={choice} needs the package flaxformer_mt.kernels.{name}, which is not "
            f'here: use "auto" or "reference".'
        ) from error
