"""The modules of a model and what they cost: `python -m flaxformer_mt.summary`."""

import dataclasses
from collections.abc import Callable
from typing import Any

from flaxformer_mt.cli import command
from flaxformer_mt.config import Config, workdir_config
from flaxformer_mt.config_arguments import ConfigArguments
from flaxformer_mt.data.batching.batch import BatchShape
from flaxformer_mt.data.tokenization.tokenizer import Tokenizer
from flaxformer_mt.data.tokenization.vocabulary import BOS_ID
from flaxformer_mt.inspection.flops import training_flops
from flaxformer_mt.inspection.modules import module_rows, params_by_part
from flaxformer_mt.inspection.table import module_table, short
from flaxformer_mt.model.initialization import param_shapes
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.runtime.command import exit_process
from flaxformer_mt.storage.paths import as_path


@dataclasses.dataclass(frozen=True, kw_only=True)
class SummaryArguments(ConfigArguments):
    """Show the modules of a model in order, with shapes, parameters and FLOPs.

    Nothing is computed and no data is read. Without --workdir the vocabulary has
    data.tokenizer.vocab_size tokens.
    """

    workdir: str = ""
    """Directory of a training run: its config and its vocabulary are used instead of --config."""
    source_length: int = 20
    """Source tokens of the example, end token included."""
    target_length: int = 20
    """Target tokens of the example, end token included."""

    @classmethod
    def defaults(cls, values_of: Callable[[str], list[str] | None]) -> dict[str, Any]:
        """Returns the config of the run in --workdir, or of the file that --config names."""
        workdir = "".join(values_of("--workdir") or [])
        if workdir:
            return {"workdir": workdir, **vars(workdir_config(workdir))}
        return super().defaults(values_of)


def run(arguments: SummaryArguments) -> None:
    """Runs the command `summary`: prints the table."""
    print(summary(arguments.as_config(), arguments))


def summary(config: Config, example: SummaryArguments) -> str:
    """Returns the module table and the totals as text.

    Raises ValueError for a sentence without tokens, or longer than the model reads.
    """
    for side, length in (("source", example.source_length), ("target", example.target_length)):
        if length < 1:
            raise ValueError(f"--{side}-length must be at least 1 (the end token), got {length}")
    model = _model(config, example.workdir)
    shape = BatchShape(1, example.source_length, example.target_length)
    rows = module_rows(model, shape)
    return f"{module_table(rows)}\n\n{_totals(config, model, shape, forward=rows[0].flops)}"


def _model(config: Config, workdir: str) -> Transformer:
    if not workdir:
        size = config.data.tokenizer.vocab_size
        return Transformer(config.model, size, size, BOS_ID)
    tokenizer = Tokenizer.load(as_path(workdir) / "tokenizer")
    source, target = tokenizer.source, tokenizer.target
    return Transformer(config.model, source.size, target.size, target.bos_id)


def _totals(config: Config, model: Transformer, shape: BatchShape, *, forward: int) -> str:
    """Returns parameters by part; FLOPs of the example, a target token and a training batch."""
    params = params_by_part(param_shapes(model))
    total, tokens = sum(params.values()), config.data.tokens_per_batch
    batch = f"batch of {tokens:,}"
    lines = [f"{'parameters':<24}{total:>14,}"]
    lines += [f"  {part:<22}{count:>14,}{count / total:>8.1%}" for part, count in params.items()]
    lines += ["", f"{'FLOPs':<24}{'this example':>14}{'a target token':>18}{batch:>22}"]
    training = training_flops(model, shape, r_drop=config.training.r_drop)
    for name, flops in (("forward", forward), ("training step", training)):
        each = flops / shape.target_length
        lines.append(
            f"  {name:<22}{short(flops):>14}{short(each):>18}{short(each * tokens):>22}".rstrip()
        )
    return "\n".join(lines)


main = command("summary", SummaryArguments, run)

if __name__ == "__main__":
    exit_process(main())
