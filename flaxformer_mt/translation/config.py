"""The settings of translation: the `decoding` part of a run's config."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from flaxformer_mt.evaluation import Utility
from flaxformer_mt.evaluation.quality_flags import FlagLimits
from flaxformer_mt.search.config import (
    EarlyStopping,
    ForcedEnd,
    LengthNormalization,
    check_beam,
)
from flaxformer_mt.storage.dataclass_json import POSITIVE_INT, Bounds, check_fields, did_you_mean

Strategy = Literal["beam", "sample", "sample_distinct", "mbr"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class DecodingConfig:
    """The search, its options and its limits."""

    strategy: Strategy = "beam"
    """"beam": beam search, or greedy search with beam_size 1. "sample": num_hypotheses independent
    samples. "sample_distinct": beam_size different samples (stochastic beam search, Kool et al.
    2019). "mbr": of num_samples samples, the one that agrees best with all (minimum Bayes risk)."""
    beam_size: int = 5
    """Hypotheses that the search keeps for each sentence; 1 is greedy search."""
    length_penalty: float = 0.6
    """Alpha of the length penalty: 0 favours short translations, 1 long ones."""
    length_normalization: LengthNormalization = "gnmt"
    """Divisor of a log-probability. "gnmt": ((5 + tokens) / 6) ** alpha (Wu et al. 2016).
    "average": tokens ** alpha, as in Hugging Face and CTranslate2. EOS counts."""
    early_stopping: EarlyStopping = "exact"
    """When a beam search ends. "exact": when no unfinished hypothesis can still win. "heuristic":
    when the best unfinished one, normalised as if it ended now, is worse than all beam_size
    finished ones. "first": when beam_size hypotheses are finished. In Hugging Face: "never", False
    and True."""
    forced_end: ForcedEnd = "scored"
    """The cost of EOS at the length limit, where only EOS is allowed. "scored": its
    log-probability. "free": nothing, as with Hugging Face's forced_eos_token_id."""
    num_hypotheses: int = 1
    """Translations to return for each sentence, best first; at most beam_size. Fewer are returned
    if some have equal texts. Strategy "sample" returns any number, in the order of sampling, with
    equal texts."""
    max_target_length: int = 256
    """Limit of target tokens, EOS included. A second limit is target_length_ratio * source tokens +
    target_length_margin; the lower one holds."""
    target_length_ratio: float = 2.0
    """See max_target_length."""
    target_length_margin: int = 16
    """See max_target_length."""
    tokens_per_batch: int = 4096
    """Source tokens that are translated together, padding included. It limits the memory, which
    also grows with beam_size and num_samples."""
    max_rows_per_batch: int = 64
    """Largest number of sentences that a device translates at once; a finished one is replaced by
    the next. A CPU translates at most 160 hypotheses at the same time (with beam_size 5: 32
    sentences), and at most 10 if there are at most 32 sentences in all. Batches are always padded
    to their full size: set 1 to translate single sentences with little delay."""
    allow_unknown: bool = False
    """Let translations contain the unknown word, which the text shows as "<unk>" or "⁇"."""
    allow_special: bool = False
    """Let translations contain padding and the start token, which have no text."""
    forbidden: tuple[int, ...] = ()
    """Ids of further target tokens that no translation may contain."""
    renormalize: bool = False
    """Divide the probability of forbidden tokens among the others; otherwise it is lost."""
    over_long: Literal["split", "truncate"] = "split"
    """What to do with a sentence of more than max_source_length tokens: translate it in pieces, or
    only its beginning."""
    split_sentences: bool = True
    """Translate each sentence of a line alone, and join them with the line's own white space. A
    line with a prefix or constraints is translated as a whole. Set it to false for a model that was
    trained on lines of several sentences."""
    copy_unknown: bool = True
    """Copy source words that the model does not know into the translation, unless it has them
    already, before the word that attends to them most. Not with a prefix or constraints. If the
    known words include "□", the model reads "□" for each unknown word, and the copy replaces the
    "□" in its output."""

    min_target_length: int = 0
    """Least number of target tokens of a sentence, EOS included. The larger of this and
    min_target_ratio * source tokens applies, but never more than max_target_length. With
    `split_sentences`, a line can have several sentences."""
    min_target_ratio: float = 0.0
    """See min_target_length."""
    coverage_penalty: float = 0.0
    """Beta of the coverage penalty (Wu et al. 2016): above 0, a beam search prefers translations
    that attend to the whole source; 0.2 is usual. Greedy search ignores it."""
    no_repeat_ngram_size: int = 0
    """The n of n-grams that must not occur twice in a translation; 0 = no limit."""
    repetition_penalty: float = 1.0
    """Above 1, tokens that were chosen before are less probable: log-probability * this."""
    temperature: float = 1.0
    """Sampling: below 1 sharper than the model, above 1 flatter."""
    top_k: int = 0
    """Sampling: only the k most probable tokens; 0 = all."""
    top_p: float = 1.0
    """Sampling: only the most probable tokens that together have this probability."""
    seed: int = 0
    """Sampling: the samples of a sentence depend on this and on the sentence alone."""
    num_samples: int = 32
    """Strategy "mbr": samples for each sentence."""
    utility: Utility = "chrf"
    """Strategy "mbr": how to compare two translations: chrF or BLEU."""
    flag_faults: bool = False
    """Look for loops, copies, omissions and truncated ends in translations, and report them."""
    guard: FlagLimits = FlagLimits()
    """Limits of the checks for faults."""

    def __post_init__(self) -> None:
        check_fields(self, "", _BOUNDS)
        if self.is_sampling:
            check_fields(self, "", {"num_hypotheses": POSITIVE_INT})
        else:
            check_beam(self.beam_size, self.num_hypotheses)
        _check_combinations(self)

    @property
    def is_sampling(self) -> bool:
        """Whether hypotheses are independent samples ("sample_distinct" is a beam search)."""
        return self.strategy in ("sample", "mbr")

    @property
    def num_live(self) -> int:
        """K: the hypotheses of one sentence that a search extends at the same time."""
        if self.strategy == "mbr":
            return self.num_samples
        return self.num_hypotheses if self.is_sampling else self.beam_size

    def length_limit(self, source_length: int) -> int:
        """Returns the most target tokens for this number of source tokens; both include EOS."""
        ratio_limit = self.target_length_ratio * source_length + self.target_length_margin
        return int(min(self.max_target_length, ratio_limit))

    def min_length(self, source_length: int) -> int:
        """Returns the fewest target tokens for this number of source tokens; both include EOS."""
        least = max(self.min_target_length, self.min_target_ratio * source_length)
        return math.ceil(min(self.length_limit(source_length), least))


def changed_config(
    config: DecodingConfig, changes: Mapping[str, Any], arguments: Sequence[str] = ()
) -> DecodingConfig:
    """Returns `config` with the changes that are not None, checked like a new one.

    The message about an unknown name suggests a field, or another of the caller's `arguments`.
    """
    names = [field.name for field in dataclasses.fields(DecodingConfig)]
    for name in changes:
        if name not in names:
            hint = did_you_mean(name, [*names, *arguments])
            raise ValueError(f"decoding has no field {name!r}: {hint}")
    given: dict[str, Any] = {
        name: new.item() if isinstance(new, np.generic) else new  # as Python's own number
        for name, new in changes.items()
        if new is not None
    }
    return dataclasses.replace(config, **given)


SAMPLING = {"temperature": 1.0, "top_k": 0, "top_p": 1.0}
"""The options that only sampling uses, with their defaults."""
_BOUNDS = {
    **dict.fromkeys(("num_samples", "max_target_length"), POSITIVE_INT),
    **dict.fromkeys(("tokens_per_batch", "max_rows_per_batch"), POSITIVE_INT),
    **dict.fromkeys(("target_length_ratio", "no_repeat_ngram_size"), Bounds(0)),
    **dict.fromkeys(("min_target_length", "min_target_ratio", "coverage_penalty"), Bounds(0, 1e10)),
    **dict.fromkeys(("repetition_penalty", "temperature"), Bounds(1e-3, 1e10, "1 changes nothing")),
    "length_penalty": Bounds(0, 10, "0 compares plain log-probabilities, 0.6 to 1 is usual"),
    "target_length_margin": Bounds(1, hint="EOS needs one token"),
    "top_k": Bounds(0, hint="0 samples from all tokens"),
    "top_p": Bounds(1e-6, 1, "1 samples from all tokens"),
    "seed": Bounds(0, 2**32 - 1),
}


def _check_combinations(config: DecodingConfig) -> None:
    if not isinstance(config.forbidden, tuple):  # a program's settings must be hashable
        raise ValueError(f"forbidden: expected a tuple, got {config.forbidden!r}")
    if config.strategy == "mbr" and config.num_hypotheses > config.num_samples:
        raise ValueError(
            f"num_hypotheses ({config.num_hypotheses}) must not be above num_samples "
            f"({config.num_samples}), from which they are chosen"
        )
    if config.min_target_length > config.max_target_length:
        raise ValueError(
            f"min_target_length ({config.min_target_length}) must not be above max_target_length "
            f"({config.max_target_length})"
        )
    if config.coverage_penalty and config.strategy != "beam":
        raise ValueError(
            f"coverage_penalty ranks the hypotheses of a beam search, but strategy is "
            f"{config.strategy!r}: set coverage_penalty to 0"
        )
    users = ("sample", "sample_distinct", "mbr")
    for name, default in SAMPLING.items():
        if config.strategy not in users and getattr(config, name) != default:
            raise ValueError(
                f"{name} would change nothing: strategy is {config.strategy!r}; choose strategy "
                f"{' or '.join(map(repr, users))}, or leave {name} at {default!r}"
            )
