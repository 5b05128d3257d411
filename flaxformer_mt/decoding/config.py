"""How to search: the settings of the decoding room."""

import dataclasses
from typing import Literal, get_args

EarlyStopping = Literal["exact", "heuristic", "first"]
ForcedEnd = Literal["scored", "free"]
LengthNormalization = Literal["gnmt", "average"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class DecodingConfig:
    """How to search, and within which bounds."""

    beam_size: int = 5
    """Hypotheses that the search keeps for each sentence; 1 is greedy search."""
    length_penalty: float = 0.6
    """Alpha of the length penalty: 0 favours short translations, 1 long."""
    length_normalization: LengthNormalization = "gnmt"
    """What a log-probability is divided by: "gnmt": ((5 + tokens) / 6) ** alpha (Wu et al. 2016);
    "average": tokens ** alpha, as Hugging Face and CTranslate2 do. EOS counts."""
    early_stopping: EarlyStopping = "exact"
    """When a beam search is done. "exact": when nothing can still win. "heuristic": when the best
    that goes on, normalised as if it ended now, is worse than all beam_size finished ones. "first":
    when beam_size hypotheses have ended. Hugging Face's "never", False and True."""
    forced_end: ForcedEnd = "scored"
    """What EOS costs at the length limit, where nothing else is allowed: "scored": its
    log-probability; "free": nothing, as with Hugging Face's forced_eos_token_id."""
    num_hypotheses: int = 1
    """How many translations to give back for each sentence, best first; at most beam_size."""
    max_target_length: int = 256
    """No translation has more tokens than this (EOS included) ..."""
    target_length_ratio: float = 2.0
    """... nor more than target_length_ratio * source tokens + target_length_margin."""
    target_length_margin: int = 16
    """See target_length_ratio."""
    tokens_per_batch: int = 2048
    """Source tokens, padding included, that are translated together; bounds the memory."""
    max_rows_per_batch: int = 64
    """Sentences translated together, at most. Batches are always filled up to their full size, so
    that results do not depend on company: set 1 to translate single sentences with little delay."""
    allow_unknown: bool = False
    """Let translations contain the unknown word."""
    allow_special: bool = False
    """Let translations contain padding and the start token, which stand for nothing."""
    forbidden: tuple[int, ...] = ()
    """Ids of further target tokens that no translation may contain."""
    renormalize: bool = False
    """Share the probability of what may never be chosen among the rest; else it is lost."""
    over_long: Literal["split", "truncate"] = "split"
    """A line of more than max_source_length tokens: translate it in pieces, or its beginning."""

    def __post_init__(self) -> None:
        check_beam(self.beam_size, self.num_hypotheses)
        if not 0 <= self.length_penalty < float("inf"):
            raise ValueError(
                f"length_penalty must be at least 0, but it is {self.length_penalty}: 0 compares "
                f"plain log-probabilities, 0.6 to 1 is usual"
            )
        if not (self.target_length_ratio >= 0 and self.target_length_margin >= 1):
            raise ValueError(
                f"target_length_ratio must be at least 0 and target_length_margin at least 1 "
                f"(room for EOS), but they are {self.target_length_ratio} and "
                f"{self.target_length_margin}"
            )
        for name in ("max_target_length", "tokens_per_batch", "max_rows_per_batch"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, but it is {getattr(self, name)}")
        for name, choices in (
            ("over_long", ("split", "truncate")),
            ("length_normalization", get_args(LengthNormalization)),
            ("early_stopping", get_args(EarlyStopping)),
            ("forced_end", get_args(ForcedEnd)),
        ):
            if getattr(self, name) not in choices:
                expected = " or ".join(map(repr, choices))
                raise ValueError(f"{name} must be {expected}, not {getattr(self, name)!r}")

    def length_limit(self, source_length: int) -> int:
        """The most target tokens (EOS included) for a source of so many tokens (EOS included)."""
        ratio_limit = int(self.target_length_ratio * source_length) + self.target_length_margin
        return min(self.max_target_length, ratio_limit)


def check_beam(beam_size: int, num_hypotheses: int) -> None:
    """Raise ValueError unless 1 <= num_hypotheses <= beam_size."""
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
