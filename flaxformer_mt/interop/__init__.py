"""Models in the formats of other tools: Hugging Face Marian (read, written), CTranslate2 (written).

`verify` compares an export with the workdir that it was made from. The command is
`python -m flaxformer_mt.convert`; no other package imports this one.
"""

from typing import Literal

Format = Literal["marian", "ctranslate2"]
Unscaled = Literal["float32", "float16", "bfloat16", "int16"]
Quantization = Literal[Unscaled, "int8", "int8_float32", "int8_float16", "int8_bfloat16"]
