"""How arrays lie and are moved, read off HLO; and what a TPU must not do with ours."""

import dataclasses
import importlib.util

import pytest

from flaxformer_mt.config import load_config
from flaxformer_mt.data.batching.batch import BatchShape
from flaxformer_mt.model.config import TransformerConfig
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.planning.hlo import array_bytes, operations
from flaxformer_mt.planning.layouts import Move, argument_padding, count_moves
from flaxformer_mt.planning.recipe import search_program, search_rows, train_program
from flaxformer_mt.planning.topology import open_topology
from flaxformer_mt.runtime.sharding import make_mesh
from flaxformer_mt.training.adapting import TRAIN_ALL
from flaxformer_mt.training.optimizer import make_optimizer
from flaxformer_mt.translation.config import DecodingConfig

needs_libtpu = pytest.mark.skipif(
    importlib.util.find_spec("libtpu") is None, reason="libtpu is not installed"
)
TEXT = """\
HloModule jit_step, entry_computation_layout={(f32[8,64]{1,0:T(8,128)}, s32[]{:T(128)})->f32[8]{0}}

%fused (x: f32[8,64]) -> f32[64,8] {
  ROOT %inside = f32[64,8]{1,0:T(8,128)} transpose(%x), dimensions={1,0}
}

%body (state: f32[100]) -> f32[100] {
  ROOT %again = bf16[100,3]{0,1:T(8,128)(2,1)} copy(%state)
}

%condition (state: f32[100]) -> pred[] {
  ROOT %going = pred[] custom-call()
}

ENTRY %main (p: f32[8,64], n: s32[]) -> f32[8] {
  %other = f32[8,64]{0,1:T(8,128)} copy(%p)
  %part = f32[64,8]{1,0:T(8,128)} fusion(%other), kind=kLoop, calls=%fused
  ROOT %loop = f32[100]{0} while(%start), condition=%condition, body=%body
}
"""
VOCAB, LAYERS, CHIPS = 1000, 1, 8
SMALL = TransformerConfig(
    d_model=128,
    d_ff=256,
    num_heads=2,
    num_encoder_layers=LAYERS,
    num_decoder_layers=LAYERS,
    dtype="bfloat16",
)


def test_bytes_in_tiles():
    types = "(f32[8,64]{1,0:T(8,128)}, bf16[100,3]{0,1:T(8,128)(2,1)}, s32[])"
    assert array_bytes(types) == [2048, 600, 4]
    assert array_bytes(types, tiled=True) == [4096, 8 * 128 * 2, 4]
    assert array_bytes("f32[5,300]{1,0:T(8,128)}", tiled=True) == [8 * 384 * 4]
    assert array_bytes("f32[7,5,300]{1,2,0:T(8,128)}", tiled=True) == [7 * 304 * 128 * 4]
    assert array_bytes("f32[5,300]{1,0}", tiled=True) == [6000]


def test_moves_are_counted_where_they_write():
    assert set(count_moves(TEXT)) == {Move("copy", False, 1, 4096 * 8), Move("copy", True, 1, 2048)}
    assert argument_padding(TEXT) == pytest.approx((4096 + 4) / (2048 + 4))
    assert argument_padding("") == 1 and count_moves("") == []


def train_text(**mesh: int) -> str:
    """The training step of a small model, compiled for eight chips."""
    place = open_topology("v5e:2x4")
    config = load_config("configs/demo.py")
    config = dataclasses.replace(config, mesh=dataclasses.replace(config.mesh, **mesh))
    model = Transformer(SMALL, VOCAB, VOCAB, 2)
    optimizer = make_optimizer(config.training, SMALL.d_model)
    program = train_program(
        config, model, optimizer, TRAIN_ALL, make_mesh(config.mesh, place.devices)
    )
    step, arguments = program(BatchShape(64, 32, 32), 0)
    return step.lower(*arguments).compile(compiler_options=place.compiler_options).as_text()


def search_text(config: DecodingConfig) -> str:
    """Its search, compiled for one chip."""
    place = open_topology("v5e:1x1")
    model = Transformer(SMALL, VOCAB, VOCAB, 2)
    search, arguments = search_program(config, model, place.devices[0], 32, encode_only=False)
    return search.lower(*arguments).compile(compiler_options=place.compiler_options).as_text()


def reduced(text: str) -> list[str]:
    """The types that devices add up between them."""
    return [one.type for one in operations(text) if one.kind.startswith("all-reduce")]


@needs_libtpu
def test_the_gradient_of_the_table_is_sent_in_bfloat16_at_most_twice():
    """Once would do: XLA adds what the decoder looks up to the sum of the two others."""
    text = train_text()
    table = f"[{VOCAB},{SMALL.d_model}]"
    sent = " ".join(reduced(text))
    assert 1 <= sent.count(f"bf16{table}") <= 2 and f"f32{table}" not in sent
    assert argument_padding(text) < 1.1  # no kernel is padded to twice its size


@needs_libtpu
def test_what_chips_of_one_row_add_up_is_bfloat16():
    sent = " ".join(reduced(train_text(tensor=2)))
    activations = f"[{64 // (CHIPS // 2)},32,{SMALL.d_model}]"
    assert f"bf16{activations}" in sent and f"f32{activations}" not in sent


@needs_libtpu
def test_the_search_copies_no_scores_and_writes_tokens_of_all_sentences_at_once():
    """Neither the scores of all hypotheses into one row, nor the past sentence by sentence."""
    config = DecodingConfig(beam_size=4, target_length_ratio=1.0, target_length_margin=50)
    text, rows = search_text(config), search_rows(config, 32)
    assert f"f32[{rows},{config.beam_size},{VOCAB}]" in text
    assert f"f32[{rows},{config.beam_size * VOCAB}]" not in text
    # A TPU makes a loop over sentences of slices that are each written at a place of their own.
    assert text.count(" while(") == 1
