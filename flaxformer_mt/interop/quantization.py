"""How CTranslate2 can store weights. (Apart from what writes them: the command line reads this.)"""

from typing import Literal

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
