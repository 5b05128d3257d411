"""The options of a search. `translation/config.py` has the settings of a translator."""

from typing import Literal

EarlyStopping = Literal["exact", "heuristic", "first"]
ForcedEnd = Literal["scored", "free"]
LengthNormalization = Literal["gnmt", "average"]


def check_beam(beam_size: int, num_hypotheses: int) -> None:
    """Raises ValueError unless 1 <= num_hypotheses <= beam_size."""
    if beam_size < 1:
        raise ValueError(
            f"beam_size must be at least 1 (1 is greedy search), but it is {beam_size}"
        )
    if not 1 <= num_hypotheses <= beam_size:
        raise ValueError(
            f"num_hypotheses must be between 1 and beam_size, but num_hypotheses is "
            f"{num_hypotheses} and beam_size is {beam_size}; a beam holds only beam_size "
            f"hypotheses: to get more of them, widen the beam"
        )
