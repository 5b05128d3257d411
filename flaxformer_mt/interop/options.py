"""Options of `convert` that an export reads. This module imports nothing that starts slowly."""

import dataclasses
from typing import Annotated, Literal

import tyro

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


@dataclasses.dataclass(frozen=True, kw_only=True)
class VerifyConfig:
    """The text that verifies an export, the search, and the tolerances."""

    file: Annotated[str, tyro.conf.arg(name="verify")] = ""
    """--to: verify the export. Translate this UTF-8 file, one sentence a line, with the workdir and
    with the export, and write verification.json into the output. If the translations differ too
    much, the command fails."""
    reference: str = ""
    """UTF-8 file with the reference translation of each line of --verify, for BLEU and chrF."""
    beam_size: Annotated[int, tyro.conf.arg(name="verify-beam-size")] = 5
    """Beam size of both searches of --verify."""
    length_penalty: Annotated[float, tyro.conf.arg(name="verify-length-penalty")] = 1.0
    """Length penalty alpha of both searches of --verify: log-probability / tokens ** alpha."""
    min_identical: float = 0.995
    """Float32 exports: the least share of lines of --verify with identical translations."""
    max_bleu_difference: float = 0.3
    """Quantized exports with --reference: the largest difference in BLEU from the workdir."""
    min_bleu_to_workdir: float = 85.0
    """Quantized exports without --reference: the least BLEU of the export's translations, measured
    against those of the workdir."""

    def __post_init__(self) -> None:
        if self.reference and not self.file:
            raise ValueError("--reference belongs to the file of --verify: give both")
        if not 0 <= self.min_identical <= 1:
            raise ValueError(f"--min-identical is a share from 0 to 1, got {self.min_identical}")
