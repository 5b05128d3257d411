"""How to train: everything that is neither data, model nor search."""

import dataclasses


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """Length, optimiser, regularisation, and what to measure and keep on the way."""

    num_steps: int = 1000
    """Updates in all; a resumed run goes on up to this number."""
    learning_rate: float = 0.0
    """Peak, reached after warm-up; 0 = the paper's d_model^-0.5 * warmup_steps^-0.5."""
    warmup_steps: int = 4000
    """Linear warm-up, then decay with the inverse square root of the step (equation 3)."""
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
    log_every: int = 50
    """Steps between two lines of training metrics."""
    validate_every: int = 500
    """Steps between two validations (loss, BLEU, samples); 0 = only at the end."""
    validation_pairs: int = 1000
    """Pairs translated for validation BLEU, from the front of the set; 0 = no BLEU."""
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
    """At the end, average the parameters of so many of the last checkpoints (section 6.1)."""
    average_best: int = 0
    """At the end, average so many of the best checkpoints instead; 0 = none."""

    def __post_init__(self) -> None:
        counts = ("num_steps", "warmup_steps", "log_every", "checkpoint_every", "keep_last")
        for name in (*counts, "validation_beam_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"training.{name} must be at least 1, got {getattr(self, name)}")
        amounts = ("learning_rate", "clip_norm", "validate_every", "validation_pairs", "patience")
        for name in (*amounts, "keep_best", "average_last", "average_best", "adam_eps"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"training.{name} must not be negative, got {getattr(self, name)}")
        for name in ("label_smoothing", "adam_b1", "adam_b2"):
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
