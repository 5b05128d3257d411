"""How to search: the settings of the decoding room."""

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import Any, Literal, get_args

from flaxformer_mt.evaluation.quality_flags import GuardConfig
from flaxformer_mt.runtime.dataclass_json import did_you_mean

Utility = Literal["chrf", "bleu"]
Strategy = Literal["beam", "sample", "sample_distinct", "mbr"]
EarlyStopping = Literal["exact", "heuristic", "first"]
ForcedEnd = Literal["scored", "free"]
LengthNormalization = Literal["gnmt", "average"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class DecodingConfig:
    """How to search, and within which bounds."""

    strategy: Strategy = "beam"
    """"beam": beam search, or greedy search with beam_size 1. "sample": num_hypotheses independent
    draws. "sample_distinct": beam_size different draws (stochastic beam search, Kool et al. 2019).
    "mbr": num_samples draws, of which the one that agrees best with all (minimum Bayes risk)."""
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
    """How many translations to give back for each sentence, best first, at most beam_size. Draws
    come in the order of drawing; strategy "sample" draws any number."""
    max_target_length: int = 256
    """No translation has more tokens than this (EOS included) ..."""
    target_length_ratio: float = 2.0
    """... nor more than target_length_ratio * source tokens + target_length_margin."""
    target_length_margin: int = 16
    """See target_length_ratio."""
    tokens_per_batch: int = 4096
    """Source tokens, padding included, that are translated together. It bounds the memory, which
    grows with the hypotheses of each too (beam_size, num_samples)."""
    max_rows_per_batch: int = 64
    """Sentences that a device translates at the same time, at most; when some are done, others take
    their places. A CPU takes no more than 160 hypotheses (32 sentences, with beam_size 5). Programs
    are always filled up to their full size, so that results do not depend on company: set 1 to
    translate single sentences with little delay."""
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

    min_target_length: int = 0
    """No translation has fewer tokens than this (EOS included) ..."""
    min_target_ratio: float = 0.0
    """... nor fewer than min_target_ratio * source tokens. The limits above are stronger."""
    coverage_penalty: float = 0.0
    """Beta of the coverage penalty (Wu et al. 2016): above 0, a beam search prefers translations
    that have looked at all of the source; 0.2 is usual. Greedy search ranks nothing."""
    no_repeat_ngram_size: int = 0
    """No n tokens in a row come twice; 0 = they may."""
    repetition_penalty: float = 1.0
    """Above 1, tokens that were chosen before are less probable: log-probability * this."""
    temperature: float = 1.0
    """Sampling: below 1 sharper, above 1 flatter than the model."""
    top_k: int = 0
    """Sampling: only from the k most probable tokens; 0 = from all."""
    top_p: float = 1.0
    """Sampling: only from the most probable tokens that together have this probability."""
    seed: int = 0
    """Sampling: the draws for a sentence depend on this and on the sentence, on nothing else."""
    num_samples: int = 32
    """Strategy "mbr": draws for each sentence."""
    utility: Utility = "chrf"
    """Strategy "mbr": how well two translations agree: chrF or BLEU."""
    flag_faults: bool = False
    """Look for loops, copies, omissions and cuts in translations, and say what was found."""
    retry_flagged: bool = False
    """Translate once more what is flagged, with coverage penalty and without repeated n-grams, and
    keep what has fewer faults."""
    guard: GuardConfig = GuardConfig()
    """What counts as a fault."""

    def __post_init__(self) -> None:
        if not self.draws:
            check_beam(self.beam_size, self.num_hypotheses)
        for problem in _problems(self):
            raise ValueError(problem)

    @property
    def draws(self) -> bool:
        """Whether hypotheses are drawn each by itself."""
        return self.strategy in ("sample", "mbr")

    @property
    def num_live(self) -> int:
        """K: hypotheses of one sentence that a search has side by side."""
        if self.strategy == "mbr":
            return self.num_samples
        return self.num_hypotheses if self.draws else self.beam_size

    @property
    def looks_for_faults(self) -> bool:
        """Whether translations are flagged: a retry begins with that."""
        return self.flag_faults or self.retry_flagged

    def length_limit(self, source_length: int) -> int:
        """The most target tokens (EOS included) for a source of so many tokens (EOS included)."""
        ratio_limit = self.target_length_ratio * source_length + self.target_length_margin
        return int(min(self.max_target_length, ratio_limit))

    def least_length(self, source_length: int) -> int:
        """The fewest target tokens (EOS included) for a source of so many."""
        least = max(self.min_target_length, self.min_target_ratio * source_length)
        return math.ceil(min(self.length_limit(source_length), least))


def changed_config(config: DecodingConfig, changes: Mapping[str, Any]) -> DecodingConfig:
    """`config` with the changes that are not None, checked as a new one is."""
    names = [field.name for field in dataclasses.fields(DecodingConfig)]
    for name in changes:
        if name not in names:
            others = ("prefixes", "constraints", "details", "first_line")
            raise ValueError(
                f"decoding has no field {name!r}: {did_you_mean(name, [*names, *others])}"
            )
    given: dict[str, Any] = {name: new for name, new in changes.items() if new is not None}
    return dataclasses.replace(config, **given)


def retry_config(config: DecodingConfig) -> DecodingConfig:
    """The second search for what is flagged."""
    changes: dict[str, Any] = {
        "retry_flagged": False,
        "flag_faults": True,
        "no_repeat_ngram_size": config.no_repeat_ngram_size or 4,
    }
    if config.strategy == "beam":
        changes["coverage_penalty"] = config.coverage_penalty or 0.4
        changes["beam_size"] = max(4, config.beam_size)
    else:
        changes["seed"] = config.seed + 1
    return dataclasses.replace(config, **changes)


def _problems(config: DecodingConfig) -> Iterator[str]:
    """What makes no sense, the first thing first."""
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if isinstance(field.default, int) and (type(value) is not type(field.default)):
            kind = type(field.default).__name__
            yield f"{field.name} must be of type {kind}, but it is {value!r}"
    if not 0 <= config.length_penalty <= 10:
        yield (
            f"length_penalty must be at least 0 and at most 10, but it is {config.length_penalty}: "
            f"0 compares plain log-probabilities, 0.6 to 1 is usual"
        )
    if not (config.target_length_ratio >= 0 and config.target_length_margin >= 1):
        yield (
            f"target_length_ratio must be at least 0 and target_length_margin at least 1 "
            f"(room for EOS), but they are {config.target_length_ratio} and "
            f"{config.target_length_margin}"
        )
    counts = ("max_target_length", "tokens_per_batch", "max_rows_per_batch", "num_samples")
    for name in (*counts, "beam_size", "num_hypotheses"):
        if getattr(config, name) < 1:
            yield f"{name} must be at least 1, but it is {getattr(config, name)}"
    amounts = ("min_target_length", "min_target_ratio", "coverage_penalty", "top_k", "seed")
    for name in (*amounts, "no_repeat_ngram_size"):
        if not 0 <= getattr(config, name) < float("inf"):
            yield f"{name} must be at least 0, but it is {getattr(config, name)}"
    for name in ("repetition_penalty", "temperature"):
        if not 1e-3 <= getattr(config, name) < float("inf"):
            yield (
                f"{name} must be above 0, and at least 0.001 (1 changes nothing), but it is "
                f"{getattr(config, name)}"
            )
    if not 0 < config.top_p <= 1:
        yield f"top_p must be above 0 and at most 1 (all tokens), but it is {config.top_p}"
    if config.strategy == "mbr" and config.num_hypotheses > config.num_samples:
        yield (
            f"num_hypotheses ({config.num_hypotheses}) must not be above num_samples "
            f"({config.num_samples}), from which they are chosen"
        )
    if config.min_target_length > config.max_target_length:
        yield (
            f"min_target_length ({config.min_target_length}) must not be above max_target_length "
            f"({config.max_target_length})"
        )
    if config.coverage_penalty and (config.draws or config.strategy == "sample_distinct"):
        yield (
            f"coverage_penalty ranks the hypotheses of a beam search, but strategy is "
            f"{config.strategy!r}: set coverage_penalty to 0"
        )
    idle = {"temperature": 1.0, "top_k": 0, "top_p": 1.0}
    changed = [name for name, value in idle.items() if getattr(config, name) != value]
    if changed and config.strategy == "beam":
        yield (
            f"{' and '.join(changed)} would change nothing: a beam search draws nothing; choose "
            f"strategy 'sample', 'sample_distinct' or 'mbr'"
        )
    for name, choices in (
        ("strategy", get_args(Strategy)),
        ("over_long", ("split", "truncate")),
        ("length_normalization", get_args(LengthNormalization)),
        ("early_stopping", get_args(EarlyStopping)),
        ("forced_end", get_args(ForcedEnd)),
        ("utility", get_args(Utility)),
    ):
        if getattr(config, name) not in choices:
            expected = " or ".join(map(repr, choices))
            yield f"{name} must be {expected}, not {getattr(config, name)!r}"


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
