"""Averages the parameters of several checkpoints: `python -m flaxformer_mt.average`."""

import dataclasses

from flaxformer_mt.cli import command
from flaxformer_mt.runtime.command import exit_process


@dataclasses.dataclass(frozen=True, kw_only=True)
class AverageArguments:
    """Average the parameters of several checkpoints of one run.

    The paper averages the last 5 (base) or 20 (big) checkpoints (section 6.1). The result is
    WORKDIR/averaged, the default of `translate`, `score` and `evaluate` (--checkpoint).
    """

    workdir: str
    """Directory of a trained model: the --workdir of training."""
    last: int | None = None
    """Number of newest checkpoints to average."""
    best: int | None = None
    """Number of checkpoints with the best validation BLEU to average."""


def average(arguments: AverageArguments) -> None:
    """Writes WORKDIR/averaged and prints the averaged steps."""
    from flaxformer_mt.checkpoints.averaging import average_checkpoints

    averaged = average_checkpoints(arguments.workdir, last=arguments.last, best=arguments.best)
    steps = ", ".join(map(str, averaged.steps))
    print(f"{averaged.path}: the mean of the checkpoints of steps {steps}")


main = command("average", AverageArguments, average)

if __name__ == "__main__":
    exit_process(main())
