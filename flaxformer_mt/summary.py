"""A walk through the tensors of one training example: `python -m flaxformer_mt.summary`."""

import dataclasses

from flaxformer_mt.cli import command
from flaxformer_mt.config import Config, ConfigArguments
from flaxformer_mt.data.batching.batch import BatchShape
from flaxformer_mt.data.tokenization.vocabulary import BOS_ID
from flaxformer_mt.inspection.costs import count_costs
from flaxformer_mt.inspection.letters import axis_sizes
from flaxformer_mt.inspection.table import axis_legend, cost_table, walk_table
from flaxformer_mt.inspection.walk import walk
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.runtime.exit import leave
from flaxformer_mt.training.optimizer import make_optimizer


@dataclasses.dataclass(frozen=True, kw_only=True)
class SummaryArguments(ConfigArguments):
    """The tensors of one training example, with what each step costs.

    No data is read and nothing is computed: shapes and operations are those of the program that
    training would run. The vocabulary has the size that the config asks for.
    """

    source_length: int = 20
    """Source tokens of the example, end token included."""
    target_length: int = 20
    """Target tokens of the example, end token included."""


def summary(config: Config, source_length: int = 20, target_length: int = 20) -> str:
    """What the letters mean, the walk, and the totals, as text.

    Raises ValueError for no tokens, and for more than the model can read.
    """
    for side, length in (("source", source_length), ("target", target_length)):
        if length < 1:
            raise ValueError(f"--{side}-length must be at least 1 (the end token), got {length}")
    vocab_size = config.data.tokenizer.vocab_size
    model = Transformer(config.model, vocab_size, vocab_size, BOS_ID)
    shape = BatchShape(1, source_length, target_length)
    steps = walk(model, shape, label_smoothing=config.training.label_smoothing)
    forward = sum(step.flops * step.repeats for step in steps)
    costs = count_costs(model, make_optimizer(config.training, config.model.d_model), shape)
    totals = cost_table(costs, forward=forward, target_length=target_length)
    return f"{axis_legend(axis_sizes(model, shape))}\n\n{walk_table(steps)}\n\n{totals}"


def run(arguments: SummaryArguments) -> None:
    """The command: prints the summary."""
    print(summary(arguments.as_config(), arguments.source_length, arguments.target_length))


main = command("summary", SummaryArguments, run)

if __name__ == "__main__":
    leave(main())
