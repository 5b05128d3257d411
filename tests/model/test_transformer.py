"""What must be equal, in every variant: cached and forced, padded and not, packed and not."""

import dataclasses
import itertools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from flaxformer_mt.data.batch import Batch, BatchShape, Example
from flaxformer_mt.data.batch import pad_batch as pad_numpy_batch
from flaxformer_mt.model.transformer import Transformer, TransformerConfig, preset, shift_right

BOS = 2
VOCAB = 11
TINY = TransformerConfig(
    d_model=16, d_ff=24, num_heads=4, num_encoder_layers=2, num_decoder_layers=3
)
VARIANTS = [
    pytest.param(dataclasses.replace(TINY, norm=norm, tie_embeddings=tie), id=f"{norm}-{tie}")
    for norm, tie in itertools.product(("post", "pre"), ("all", "target", "none"))
]


def build(config: TransformerConfig) -> tuple[Transformer, dict]:
    model = Transformer(config, VOCAB, VOCAB, BOS)
    one = jnp.ones((1, 1), jnp.int32)
    params = nn.unbox(model.init(jax.random.key(0), one, one, one * 0, one * 0, one, one))
    # Zeros and ones would hide a bias or a scale in the wrong place.
    leaves, tree = jax.tree.flatten(params)
    keys = jax.random.split(jax.random.key(1), len(leaves))
    noisy = [x + 0.1 * jax.random.normal(k, x.shape) for x, k in zip(leaves, keys, strict=True)]
    return model, jax.tree.unflatten(tree, noisy)


def pad_batch(pairs: list[Example], shape: BatchShape) -> Batch:
    return jax.tree.map(jnp.asarray, pad_numpy_batch(pairs, shape))


def examples(rng: np.random.Generator, lengths: list[tuple[int, int]]) -> list[Example]:
    def tokens(length: int) -> np.ndarray:
        return rng.integers(4, VOCAB, length).astype(np.int32)

    return [Example(tokens(s), tokens(t)) for s, t in lengths]


@pytest.mark.parametrize("config", VARIANTS)
def test_cached_decoding_equals_teacher_forcing(config, rng):
    model, params = build(config)
    batch = pad_batch(examples(rng, [(5, 6), (3, 6)]), BatchShape(2, 5, 6))
    expected = model.apply(params, *batch)  # [B T V]

    memory = model.apply(
        params, batch.inputs, batch.inputs_positions, batch.inputs_segment_ids, method="encode"
    )
    cache = model.apply(
        params,
        memory,
        batch.inputs_segment_ids != 0,
        beam_size=2,
        max_target_length=6,
        method="init_cache",
    )
    step = jax.jit(lambda tokens, cache: model.apply(params, tokens, cache, method="decode_step"))
    tokens = jnp.full((2, 2), BOS)
    for t in range(6):
        logits, cache = step(tokens, cache)
        np.testing.assert_allclose(logits[:, 0], expected[:, t], atol=2e-5)
        np.testing.assert_allclose(logits[:, 1], expected[:, t], atol=2e-5)
        tokens = jnp.repeat(batch.targets[:, t : t + 1], 2, axis=1)


def test_select_continues_the_chosen_parent(rng):
    model, params = build(TINY)
    batch = pad_batch(examples(rng, [(4, 1)]), BatchShape(1, 4, 1))
    memory = model.apply(
        params, batch.inputs, batch.inputs_positions, batch.inputs_segment_ids, method="encode"
    )
    mask = batch.inputs_segment_ids != 0

    def feed(tokens: list[list[int]], parents: list[int] | None = None) -> np.ndarray:
        """Logits after feeding each beam its tokens; after the first, beams are re-chosen."""
        cache = model.apply(
            params, memory, mask, beam_size=2, max_target_length=3, method="init_cache"
        )
        logits = None
        for t, column in enumerate(jnp.array(tokens).T):
            logits, cache = model.apply(params, column[None], cache, method="decode_step")
            if t == 0 and parents is not None:
                cache = cache.select(jnp.array([parents]))
        return np.asarray(logits)[0]

    swapped = feed([[BOS, 5], [7, 6]], parents=[1, 0])
    np.testing.assert_allclose(swapped, feed([[7, 5], [BOS, 6]]), atol=1e-5)
    assert not np.allclose(swapped, feed([[BOS, 5], [7, 6]]), atol=1e-3)


@pytest.mark.parametrize("config", VARIANTS)
def test_padding_changes_nothing(config, rng):
    model, params = build(config)
    pair = examples(rng, [(3, 4)])
    alone = model.apply(params, *pad_batch(pair, BatchShape(1, 3, 4)))
    padded = model.apply(params, *pad_batch(pair, BatchShape(3, 7, 9)))
    np.testing.assert_allclose(padded[:1, :4], alone, atol=2e-5)


def test_packed_equals_unpacked(rng):
    model, params = build(TINY)
    first, second = examples(rng, [(3, 4), (2, 3)])

    def joined(side: int) -> tuple[jax.Array, ...]:
        a, b = first[side], second[side]
        positions = np.concatenate([np.arange(len(a)), np.arange(len(b))])
        segments = np.concatenate([np.full(len(a), 1), np.full(len(b), 2)])
        columns = (np.concatenate([a, b]), positions, segments)
        return tuple(jnp.asarray(x[None], jnp.int32) for x in columns)

    inputs, inputs_positions, inputs_segments = joined(0)
    targets, targets_positions, targets_segments = joined(1)
    packed = model.apply(
        params,
        *Batch(
            inputs,
            targets,
            inputs_positions,
            targets_positions,
            inputs_segments,
            targets_segments,
        ),
    )
    one = model.apply(params, *pad_batch([first], BatchShape(1, 3, 4)))
    two = model.apply(params, *pad_batch([second], BatchShape(1, 2, 3)))
    np.testing.assert_allclose(packed, jnp.concatenate([one, two], axis=1), atol=2e-5)


def test_the_decoder_does_not_look_ahead(rng):
    model, params = build(TINY)
    batch = pad_batch(examples(rng, [(4, 5)]), BatchShape(1, 4, 5))
    changed = batch.targets.at[0, 3].set(jnp.where(batch.targets[0, 3] == 4, 5, 4))
    before = model.apply(params, *batch)
    after = model.apply(params, *batch._replace(targets=changed))
    np.testing.assert_array_equal(before[:, :4], after[:, :4])
    assert not np.allclose(before[:, 4], after[:, 4])


def test_the_first_token_of_every_packed_sentence_sees_bos():
    targets = jnp.array([[5, 6, 3, 7, 8, 3]])
    positions = jnp.array([[0, 1, 2, 0, 1, 2]])
    assert shift_right(targets, positions, BOS).tolist() == [[BOS, 5, 6, BOS, 7, 8]]


def test_dropout_needs_a_key_and_changes_with_it(rng):
    model, params = build(TINY)
    batch = pad_batch(examples(rng, [(4, 5)]), BatchShape(1, 4, 5))

    def noisy(key: int) -> jax.Array:
        rngs = {"dropout": jax.random.key(key)}
        return model.apply(params, *batch, deterministic=False, rngs=rngs)

    assert jnp.array_equal(noisy(0), noisy(0))
    assert not jnp.allclose(noisy(0), noisy(1))
    assert not jnp.allclose(noisy(0), model.apply(params, *batch))


def test_bfloat16_keeps_parameters_and_logits_in_float32(rng):
    model, params = build(dataclasses.replace(TINY, dtype="bfloat16"))
    exact, _ = build(TINY)
    batch = pad_batch(examples(rng, [(4, 5)]), BatchShape(1, 4, 5))
    logits = model.apply(params, *batch)
    assert logits.dtype == jnp.float32
    assert {x.dtype for x in jax.tree.leaves(params)} == {jnp.dtype("float32")}
    expected = exact.apply(params, *batch)
    assert 0 < jnp.max(jnp.abs(logits - expected)) < 0.2


@pytest.mark.parametrize(("name", "millions"), [("base", 65), ("big", 213)])
def test_presets_have_the_size_of_table_3(name, millions):
    model = Transformer(preset(name), 37_000, 37_000, BOS)
    one = jnp.ones((1, 1), jnp.int32)
    shapes = jax.eval_shape(model.init, jax.random.key(0), one, one, one, one, one, one)
    count = sum(x.size for x in jax.tree.leaves(shapes))
    assert abs(count / 1e6 / millions - 1) < 0.04


def test_tied_embeddings_need_one_vocabulary():
    one = jnp.ones((1, 1), jnp.int32)
    with pytest.raises(ValueError, match="one vocabulary for both languages, got 7 source and 9"):
        Transformer(TINY, 7, 9, BOS).init(jax.random.key(0), one, one, one, one, one, one)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_heads": 3}, "divisible by model.num_heads"),
        ({"d_model": 0}, "at least 1"),
        ({"dropout": 1.0}, "in \\[0, 1\\)"),
        ({"d_model": 15, "num_heads": 5}, "even"),
    ],
)
def test_a_config_that_makes_no_sense_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(TINY, **change)
