"""How to train: everything that is neither data, model nor search."""

import dataclasses
import math
import re
from collections.abc import Iterator
from typing import Literal, TypeAlias, get_args

OptimizerName: TypeAlias = Literal["adam", "adamw", "adafactor", "lion", "muon"]
ScheduleName: TypeAlias = Literal["inverse_sqrt", "cosine", "wsd"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """Length, optimiser, regularisation, and what to measure and keep on the way."""

    num_steps: int = 1000
    """Updates in all; a resumed run goes on up to this number."""
    learning_rate: float = 0.0
    """Peak, reached after warm-up; 0 = the paper's d_model^-0.5 * warmup_steps^-0.5."""
    warmup_steps: int = 4000
    """Linear warm-up to the peak, whatever the schedule."""
    schedule: ScheduleName = "inverse_sqrt"
    """After warm-up: decay with the inverse square root of the step (equation 3); half a "cosine"
    to the end; or "wsd" (warm-up, stable, decay): at the peak, then a line to the end."""
    decay_steps: int = 0
    """Schedule "wsd": length of the last line; 0 = a tenth of num_steps."""
    final_learning_rate: float = 0.0
    """Schedules "cosine" and "wsd": where they end; a learning rate, not a share of the peak."""
    optimizer: OptimizerName = "adam"
    """The paper's Adam; AdamW, Adafactor (little memory), Lion (wants a smaller learning rate), or
    Muon for the kernels with Adam for the rest; see training/optimizer.py."""
    weight_decay: float = 0.0
    """Share of each kernel, times the learning rate, that is taken off at each step; biases, norms
    and embeddings keep theirs. Not for Adam: use AdamW."""
    adam_b1: float = 0.9
    """Adam's decay of the mean of the gradients (section 5.3)."""
    adam_b2: float = 0.98
    """Adam's decay of the mean of their squares (section 5.3)."""
    adam_eps: float = 1e-9
    """Adam's epsilon (section 5.3)."""
    clip_norm: float = 1.0
    """Gradients are scaled down to this global norm; 0 = never."""
    label_smoothing: float = 0.1
    """Share of the target probability that is spread over the vocabulary (section 5.4)."""
    r_drop: float = 0.0
    """Weight of R-Drop (Liang et al. 2021): each batch goes through the model twice, under two
    dropout masks, and the two outputs are drawn together. Costs twice the time; 0 = no."""
    ema_decay: float = 0.0
    """Keep an exponential moving average of the parameters with this decay, such as 0.999: it is
    what is validated and what translates; 0 = none."""
    on_nonfinite: Literal["stop", "skip"] = "stop"
    """Where loss or gradient are not finite, nothing is updated. Then: stop, naming step and batch;
    or go on, and count."""
    log_every: int = 50
    """Steps between two lines of training metrics."""
    validate_every: int = 500
    """Steps between two validations (loss, BLEU, samples); 0 = only at the end."""
    validation_pairs: int = 1000
    """Pairs translated for validation BLEU, from the front of the set (with target languages,
    evenly from all of it); 0 = no BLEU."""
    validation_beam_size: int = 1
    """Beam of validation BLEU; 1 = greedy."""
    patience: int = 0
    """Stop after so many validations without a better BLEU; 0 = never."""
    checkpoint_every: int = 500
    """Steps between two checkpoints; each validation makes one as well."""
    keep_last: int = 5
    """How many of the newest checkpoints to keep."""
    keep_best: int = 5
    """How many checkpoints with the best validation BLEU to keep as well."""
    average_last: int = 0
    """At the end, average the parameters of so many of the last checkpoints (section 6.1), as far
    as they are of the last third of the run."""
    average_best: int = 0
    """At the end, average so many of the best checkpoints instead; 0 = none."""
    init_from: str = ""
    """Workdir of a trained or converted model whose parameters to start from."""
    trainable: tuple[str, ...] = ()
    """Regular expressions for whole parameter paths, such as decoder_0/.*/kernel: what is trained;
    the others stay as they are. Empty = all (with lora_rank: the adapters alone)."""
    lora_rank: int = 0
    """Train low-rank adapters of this rank instead of whole kernels (Hu et al. 2021); 0 = none."""
    lora_alpha: float = 0.0
    """Adapters are multiplied by lora_alpha / lora_rank; 0 = lora_rank, so by 1."""
    lora_target: tuple[str, ...] = (".*attention/.*/kernel",)
    """Regular expressions for the whole paths of the kernels that get adapters."""

    def __post_init__(self) -> None:
        counts = ("num_steps", "warmup_steps", "log_every", "checkpoint_every", "keep_last")
        for name in (*counts, "validation_beam_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"training.{name} must be at least 1, got {getattr(self, name)}")
        amounts = ("learning_rate", "clip_norm", "validate_every", "validation_pairs", "patience")
        more = ("keep_best", "average_last", "average_best", "adam_eps", "r_drop")
        for problem in _amount_problems(self, *amounts, *more):
            raise ValueError(problem)
        for name in ("label_smoothing", "adam_b1", "adam_b2", "ema_decay"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"training.{name} must be in [0, 1), got {getattr(self, name)}")
        if self.patience and not self.validation_pairs:
            raise ValueError(
                "training.patience waits for a better validation BLEU: it needs "
                "training.validation_pairs of at least 1"
            )
        if self.average_last and self.average_best:
            raise ValueError("choose one of training.average_last and training.average_best")
        for average, keep in (("average_last", "keep_last"), ("average_best", "keep_best")):
            if getattr(self, average) > getattr(self, keep):
                raise ValueError(
                    f"training.{average} ({getattr(self, average)}) is more than "
                    f"training.{keep} ({getattr(self, keep)}) leaves to average"
                )
        if self.on_nonfinite not in ("stop", "skip"):
            raise ValueError(
                f"training.on_nonfinite must be stop or skip, got {self.on_nonfinite!r}"
            )
        for problem in (*_optimizer_problems(self), *_adapting_problems(self)):
            raise ValueError(problem)

    @property
    def decay_length(self) -> int:
        """`decay_steps`, or a tenth of the run."""
        return self.decay_steps or max(1, self.num_steps // 10)


def _amount_problems(config: TrainingConfig, *names: str) -> Iterator[str]:
    """Which of these fields are no amounts."""
    for name in names:
        value = getattr(config, name)
        if not 0 <= value < math.inf:
            yield f"training.{name} must not be negative or infinite, got {value}"


def _optimizer_problems(config: TrainingConfig) -> Iterator[str]:
    """What makes no sense in the choice of optimiser and schedule, the first thing first."""
    for name, kind in (("optimizer", OptimizerName), ("schedule", ScheduleName)):
        if getattr(config, name) not in get_args(kind):
            choices = ", ".join(get_args(kind))
            yield f"training.{name} must be one of {choices}, got {getattr(config, name)!r}"
    yield from _amount_problems(config, "weight_decay", "decay_steps", "final_learning_rate")
    if config.weight_decay and config.optimizer == "adam":
        yield (
            f"training.weight_decay is {config.weight_decay}, but training.optimizer is adam, "
            "which has none; use adamw"
        )
    if config.decay_steps and config.schedule != "wsd":
        yield (
            f"training.decay_steps belongs to the schedule wsd, but training.schedule is "
            f"{config.schedule}; choose wsd, or leave it 0"
        )
    if config.final_learning_rate and config.schedule == "inverse_sqrt":
        yield (
            "training.final_learning_rate is where the schedules cosine and wsd end, but "
            "training.schedule is inverse_sqrt, which has no end; choose one of the two, or leave "
            "it 0"
        )
    decay = {"cosine": 0, "wsd": config.decay_length}.get(config.schedule)
    if decay is not None and config.warmup_steps + decay > config.num_steps:
        parts = f"training.warmup_steps ({config.warmup_steps})"
        parts += f" and the final decay ({decay} steps)" if decay else ""
        yield (
            f"{parts} must fit in training.num_steps ({config.num_steps}) with the schedule "
            f"{config.schedule}; warm up for a shorter time, or train longer"
        )


def _adapting_problems(config: TrainingConfig) -> Iterator[str]:
    """What makes no sense in the choice of what is trained, the first thing first."""
    yield from _amount_problems(config, "lora_rank", "lora_alpha")
    if config.lora_alpha and not config.lora_rank:
        yield (
            f"training.lora_alpha is {config.lora_alpha}, but training.lora_rank is 0, which "
            "trains no adapters; give a rank, such as 8"
        )
    if config.lora_rank and not config.lora_target:
        yield "training.lora_target is empty: name the kernels that get adapters"
    for name in ("trainable", "lora_target"):
        for pattern in getattr(config, name):
            try:
                re.compile(pattern)
            except re.error as error:
                yield f"training.{name}: {pattern!r} is no regular expression: {error}"
