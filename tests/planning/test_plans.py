"""Plans of whole recipes, compiled for TPUs and GPUs that are not here."""

import dataclasses
import importlib.util

import jax
import pytest

from flaxformer_mt.config import Config, load_config
from flaxformer_mt.model.config import TransformerConfig
from flaxformer_mt.model.initialization import init_params
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.planning.compiler import Estimate
from flaxformer_mt.planning.hardware import open_topology
from flaxformer_mt.planning.plans import Plan, make_plan, summary_lines
from flaxformer_mt.planning.workload import AssumedBatch, assume_batches, largest_batch

pytestmark = [pytest.mark.slow, pytest.mark.default_compiler]
needs_libtpu = pytest.mark.skipif(
    importlib.util.find_spec("libtpu") is None,
    reason="libtpu is not installed: pip install -e '.[tpu]' compiles for TPUs without one",
)
needs_cuda = pytest.mark.skipif(
    importlib.util.find_spec("jax_cuda13_plugin") is None,
    reason="jax_cuda13_plugin is not installed: pip install -e '.[gpu-compiler]'",
)


def recipe(name: str, **model) -> Config:
    config = load_config(f"configs/{name}.py")
    return dataclasses.replace(
        config,
        model=dataclasses.replace(config.model, **model),
        training=dataclasses.replace(config.training, optimizer="adam"),
    )


def largest_of(config: Config) -> list[AssumedBatch]:
    return [largest_batch(assume_batches(config))]


def num_params(config: Config) -> int:
    size = config.data.tokenizer.vocab_size
    model = Transformer(config.model, size, size, 2)
    shapes = jax.eval_shape(lambda: init_params(model, jax.random.key(0)))
    return sum(x.size for x in jax.tree.leaves(shapes))


def check(one: Estimate, plan: Plan, least_flops: float) -> None:
    assert not one.failure
    assert 0 < one.peak_bytes < plan.hardware.memory
    assert one.tokens_per_second > 1000
    # The compiler cannot be faster than the hardware.
    assert least_flops < one.flops < one.compute_seconds * one.peak_flops


@needs_libtpu
@pytest.mark.parametrize(
    "config",
    [
        recipe("demo"),
        # A scan compiles one layer instead of six: half the time.
        recipe("wmt14_en_de_big", layer_loop="scan", dtype="bfloat16"),
    ],
    ids=["demo", "big"],
)
def test_training_on_eight_chips(config):
    params = num_params(config)
    plan = make_plan(config, open_topology("v5e:2x4"), largest_of(config))
    (train,) = plan.train
    check(train, plan, least_flops=6 * params * train.target_tokens)
    assert len(plan.hardware.devices) == 8
    assert plan.tokens_per_second == pytest.approx(train.tokens_per_second)
    # Parameters and two moments of four bytes each.
    assert plan.state_bytes == pytest.approx(12 * params, rel=0.01)
    # The gradients, of two bytes each at least, are added up over the chips.
    assert train.sent["all-reduce"] > 2 * params
    # Data parallelism splits no parameters, so none are gathered.
    assert "all-gather" not in train.sent
    assert any("fits in" in line for line in summary_lines(plan, config))


@needs_cuda
def test_a_gpu():
    tiny = TransformerConfig(
        d_model=16,
        d_ff=32,
        num_heads=2,
        num_encoder_layers=1,
        num_decoder_layers=1,
        dtype="bfloat16",
    )
    config = dataclasses.replace(load_config("configs/demo.py"), model=tiny)
    plan = make_plan(config, open_topology("h100:2"), largest_of(config))
    assert not plan.failure
    for one in plan.train:
        assert not one.failure and one.peak_bytes > 0 and one.flops > 0
    assert plan.train[0].sent["all-reduce"] > 0
