"""Models in the formats of other tools: Hugging Face Marian (both ways), CTranslate2 (export).

`verify` compares an export with its workdir. The command is `python -m flaxformer_mt.convert`. No
other package imports this one.
"""

from typing import Literal

Format = Literal["marian", "ctranslate2"]
Unscaled = Literal["float32", "float16", "bfloat16", "int16"]
Quantization = Literal[Unscaled, "int8", "int8_float32", "int8_float16", "int8_bfloat16"]
