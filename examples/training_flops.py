"""Table 2's training cost of every config, counted, beside the paper's numbers.

    python examples/training_flops.py

The paper multiplies the time, the number of GPUs and an estimate of the sustained speed of a P100,
9.5e12 operations a second (section 6.1): base 12 hours, big 3.5 days, on 8 GPUs. Here the
operations of the forward and the backward pass are counted on the program (as `summary` and `plan`
do), for batches of the assumed lengths of `plan`. The quotient of both is the share of that speed
that these operations account for.
"""

import dataclasses
from pathlib import Path
from typing import NamedTuple

import jax

from flaxformer_mt.config import Config, load_config
from flaxformer_mt.data.batching.batch import BatchShape
from flaxformer_mt.inspection.flops import training_flops
from flaxformer_mt.model.initialization import init_params
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.planning.workload import assume_batches
from small_runs import show

P100 = 9.5e12
"""Operations a second that the paper assumes."""
PAPER = {
    "wmt14_en_de_base": 12 * 3600 * 8 * P100,
    "wmt14_en_fr_base": 12 * 3600 * 8 * P100,
    "wmt14_en_de_big": 3.5 * 24 * 3600 * 8 * P100,
    "wmt14_en_fr_big": 3.5 * 24 * 3600 * 8 * P100,
}


class Cost(NamedTuple):
    """The cost of training a config."""

    parameters: int
    tokens_per_update: float
    """Positions of the target, padding included."""
    updates: int
    flops: float
    """Of all updates."""


def count(config: Config) -> Cost:
    """Returns the training cost of a config, for a batch of its mean shape."""
    data = config.data
    most = data.tokens_per_batch // 8  # a batch has at least 8 rows
    data = dataclasses.replace(
        data,
        max_source_length=min(most, data.max_source_length),
        max_target_length=min(most, data.max_target_length),
    )
    batches = assume_batches(dataclasses.replace(config, data=data))
    rows = sum(batch.share * batch.shape.rows for batch in batches)
    source, target = (
        sum(batch.share * batch.shape.rows * batch.shape[side] for batch in batches) / rows
        for side in (1, 2)
    )
    shape = BatchShape(1, round(source), round(target))
    # A scan is traced once for all layers. It has the same operations.
    model_config = dataclasses.replace(config.model, layer_loop="scan")
    size = config.data.tokenizer.vocab_size
    model = Transformer(model_config, size, size, bos_id=2)
    shapes = jax.eval_shape(lambda: init_params(model, jax.random.key(0)))
    parameters = sum(x.size for x in jax.tree.leaves(shapes))
    updates = config.training.num_steps
    flops = training_flops(model, shape, r_drop=config.training.r_drop) * rows * updates
    return Cost(parameters, rows * target, updates, flops)


def main() -> None:
    """Prints the table."""
    table = []
    for path in sorted(Path("configs").glob("*.py")):
        cost, paper = count(load_config(str(path))), PAPER.get(path.stem, 0.0)
        numbers = f"{cost.parameters / 1e6:.1f}", f"{cost.tokens_per_update:,.0f}"
        row = path.stem, *numbers, f"{cost.updates:,}", f"{cost.flops:.2e}"
        table.append((*row, *((f"{paper:.1e}", cost.flops / paper) if paper else ("", ""))))
    header = ("M parameters", "tokens/update", "updates", "FLOPs", "the paper's", "ratio")
    show(("config", *header), table)


if __name__ == "__main__":
    main()
