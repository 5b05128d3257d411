"""The cost of training against the usual estimate and the paper's own numbers."""

import pytest

import training_flops
from flaxformer_mt.config import load_config


def test_the_papers_numbers_are_time_times_gpus_times_peak():
    assert training_flops.PAPER["wmt14_en_de_base"] == pytest.approx(3.3e18, rel=0.02)
    assert training_flops.PAPER["wmt14_en_de_big"] == pytest.approx(2.3e19, rel=0.02)


def test_a_config_costs_about_six_operations_for_each_parameter_and_token():
    config = load_config("configs/table_3.py")  # a small model
    cost = training_flops.count(config)
    model = config.model
    # A layer of the encoder multiplies each source token by 4 D^2 + 2 D F numbers, a layer of the
    # decoder each target token by 8 D^2 + 2 D F; the output multiplies it by V D. Training costs
    # two operations for each of these in the forward pass and four in the backward pass.
    d, f, v = model.d_model, model.d_ff, config.data.tokenizer.vocab_size
    matrices = model.num_encoder_layers * (12 * d * d + 4 * d * f) + v * d
    estimate = 6 * matrices * cost.tokens_per_update * cost.updates
    assert estimate < cost.flops < 1.6 * estimate
