"""The Transformer for machine translation, in JAX and Flax.

    Config       data, model, training, decoding and mesh of a run   config.py
    Tokenizer    text <-> token ids                                  data/tokenization/
    Transformer  token ids -> logits                                 model/transformer.py
    Translator   a trained workdir -> translations                   translation/translator.py

The commands are modules, such as `python -m flaxformer_mt.train --help`; `flaxformer-mt --help`
lists them. Importing this package changes nothing in the process.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flaxformer_mt.config import Config
    from flaxformer_mt.data.tokenization.tokenizer import Tokenizer
    from flaxformer_mt.model.transformer import Transformer
    from flaxformer_mt.translation.translator import Translator

__version__ = "0.1.0"
__all__ = ["Config", "Tokenizer", "Transformer", "Translator", "__version__"]

_MODULES = {
    "Config": "flaxformer_mt.config",
    "Tokenizer": "flaxformer_mt.data.tokenization.tokenizer",
    "Transformer": "flaxformer_mt.model.transformer",
    "Translator": "flaxformer_mt.translation.translator",
}


def __getattr__(name: str) -> Any:
    """Imports a public name at its first use, because the other modules may not be needed."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)
