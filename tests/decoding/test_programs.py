"""What the compiler made of a search."""

import dataclasses
import re

import jax
import jax.numpy as jnp
import pytest

from flaxformer_mt.decoding.programs import SearchProgram, Wishes, search_batch
from flaxformer_mt.model.config import TransformerConfig
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.training.state import init_params

VOCAB, LAYERS = 40, 2
CONFIG = TransformerConfig(
    d_model=16, d_ff=24, num_heads=2, num_encoder_layers=1, num_decoder_layers=LAYERS
)


def compiled_text(wishes: Wishes, beam_size: int) -> str:
    """Of a search in 4 places, for as many sentences as there are limits."""
    model = Transformer(CONFIG, VOCAB, VOCAB, 2)
    params = init_params(model, jax.random.key(0))
    tokens = jnp.ones((len(wishes.length_limits), 7), jnp.int32)  # 7: no other size here
    program = SearchProgram((model,), beam_size, 1, 20, 2, 3, 0, places=4)

    def search(params, tokens):
        return search_batch((params,), tokens, tokens, tokens, wishes, program=program)

    return jax.jit(search).lower(params, tokens).compile().as_text()


@pytest.mark.parametrize("sentences", [4, 12])
@pytest.mark.parametrize("beam_size", [1, 3])
def test_the_loop_never_copies_the_past(beam_size, sentences):
    """Keys and values are copied once at most, before the loop: where they are made (all zeros)."""
    wishes = Wishes(jnp.full(sentences, 20), jnp.zeros(VOCAB, bool), jnp.float32(1))
    text = compiled_text(wishes, beam_size)
    shape = rf"f32\[4,2,{beam_size},20,8\]"
    assert len(re.findall(rf"= {shape}\S* scatter\(", text)) == 2 * LAYERS
    assert len(re.findall(rf"= {shape}\S* copy\(", text)) <= 2 * LAYERS


def test_what_nobody_asked_for_is_not_in_the_program():
    """Attention of the source is not summed, noise not drawn, unless it is wished for."""
    plain = Wishes(jnp.full(4, 20), jnp.zeros(VOCAB, bool), jnp.float32(1))
    text = compiled_text(plain, 3)
    with_coverage = compiled_text(dataclasses.replace(plain, coverage_penalty=jnp.float32(0.2)), 3)
    assert "f32[4,3,7]" in with_coverage and "f32[4,3,7]" not in text
    assert "rng" not in text and "shift-left" not in text
