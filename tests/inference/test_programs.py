"""What the compiler made of a search."""

import dataclasses
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from flaxformer_mt.inference.continuous_batching import SentenceOptions
from flaxformer_mt.inference.programs import SearchInputs, SearchProgram, fewer_places, search_batch
from flaxformer_mt.model.config import TransformerConfig
from flaxformer_mt.model.initialization import init_params
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.search.rules import MinLength

VOCAB, LAYERS = 40, 2
CONFIG = TransformerConfig(
    d_model=16, d_ff=24, num_heads=2, num_encoder_layers=1, num_decoder_layers=LAYERS
)


def compiled(
    wishes: SearchInputs,
    beam_size: int,
    *,
    frugal: bool = False,
    dtype: str = "float32",
    config: TransformerConfig = CONFIG,
) -> jax.stages.Compiled:
    """A search in 64 places, for as many sentences as there are limits."""
    model = Transformer(dataclasses.replace(config, dtype=dtype), VOCAB, VOCAB, 2)
    params = init_params(model, jax.random.key(0))
    tokens = jnp.ones((len(wishes.each.length_limits), 7), jnp.int32)  # 7: no other size here
    program = SearchProgram((model,), beam_size, 1, 40, 2, 3, 0, places=64, frugal=frugal)

    def search(params, tokens):
        return search_batch((params,), tokens, tokens, tokens, wishes, program=program)

    return jax.jit(search).lower(params, tokens).compile()


def compiled_text(*given: Any, **options: Any) -> str:
    return compiled(*given, **options).as_text() or ""


@pytest.mark.parametrize("frugal", [False, True])
@pytest.mark.parametrize("sentences", [64, 192])
@pytest.mark.parametrize("beam_size", [1, 4])
def test_the_loop_never_copies_the_past(beam_size, sentences, frugal):
    """Keys and values are copied once at most, before the loop: where they are made (all zeros)."""
    wishes = SearchInputs(
        SentenceOptions(jnp.full(sentences, 20)), jnp.zeros(VOCAB, bool), jnp.float32(1)
    )
    text = compiled_text(wishes, beam_size, frugal=frugal)
    slots = 40 * beam_size
    pages = {1: {16: 2, 8: 1}, 4: {64: 2, 32: 1}}[beam_size] if frugal else {slots: 1}
    for length, count in pages.items():
        keys, values = f"64,2,8,{length}", f"64,2,{length},8"
        for shape in {keys, values}:
            number = (1 + (keys == values)) * LAYERS * count
            assert len(re.findall(rf"= f32\[{shape}\]\S* scatter\(", text)) == number
            assert len(re.findall(rf"= f32\[{shape}\]\S* copy\(", text)) <= number


@pytest.mark.parametrize(
    ("beam_size", "frugal", "pages"),
    [(4, False, 1), (20, False, 1), (1, True, 3), (4, True, 3), (20, True, 5)],
)
def test_a_program_asks_before_each_page_of_the_past_but_the_first(beam_size, frugal, pages):
    """And where a condition is dear, which is where the past is one page, never."""
    wishes = SearchInputs(SentenceOptions(jnp.full(64, 20)), jnp.zeros(VOCAB, bool), jnp.float32(1))
    text = compiled_text(wishes, beam_size, frugal=frugal)
    assert len(re.findall(r" conditional\(", text)) == (pages - 1) * LAYERS


@pytest.mark.parametrize(
    "frugal, d_model, share", [(False, 16, 0), (True, 16, 1), (True, 64, 1.25)]
)
def test_caches_are_among_the_results_of_a_frugal_search(frugal, d_model, share):
    """Each array has memory of its own then, and does not lie in the one block of all others.

    The second cache is that of the last sentences, in a quarter of the places.
    """
    wishes = SearchInputs(
        SentenceOptions(jnp.full(192, 20)), jnp.zeros(VOCAB, bool), jnp.float32(1)
    )
    config = dataclasses.replace(CONFIG, d_model=d_model)
    memory = compiled(wishes, 8, frugal=frugal, config=config).memory_analysis()
    keys_and_values = 2 * LAYERS * 64 * (8 * 40 + 7) * d_model * 4
    assert (memory.temp_size_in_bytes < keys_and_values) == frugal
    found = 192 * 4 * (40 + 2)
    assert memory.output_size_in_bytes - found == pytest.approx(
        share * keys_and_values, rel=0.15, abs=100
    )


def test_reading_sources_never_copies_those_that_are_there():
    """They are written into the cache inside a loop, where it is not copied."""
    wishes = SearchInputs(
        SentenceOptions(jnp.full(192, 20)), jnp.zeros(VOCAB, bool), jnp.float32(1)
    )
    text = compiled_text(wishes, 1, frugal=True)
    for shape in ("64,2,8,7", "64,2,7,8"):
        assert len(re.findall(rf"= f32\[{shape}\]\S* scatter\(", text)) == LAYERS
        assert len(re.findall(rf"= f32\[{shape}\]\S* copy\(", text)) <= LAYERS


def test_no_token_transposes_a_kernel():
    """A frugal search multiplies with prepared kernels, which are made before the loop."""
    wishes = SearchInputs(
        SentenceOptions(jnp.full(192, 20)), jnp.zeros(VOCAB, bool), jnp.float32(1)
    )
    in_loops = [
        line
        for line in compiled_text(wishes, 5, frugal=True).splitlines()
        if re.search(r"= f32\[(16,24|24,16|16,16)\]\S* (copy|transpose)\(", line)
        and "while/body" in line
    ]
    assert not in_loops


def test_what_nobody_asked_for_is_not_in_the_program():
    """Attention of the source is not summed, noise not drawn, unless it is wished for."""
    plain = SearchInputs(SentenceOptions(jnp.full(64, 20)), jnp.zeros(VOCAB, bool), jnp.float32(1))
    text = compiled_text(plain, 3)
    with_coverage = compiled_text(dataclasses.replace(plain, coverage_penalty=jnp.float32(0.2)), 3)
    assert "f32[64,3,7]" in with_coverage and "f32[64,3,7]" not in text
    assert "rng" not in text and "shift-left" not in text


def test_in_bfloat16_no_token_converts_the_past():
    """XLA would, all of it and back, on a CPU: a frugal search keeps it in float32."""
    wishes = SearchInputs(
        SentenceOptions(jnp.full(192, 20)), jnp.zeros(VOCAB, bool), jnp.float32(1)
    )
    text = compiled_text(wishes, 3, frugal=True, dtype="bfloat16")
    for shape in ("64,2,8,64", "64,2,64,8"):
        assert f"f32[{shape}]" in text and f"bf16[{shape}]" not in text


@pytest.mark.parametrize("dtype, tolerance", [("float32", 1e-5), ("bfloat16", 0.03)])
def test_a_frugal_search_finds_the_same(dtype, tolerance):
    """With every kind of layer that has a kernel, sources and limits of very different lengths."""
    config = dataclasses.replace(
        CONFIG, activation="swiglu", tie_embeddings="none", norm="pre", dtype=dtype
    )
    model = Transformer(config, VOCAB, VOCAB, 2)
    params = init_params(model, jax.random.key(1))
    tokens = jax.random.randint(jax.random.key(2), (16, 64), 5, VOCAB)
    lengths = jnp.asarray([64, 60, 48, 3, 33, 31, 25, 24, 23, 17, 16, 16, 5, 9, 1, 1])
    limits = jnp.asarray([40, 3, 17, 0, 30, 18, 1, 40, 5, 16, 2, 33, 0, 9, 0, 0])
    rules = (MinLength(limits, 3),)
    wishes = SearchInputs(SentenceOptions(limits, rules), jnp.zeros(VOCAB, bool), jnp.float32(1))

    def search(*, frugal):
        program = SearchProgram((model,), 3, 2, 40, 2, 3, 0, places=8, frugal=frugal)
        positions = jnp.tile(jnp.arange(64), (16, 1))
        real = (positions < lengths[:, None]).astype(jnp.int32)
        return search_batch((params,), tokens, positions, real, wishes, program=program)[0]

    found, wanted = search(frugal=True), search(frugal=False)
    real = wanted.scores > -jnp.inf
    np.testing.assert_allclose(found.scores, wanted.scores, rtol=tolerance)
    np.testing.assert_array_equal(found.lengths, wanted.lengths)
    if dtype == "float32":
        np.testing.assert_array_equal(found.tokens[real], wanted.tokens[real])
    assert jnp.max(wanted.lengths) == 40


@pytest.mark.parametrize(
    "places, beam_size, frugal, wanted",
    [
        (64, 1, True, 16),
        (32, 5, True, 8),
        (16, 5, True, 4),
        (16, 1, True, 0),
        (4, 1, True, 0),
        (64, 1, False, 0),
    ],
)
def test_last_sentences_have_fewer_places_where_that_changes_no_bit(
    places, beam_size, frugal, wanted
):
    """Which is where 4,096 numbers or more stand in them, and where a loop more is not dear."""
    wide = dataclasses.replace(CONFIG, d_model=256)
    large = Transformer(wide, 300, 300, 2)

    def found(*models: Transformer, drawn: int = 1) -> int:
        sizes = {"frugal": frugal, "places": places}
        beams = beam_size if drawn == 1 else 1
        return fewer_places(SearchProgram(models, beams, drawn, 40, 2, 3, 0, **sizes))

    assert found(large) == found(large, drawn=beam_size) == wanted
    narrow, narrow_heads, few_words = (
        Transformer(CONFIG, 300, 300, 2),
        Transformer(dataclasses.replace(wide, key_width=8), 300, 300, 2),
        Transformer(wide, VOCAB, VOCAB, 2),
    )
    huge = Transformer(dataclasses.replace(wide, d_model=4096), 4096, 4096, 2)
    assert found(huge) == (places // 4 if frugal and places > 4 else 0)  # one alone is not alike
    assert found(large, narrow) == found(large, narrow_heads) == found(few_words) == 0
