"""The micro-batch that fits: for a known memory model, and for a compiled step."""

import dataclasses

import jax
import pytest

from flaxformer_mt.config import load_config
from flaxformer_mt.data.batching.batch import BatchShape
from flaxformer_mt.kernels.choose import choose_kernels
from flaxformer_mt.model.config import TransformerConfig
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.planning.compiler import requested_bytes
from flaxformer_mt.planning.memory import (
    fit_micro_batches,
    memory_table,
    plan_micro_batches,
    train_program,
)
from flaxformer_mt.runtime.batch_partition import partition_batch
from flaxformer_mt.runtime.sharding import make_mesh
from flaxformer_mt.training.adapting import TRAIN_ALL
from flaxformer_mt.training.optimizer import make_optimizer

SHAPES = (BatchShape(64, 16, 20), BatchShape(32, 40, 32), BatchShape(16, 64, 80))
STATE = 1000


class Memory:
    """Affine in the rows of a device; a loop over micro-batches needs more."""

    def __init__(self, shards, cost=lambda shape: sum(shape[1:])):
        self.shards, self.cost, self.asked = shards, cost, []

    def __call__(self, shape, tokens):
        self.asked.append((shape, tokens))
        division = partition_batch(shape, shards=self.shards, tokens_per_device=tokens)
        loop = 100 if division.micro_batches > 1 else 0
        return STATE + loop + division.rows // self.shards * self.cost(shape)


def fits(memory, tokens, limit):
    try:
        return all(Memory(memory.shards, memory.cost)(shape, tokens) <= limit for shape in SHAPES)
    except ValueError:  # less than one row
        return False


@pytest.mark.parametrize("shards", [1, 4])
@pytest.mark.parametrize("limit", [1250, 1300, 1500, 1777, 2500, 5000])
def test_the_largest_that_fits_is_found_with_few_compilations(shards, limit):
    memory = Memory(shards)
    plan = fit_micro_batches(memory, SHAPES, limit, shards=shards, state=STATE)
    assert fits(memory, plan.tokens_per_device, limit)
    assert plan.peaks.keys() == set(SHAPES) and max(plan.peaks.values()) <= limit
    assert len(memory.asked) <= len(SHAPES) + 4
    assert len(set(memory.asked)) == len(memory.asked)
    largest = max(tokens for tokens in range(80, 1300) if fits(memory, tokens, limit))

    def micro_batches(tokens):
        return partition_batch(SHAPES[-1], shards=shards, tokens_per_device=tokens).micro_batches

    assert micro_batches(plan.tokens_per_device) == micro_batches(largest)


def test_the_shape_with_the_most_attention_need_not_decide():
    memory = Memory(1, lambda shape: 50 if shape.rows == 64 else 1)
    plan = fit_micro_batches(memory, SHAPES, 2500, shards=1)
    assert max(plan.peaks.values()) <= 2500


def test_one_row_does_not_fit():
    with pytest.raises(
        ValueError, match="one row of the batch shape 16 x .*1.00 kB of state.*fsdp"
    ):
        fit_micro_batches(Memory(1), SHAPES, 1100, shards=1, state=STATE)


def test_memory_in_the_message_of_a_compiler():
    message = "Ran out of memory in memory space hbm. Used 20.50G of 15.75G hbm. Exceeded by 4.75G."
    assert requested_bytes(message) == int(20.5 * 2**30)
    message = "total memory required for HLO temporaries (834.50G) exceeds available HBM (15.75G)."
    assert requested_bytes(message) == int(834.5 * 2**30)
    assert requested_bytes("no such thing") == 0


@pytest.mark.slow
def test_a_real_step_fits_its_limit():
    config = load_config("configs/demo.py")
    small = TransformerConfig(
        d_model=16, d_ff=32, num_heads=2, num_encoder_layers=1, num_decoder_layers=1, dropout=0.0
    )
    config = dataclasses.replace(config, model=small)
    model = Transformer(small, 50, 50, 2, choose_kernels("cpu", "cpu"))
    optimizer = make_optimizer(config.training, 16)
    mesh = make_mesh(devices=jax.devices()[:2])
    program = train_program(config, model, optimizer, TRAIN_ALL, mesh)
    whole = plan_micro_batches(program, SHAPES, 1 << 40)
    assert whole.tokens_per_device >= 640  # all rows of each device
    limit = int(max(whole.peaks.values()) * 0.6)
    plan = plan_micro_batches(program, SHAPES, limit)
    assert 80 <= plan.tokens_per_device < whole.tokens_per_device
    assert max(plan.peaks.values()) <= limit
    table = memory_table(plan)
    assert len(table.splitlines()) == 1 + len(SHAPES) and "16 x (64 -> 80)" in table
    with pytest.raises(ValueError, match="--model.remat full"):
        plan_micro_batches(program, SHAPES, 10_000)
