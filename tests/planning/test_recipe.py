"""The programs of a recipe, compiled for TPUs: what they send, pad and copy."""

import dataclasses
import importlib.util
import re

import jax
import pytest
from search_programs import search_programs

from flaxformer_mt.config import load_config
from flaxformer_mt.data.batching.batch import BatchShape
from flaxformer_mt.inspection.flops import jaxpr_flops
from flaxformer_mt.kernels.choose import choose_kernels
from flaxformer_mt.model.config import TransformerConfig
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.planning.hardware import open_topology
from flaxformer_mt.planning.memory import bytes_on_device, train_program
from flaxformer_mt.runtime.sharding import make_mesh
from flaxformer_mt.training.adapting import TRAIN_ALL
from flaxformer_mt.training.optimizer import make_optimizer
from flaxformer_mt.translation.config import DecodingConfig

needs_libtpu = pytest.mark.skipif(
    importlib.util.find_spec("libtpu") is None, reason="libtpu is not installed"
)
VOCAB, LAYERS, CHIPS = 1000, 1, 8
SMALL = TransformerConfig(
    d_model=128,
    d_ff=256,
    num_heads=2,
    num_encoder_layers=LAYERS,
    num_decoder_layers=LAYERS,
    dtype="bfloat16",
)


def compiled_train_step(**mesh: int):
    """The training step of a small model for eight chips, and the bytes of its arguments."""
    hardware = open_topology("v5e:2x4")
    config = load_config("configs/demo.py")
    config = dataclasses.replace(
        config,
        mesh=dataclasses.replace(config.mesh, **mesh),
        training=dataclasses.replace(config.training, optimizer="adam"),
    )
    model = Transformer(SMALL, VOCAB, VOCAB, 2, choose_kernels("tpu", "tpu"))
    optimizer = make_optimizer(config.training, SMALL.d_model)
    program = train_program(
        config, model, optimizer, TRAIN_ALL, make_mesh(config.mesh, hardware.devices)
    )
    step, arguments = program(BatchShape(64, 32, 32), 0)
    compiled = step.lower(*arguments).compile(compiler_options=hardware.compiler_options)
    return compiled, bytes_on_device(arguments)


def search_text(config: DecodingConfig, rows: int) -> str:
    """The optimised HLO of a search of the small model on one chip."""
    hardware = open_topology("v5e:1x1")
    model = Transformer(SMALL, VOCAB, VOCAB, 2, choose_kernels("tpu", "tpu"))
    programs = search_programs(config, model, hardware.devices[0], rows, 32)
    search, arguments = programs.search
    return search.lower(*arguments).compile(compiler_options=hardware.compiler_options).as_text()


@pytest.mark.slow
@pytest.mark.default_compiler
def test_a_token_is_decoded_for_every_hypothesis():
    rows, length, beam, width = 8, 16, 4, SMALL.d_model
    config = DecodingConfig(beam_size=beam, target_length_ratio=1.0, target_length_margin=1)
    model = Transformer(SMALL, VOCAB, VOCAB, 2)
    program, arguments = search_programs(config, model, jax.devices()[0], rows, length).token
    # Four matrices of self-attention, two of source attention, the feed-forward network, the logits
    # and the products with the keys and values of both attentions.
    weights = 6 * width**2 + 2 * width * SMALL.d_ff + VOCAB * width + 2 * 2 * length * width
    found = jaxpr_flops(program.trace(*arguments).jaxpr)
    assert 1 < found / (2 * rows * beam * weights) < 1.1


def reduced_types(text: str) -> str:
    """The types of what the devices add up between them."""
    return " ".join(re.findall(r" = (.*?) all-reduce(?:-start)?\(", text))


@pytest.mark.slow
@pytest.mark.default_compiler
@needs_libtpu
def test_the_gradient_of_the_embedding_is_sent_in_bfloat16_at_most_twice():
    """Once would do: XLA adds the decoder's lookups to the sum of the two other uses."""
    compiled, argument_bytes = compiled_train_step()
    sent = reduced_types(compiled.as_text())
    table = f"[{VOCAB},{SMALL.d_model}]"
    assert 1 <= sent.count(f"bf16{table}") <= 2 and f"f32{table}" not in sent
    # No parameter is padded to twice its size in the tiles of a TPU.
    assert compiled.memory_analysis().argument_size_in_bytes < 1.1 * argument_bytes


@pytest.mark.slow
@pytest.mark.default_compiler
@needs_libtpu
def test_activations_of_tensor_parallelism_are_added_up_in_bfloat16():
    sent = reduced_types(compiled_train_step(tensor=2)[0].as_text())
    activations = f"[{64 // (CHIPS // 2)},32,{SMALL.d_model}]"
    assert f"bf16{activations}" in sent and f"f32{activations}" not in sent


@pytest.mark.slow
@pytest.mark.default_compiler
@needs_libtpu
def test_a_token_of_the_search_copies_no_scores_and_has_no_loop():
    """It does not copy the scores of all hypotheses into one row.

    And it writes the tokens of all sentences at once: XLA makes a loop over sentences out of slices
    that are written at positions of their own.
    """
    config = DecodingConfig(beam_size=4, target_length_ratio=1.0, target_length_margin=50)
    rows = 64
    text = search_text(config, rows)
    assert f"f32[{rows},{config.beam_size},{VOCAB}]" in text
    assert f"f32[{rows},{config.beam_size * VOCAB}]" not in text
    loops = re.findall(r' while\(.*op_name="(.*?)"', text)
    assert [name for name in loops if name.endswith("/while/body/while")]  # over tokens
    assert not [name for name in loops if "/while/body/while/body/" in name]
