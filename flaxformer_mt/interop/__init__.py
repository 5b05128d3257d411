"""Models in the formats of other tools: Hugging Face Marian (both ways), CTranslate2 (export).

`verify` compares an export with its workdir. The command is `python -m flaxformer_mt.convert`. No
other package imports this one.
"""

import importlib
import os
from pathlib import Path
from typing import Any, Literal

Format = Literal["marian", "ctranslate2"]
Quantization = Literal[
    "float32",
    "float16",
    "bfloat16",
    "int16",
    "int8",
    "int8_float32",
    "int8_float16",
    "int8_bfloat16",
]


def optional(module: str, package: str, purpose: str) -> Any:
    """Returns a module that is not a dependency.

    Raises ValueError with the `purpose` that needs it, such as "a PyTorch file", and the `package`
    to install.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ValueError(
            f"{purpose} needs {module.split('.')[0]}, which is not installed: "
            f"pip install '{package}'"
        ) from error


def empty_directory(path: str | os.PathLike[str]) -> Path:
    """Creates a directory unless it exists. Raises FileExistsError if it is not empty."""
    directory = Path(path)
    directory.mkdir(parents=True, exist_ok=True)
    if any(directory.iterdir()):
        raise FileExistsError(f"{directory} is not empty: give the name of a new directory")
    return directory
