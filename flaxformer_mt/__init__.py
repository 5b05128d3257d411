"""The Transformer for machine translation, in JAX and Flax.

    Config       data, model, training, decoding and mesh of a run   config.py
    Tokenizer    text <-> token ids                                  data/tokenization/
    Transformer  token ids -> logits                                 model/transformer.py
    Translator   a trained workdir -> translations                   translation/translator.py

`flaxformer-mt --help` lists the commands. Each is a module: `python -m flaxformer_mt.train --help`.
"""

import importlib
from typing import TYPE_CHECKING, Any

from flaxformer_mt.runtime.exit import exit_at_once_after_signal
from flaxformer_mt.runtime.host_memory import keep_freed_memory

if TYPE_CHECKING:
    from flaxformer_mt.config import Config
    from flaxformer_mt.data.tokenization.tokenizer import Tokenizer
    from flaxformer_mt.model.transformer import Transformer
    from flaxformer_mt.translation.translator import Translator

keep_freed_memory()
exit_at_once_after_signal()  # here, before jax has registered its own end

__version__ = "0.1.0"
__all__ = ["Config", "Tokenizer", "Transformer", "Translator", "__version__"]

_MODULES = {
    "Config": "flaxformer_mt.config",
    "Tokenizer": "flaxformer_mt.data.tokenization.tokenizer",
    "Transformer": "flaxformer_mt.model.transformer",
    "Translator": "flaxformer_mt.translation.translator",
}


def __getattr__(name: str) -> Any:
    """Import a public name at first use, so that importing one package loads no other."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)
