"""Settings of training: everything that is neither data, model, search nor mesh."""

import dataclasses
import re
from collections.abc import Iterator
from typing import Literal, TypeAlias

from flaxformer_mt.storage.dataclass_json import FRACTION, NOT_NEGATIVE, POSITIVE_INT, check_fields

OptimizerName: TypeAlias = Literal["adam", "adamw", "adafactor", "lion", "muon"]
ScheduleName: TypeAlias = Literal["inverse_sqrt", "cosine", "wsd"]
NonfinitePolicy: TypeAlias = Literal["stop", "skip"]

_BOUNDS = {
    **dict.fromkeys(("num_steps", "warmup_steps", "log_every", "checkpoint_every"), POSITIVE_INT),
    **dict.fromkeys(("keep_last", "validation_beam_size"), POSITIVE_INT),
    **dict.fromkeys(("learning_rate", "final_learning_rate", "decay_steps"), NOT_NEGATIVE),
    **dict.fromkeys(("weight_decay", "clip_norm", "adam_eps", "r_drop"), NOT_NEGATIVE),
    **dict.fromkeys(("validate_every", "validation_pairs", "patience"), NOT_NEGATIVE),
    **dict.fromkeys(("keep_best", "average_last", "average_best"), NOT_NEGATIVE),
    **dict.fromkeys(("lora_rank", "lora_alpha"), NOT_NEGATIVE),
    **dict.fromkeys(("label_smoothing", "adam_b1", "adam_b2", "ema_decay"), FRACTION),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """Length, optimiser, regularisation, validation and checkpoints."""

    num_steps: int = 1000
    """Total number of updates; a resumed run continues up to it."""
    learning_rate: float = 0.0
    """Peak, after warm-up; 0 = the paper's d_model^-0.5 * warmup_steps^-0.5."""
    warmup_steps: int = 4000
    """Linear warm-up to the peak, with every schedule."""
    schedule: ScheduleName = "inverse_sqrt"
    """Learning rate after warm-up. "inverse_sqrt": falls with the inverse square root of the step
    (equation 3). "cosine": half a cosine. "wsd" (warm-up, stable, decay): constant, then a linear
    decay."""
    decay_steps: int = 0
    """Schedule "wsd": steps of the linear decay; 0 = a tenth of num_steps."""
    final_learning_rate: float = 0.0
    """Schedules "cosine" and "wsd": learning rate at the end."""
    optimizer: OptimizerName = "adam"
    """The paper's Adam; AdamW, Adafactor (little memory), Lion (needs a smaller learning rate), or
    Muon for the weight matrices with Adam for the rest; see training/optimizer.py."""
    weight_decay: float = 0.0
    """Decoupled weight decay of the weight matrices, times the learning rate; biases, norms and
    embeddings do not decay. Not for Adam: use AdamW."""
    adam_b1: float = 0.9
    """Adam's decay rate of the mean of the gradients (section 5.3)."""
    adam_b2: float = 0.98
    """Adam's decay rate of the mean of the squared gradients (section 5.3)."""
    adam_eps: float = 1e-9
    """Adam's epsilon (section 5.3)."""
    clip_norm: float = 1.0
    """Largest global norm of the gradient; larger ones are scaled down. 0 = no clipping."""
    label_smoothing: float = 0.1
    """Probability that is spread over the vocabulary (section 5.4)."""
    r_drop: float = 0.0
    """Weight of R-Drop (Liang et al. 2021): each batch passes the model twice, with two dropout
    masks, and the loss penalises the difference of the outputs. Twice the operations; 0 = off."""
    ema_decay: float = 0.0
    """Decay rate of an exponential moving average of the parameters, such as 0.999. The average is
    used for validation and translation; 0 = none."""
    on_nonfinite: NonfinitePolicy = "stop"
    """Reaction to an update whose loss or gradient is not finite. "stop": end the run, and name the
    step and batch. "skip": count the update, and continue. Neither changes parameters."""
    log_every: int = 50
    """Steps between two reports of training metrics."""
    validate_every: int = 500
    """Steps between two validations (loss, BLEU, samples); 0 = only at the end."""
    validation_pairs: int = 1000
    """Number of pairs translated for validation BLEU: the first ones, or evenly spaced ones if the
    corpora have target_languages. 0 = no BLEU."""
    validation_beam_size: int = 1
    """Beam size of validation BLEU; 1 = greedy."""
    patience: int = 0
    """Stop after this number of validations without a better BLEU (a lower loss, while BLEU is
    0.00); 0 = never."""
    checkpoint_every: int = 500
    """Steps between two checkpoints; each validation also writes one."""
    keep_last: int = 5
    """Number of newest checkpoints to keep. A checkpoint of an interruption does not count."""
    keep_best: int = 5
    """Number of checkpoints to keep in addition: those with the best validation BLEU."""
    average_last: int = 0
    """At the end, average this number of last checkpoints (section 6.1), without those before the
    last third of the run. 0 = none."""
    average_best: int = 0
    """At the end, average this number of best checkpoints instead; 0 = none."""
    init_from: str = ""
    """Workdir of a trained or converted model; training starts from its parameters."""
    trainable: tuple[str, ...] = ()
    """Regular expressions for the whole paths of the trained parameters, such as
    decoder_0/.*/kernel; the others are frozen. Empty = all (with lora_rank: adapters only)."""
    lora_rank: int = 0
    """Train low-rank adapters of this rank instead of the matrices (Hu et al. 2021); 0 = none."""
    lora_alpha: float = 0.0
    """Adapters are scaled by lora_alpha / lora_rank; 0 means lora_rank, a scale of 1."""
    lora_target: tuple[str, ...] = (".*attention/.*/kernel",)
    """Regular expressions for the whole paths of the weight matrices with adapters."""

    def __post_init__(self) -> None:
        check_fields(self, "training", _BOUNDS)
        for problem in _problems(self):
            raise ValueError(problem)

    @property
    def decay_length(self) -> int:
        """`decay_steps`, or a tenth of the run."""
        return self.decay_steps or max(1, self.num_steps // 10)


def _problems(config: TrainingConfig) -> Iterator[str]:
    """Yields an error for each inconsistency of a config."""
    if config.patience and not config.validation_pairs:
        yield (
            "training.patience waits for a better validation BLEU: it needs "
            "training.validation_pairs of at least 1"
        )
    if config.average_last and config.average_best:
        yield "training.average_last and training.average_best are both set; set one of them to 0"
    for average, keep in (("average_last", "keep_last"), ("average_best", "keep_best")):
        if getattr(config, average) > getattr(config, keep):
            yield (
                f"training.{average} ({getattr(config, average)}) is more than training.{keep} "
                f"({getattr(config, keep)}), the number of checkpoints to keep; lower it, or raise "
                f"training.{keep}"
            )
    yield from _schedule_problems(config)
    if config.lora_alpha and not config.lora_rank:
        yield (
            f"training.lora_alpha is {config.lora_alpha}, but training.lora_rank is 0, so there "
            "are no adapters; give a rank, such as 8"
        )
    if config.lora_rank and not config.lora_target:
        yield "training.lora_target is empty: name the weight matrices that get adapters"
    for name in ("trainable", "lora_target"):
        for pattern in getattr(config, name):
            try:
                re.compile(pattern)
            except re.error as error:
                yield f"training.{name}: {pattern!r} is not a regular expression: {error}"


def _schedule_problems(config: TrainingConfig) -> Iterator[str]:
    """Yields an error for each inconsistency of optimiser and schedule."""
    if config.weight_decay and config.optimizer == "adam":
        yield (
            f"training.weight_decay is {config.weight_decay}, but training.optimizer is adam, "
            "which has none; use adamw"
        )
    if config.decay_steps and config.schedule != "wsd":
        yield (
            f"training.decay_steps belongs to the schedule wsd, but training.schedule is "
            f"{config.schedule}; choose wsd, or set training.decay_steps to 0"
        )
    if config.final_learning_rate and config.schedule == "inverse_sqrt":
        yield (
            "training.final_learning_rate is for the schedules cosine and wsd, but "
            "training.schedule is inverse_sqrt, which has no end; choose one of the two, or set "
            "training.final_learning_rate to 0"
        )
    decay = {"cosine": 0, "wsd": config.decay_length}.get(config.schedule)
    if decay is not None and config.warmup_steps + decay > config.num_steps:
        parts = f"training.warmup_steps ({config.warmup_steps})"
        parts += f" and the final decay ({decay} steps)" if decay else ""
        yield (
            f"{parts} must fit in training.num_steps ({config.num_steps}) with the schedule "
            f"{config.schedule}; warm up for a shorter time, or train longer"
        )
