"""Properties of the compiled search."""

import dataclasses
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from flaxformer_mt.inference.programs import SearchInputs, SearchProgram, search_batch
from flaxformer_mt.kernels.choose import choose_kernels
from flaxformer_mt.model.config import KernelChoice, TransformerConfig
from flaxformer_mt.model.initialization import init_params
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.search.loop import SearchSettings, SentenceOptions
from flaxformer_mt.search.rules import MinLength

pytestmark = [pytest.mark.slow, pytest.mark.default_compiler]

VOCAB, LAYERS = 40, 2
CONFIG = TransformerConfig(
    d_model=16, d_ff=24, num_heads=2, num_encoder_layers=1, num_decoder_layers=LAYERS
)
SETTINGS = SearchSettings(
    jnp.zeros(VOCAB, bool), jnp.float32(1), bos_id=2, eos_id=3, pad_id=0, max_target_length=40
)


def compiled(
    options: SearchInputs,
    beam_size: int,
    *,
    kernels: KernelChoice = "cpu",
    dtype: str = "float32",
) -> jax.stages.Compiled:
    """Returns a compiled search in 64 slots, for one sentence for each limit."""
    config = dataclasses.replace(CONFIG, dtype=dtype)
    model = Transformer(config, VOCAB, VOCAB, 2, choose_kernels(kernels, "cpu"))
    params = init_params(model, jax.random.key(0))
    tokens = jnp.ones((len(options.each.length_limits), 7), jnp.int32)  # 7: no other size here
    program = SearchProgram((model,), beam_size, 1, batch_slots=64)

    def search(params, tokens):
        return search_batch((params,), tokens, tokens, tokens, options, program=program)

    return jax.jit(search).lower(params, tokens).compile()


def compiled_text(*given: Any, **options: Any) -> str:
    return compiled(*given, **options).as_text() or ""


@pytest.mark.parametrize("kernels", ["reference", "cpu"])
@pytest.mark.parametrize("beam_size", [1, 4])
def test_the_loop_never_copies_the_past(beam_size, kernels):
    """Keys and values are copied at most once, before the loop, where they are created."""
    options = SearchInputs(SentenceOptions(jnp.full(192, 20)), SETTINGS)
    text = compiled_text(options, beam_size, kernels=kernels)
    for length in (64, 32) if beam_size > 1 else (16, 8):
        if kernels == "cpu":
            shapes = f"64,2,8,{length}", f"64,2,{length},8"
        else:
            shapes = (f"64,{40 * beam_size},2,8",)
        for shape in shapes:
            written = len(re.findall(rf"= f32\[{shape}\]\S* scatter\(", text))
            assert written >= LAYERS
            assert len(re.findall(rf"= f32\[{shape}\]\S* copy\(", text)) <= written


def test_admission_never_copies_the_other_sources():
    """New sources are written into the cache in place."""
    options = SearchInputs(SentenceOptions(jnp.full(192, 20)), SETTINGS)
    text = compiled_text(options, 1)
    for shape in ("64,2,8,7", "64,2,7,8"):
        assert len(re.findall(rf"= f32\[{shape}\]\S* scatter\(", text)) == LAYERS
        assert len(re.findall(rf"= f32\[{shape}\]\S* copy\(", text)) <= LAYERS


def test_an_option_that_is_off_adds_no_code():
    """Neither the sums of source attention nor random noise."""
    plain = SearchInputs(SentenceOptions(jnp.full(64, 20)), SETTINGS)
    text = compiled_text(plain, 3)
    with_coverage = compiled_text(dataclasses.replace(plain, coverage_penalty=jnp.float32(0.2)), 3)
    assert "f32[64,3,7]" in with_coverage and "f32[64,3,7]" not in text
    assert "rng" not in text and "shift-left" not in text


def test_in_bfloat16_no_token_converts_the_past():
    """XLA:CPU would convert all of it, at every token. So the pages are float32."""
    options = SearchInputs(SentenceOptions(jnp.full(192, 20)), SETTINGS)
    text = compiled_text(options, 3, dtype="bfloat16")
    for shape in ("64,2,8,64", "64,2,64,8"):
        assert f"f32[{shape}]" in text and f"bf16[{shape}]" not in text


@pytest.mark.parametrize("dtype, tolerance", [("float32", 1e-5), ("bfloat16", 0.03)])
def test_cpu_kernels_and_the_reference_find_the_same(dtype, tolerance):
    """With every kind of layer that has a kernel, sources and limits of very different lengths."""
    config = dataclasses.replace(
        CONFIG, activation="swiglu", tie_embeddings="none", norm="pre", dtype=dtype
    )
    models = {
        name: Transformer(config, VOCAB, VOCAB, 2, choose_kernels(name, "cpu"))
        for name in ("cpu", "reference")
    }
    params = init_params(models["reference"], jax.random.key(1))
    tokens = jax.random.randint(jax.random.key(2), (16, 64), 5, VOCAB)
    lengths = jnp.asarray([64, 60, 48, 3, 33, 31, 25, 24, 23, 17, 16, 16, 5, 9, 1, 1])
    limits = jnp.asarray([40, 3, 17, 0, 30, 18, 1, 40, 5, 16, 2, 33, 0, 9, 0, 0])
    rules = (MinLength(limits, 3),)
    options = SearchInputs(SentenceOptions(limits, rules), SETTINGS)

    def search(kernels):
        program = SearchProgram((models[kernels],), 3, 2, batch_slots=8)
        positions = jnp.tile(jnp.arange(64), (16, 1))
        real = (positions < lengths[:, None]).astype(jnp.int32)
        return search_batch((params,), tokens, positions, real, options, program=program)

    found, wanted = search("cpu"), search("reference")
    real = wanted.scores > -jnp.inf
    np.testing.assert_allclose(found.scores, wanted.scores, rtol=tolerance)
    np.testing.assert_array_equal(found.lengths, wanted.lengths)
    if dtype == "float32":
        np.testing.assert_array_equal(found.tokens[real], wanted.tokens[real])
    assert jnp.max(wanted.lengths) == 40
