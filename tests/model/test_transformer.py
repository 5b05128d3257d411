"""Every variant: cached == teacher-forced, padded == unpadded, packed == unpacked."""

import dataclasses
import functools
from typing import get_args

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiers import slow_after

from flaxformer_mt.data.batching.batch import Batch, BatchShape, Example
from flaxformer_mt.data.batching.batch import pad_batch as pad_numpy_batch
from flaxformer_mt.inference.ensemble import params_in_dtype
from flaxformer_mt.kernels.cpu import KERNELS as CPU_KERNELS
from flaxformer_mt.model.cache import Cache, empty_cache
from flaxformer_mt.model.config import TransformerConfig, preset
from flaxformer_mt.model.kernels import REFERENCE
from flaxformer_mt.model.transformer import Transformer, shift_right
from flaxformer_mt.training.step import make_loss

BOS = 2
VOCAB = 11
TINY = TransformerConfig(
    d_model=16, d_ff=24, num_heads=4, num_encoder_layers=1, num_decoder_layers=2
)


# Every choice at least once, in random combinations, so that no choice hides another.
CHOICES = {
    "num_kv_heads": (0, 1, 2),
    "key_width": (0, 6),
    "value_width": (0, 5),
    "norm": ("post", "pre"),
    "norm_type": ("layer", "rms"),
    "positions": get_args(TransformerConfig.__annotations__["positions"]),
    "max_distance": (0, 3),
    "num_position_buckets": (4,),
    "local_window": (0, 4),
    "activation": ("relu", "gelu", "silu", "geglu", "swiglu"),
    "tie_embeddings": ("all", "target", "none"),
    "scale_embeddings": (True, False),
    "use_bias": (True, False),
    "output_bias": (False, True),
    "layer_loop": ("unrolled", "scan"),
    "remat": ("none", "full", "dots"),
    "attention_dropout": (0.0, 0.2),
    "activation_dropout": (0.0, 0.2),
}


def draw_variants(count: int) -> list[TransformerConfig]:
    """Returns configs in which each field takes all its values, in random order."""
    rng = np.random.default_rng(0)
    columns = {
        name: np.concatenate([rng.permutation(len(values)) for _ in range(count)])[:count]
        for name, values in CHOICES.items()
    }
    return [
        dataclasses.replace(TINY, **{name: CHOICES[name][at[i]] for name, at in columns.items()})
        for i in range(count)
    ]


CONFIGS = [TINY, *draw_variants(8)]
VARIANTS = slow_after(2, CONFIGS)


@functools.cache
def build(config: TransformerConfig) -> tuple[Transformer, dict]:
    """Returns a model with random parameters: zeros and ones would hide a misplaced one."""
    model = Transformer(config, VOCAB, VOCAB, BOS)
    one = jnp.ones((1, 1), jnp.int32)
    shapes = jax.eval_shape(model.init, jax.random.key(0), one, one, one, one, one, one)
    rng = np.random.default_rng(1)

    def draw(path: tuple, leaf: jax.ShapeDtypeStruct) -> jax.Array:
        centre = 1.0 if path[-1].key == "scale" else 0.0
        return jnp.asarray(centre + 0.3 * rng.normal(size=leaf.shape), jnp.float32)

    return model, jax.tree_util.tree_map_with_path(draw, nn.unbox(shapes))


@functools.cache
def forward(config: TransformerConfig):
    """Returns the compiled forward pass: (params, *batch) -> logits."""
    return jax.jit(build(config)[0].apply)


def pad_batch(pairs: list[Example], shape: BatchShape) -> Batch:
    return jax.tree.map(jnp.asarray, pad_numpy_batch(pairs, shape))


def examples(rng: np.random.Generator, lengths: list[tuple[int, int]]) -> list[Example]:
    def tokens(length: int) -> np.ndarray:
        return rng.integers(4, VOCAB, length).astype(np.int32)

    return [Example(tokens(s), tokens(t)) for s, t in lengths]


def start_decoding(model: Transformer, params, source, **sizes: int) -> Cache:
    """Returns the cache of two sentences before the first token."""
    encoded = model.apply(params, *source, method="encode_source")
    return empty_cache(encoded, model.kernels, batch=2, **sizes).replace_rows(
        jnp.arange(2), encoded
    )


WIDE = BatchShape(2, 8, 9)


@pytest.mark.parametrize("config", VARIANTS)
def test_cached_decoding_equals_teacher_forcing(config, rng):
    model, params = build(config)
    batch = pad_batch(examples(rng, [(5, 9), (3, 9)]), WIDE)
    expected = forward(config)(params, *batch)  # [B T V]

    @jax.jit
    def start(params):
        source = (batch.inputs, batch.inputs_positions, batch.inputs_segment_ids)
        return start_decoding(model, params, source, beam_size=2, max_target_length=9)

    cache = start(params)
    step = jax.jit(lambda tokens, cache: model.apply(params, tokens, cache, method="decode_step"))
    tokens = jnp.full((2, 2), BOS)
    for t in range(9):
        logits, cache = step(tokens, cache)
        np.testing.assert_allclose(logits[:, 0], expected[:, t], atol=5e-5)
        np.testing.assert_allclose(logits[:, 1], expected[:, t], atol=5e-5)
        tokens = jnp.repeat(batch.targets[:, t : t + 1], 2, axis=1)


@pytest.mark.parametrize("config", VARIANTS)
@pytest.mark.parametrize("kernels", [REFERENCE, CPU_KERNELS], ids=["reference", "cpu"])
def test_each_hypothesis_continues_its_own_past(config, kernels, rng):
    """First each hypothesis continues itself, to fill a second page; then parents are random."""
    model, params = build(config)
    model = model.clone(kernels=kernels)
    beams, length, apart = (2, 3), 40, 25
    sources = [rng.integers(4, VOCAB, n).astype(np.int32) for n in (5, 3)]

    def batch_of(targets: np.ndarray) -> Batch:
        rows = targets.reshape(6, -1).astype(np.int32)
        pairs = [Example(sources[row // 3], rows[row]) for row in range(6)]
        return pad_batch(pairs, BatchShape(6, 8, length))

    @jax.jit
    def start(params):
        batch = batch_of(np.full((*beams, length), 4))
        source = batch.inputs, batch.inputs_positions, batch.inputs_segment_ids
        source = [x[::3] for x in source]
        return start_decoding(model, params, source, beam_size=3, max_target_length=length)

    tokens = np.full((*beams, 1), BOS)
    cache = start(params)
    step = jax.jit(lambda tokens, cache: model.apply(params, tokens, cache, method="decode_step"))
    select = jax.jit(lambda cache, parents: cache.select(parents))
    most = 0
    for t in range(length):
        logits, cache = step(jnp.asarray(tokens[..., -1]), cache)
        if t in (apart - 1, apart + 5, length - 1):
            targets = np.pad(tokens[..., 1:], [(0, 0)] * 2 + [(0, length - t)], constant_values=4)
            expected = forward(config)(params, *batch_of(targets))[:, t]
            np.testing.assert_allclose(logits.reshape(expected.shape), expected, atol=5e-5)
        parents = np.tile(np.arange(3), (2, 1)) if t < apart else rng.integers(3, size=beams)
        cache = select(cache, jnp.asarray(parents))
        free = [np.flatnonzero(~row)[:3] for row in np.asarray(cache.seen).any(axis=1)]
        if t < length - 1:
            np.testing.assert_array_equal(cache.free_slots(), free)
        tokens = np.take_along_axis(tokens, parents[..., None], axis=1)
        tokens = np.concatenate([tokens, rng.integers(4, VOCAB, (*beams, 1))], axis=2)
        most = max(most, int(cache.seen.any(axis=1).sum(axis=1).max()))
    # A common prefix is stored once; otherwise there would be 3 * 40 tokens.
    assert int(cache.seen.any(axis=1).sum(axis=1).max()) < 64 < 3 * apart
    kept = config.local_window // 2 + 1 if config.local_window else apart + 1
    assert most == 3 * kept


def test_free_slots_are_the_first_ones_in_integers(rng):
    """Rows with many free slots, with fewer than hypotheses, and with none."""
    used = rng.random((6, 24)) < np.array([0.0, 0.3, 0.7, 0.9, 0.95, 1.0])[:, None]
    seen = jnp.asarray(used[:, None] & (rng.integers(4, size=(6, 1, 24)) == np.arange(4)[:, None]))
    index, mask = jnp.zeros(6, jnp.int32), jnp.ones((6, 3), bool)
    cache = Cache(index, seen, jnp.zeros((6, 24), jnp.int32), (), (), mask)
    wanted = [[*np.flatnonzero(~row)[:4], 24, 24, 24, 24][:4] for row in used]
    np.testing.assert_array_equal(cache.free_slots(), wanted)
    assert cache.free_slots().dtype == jnp.int32
    assert "f32" not in str(jax.make_jaxpr(lambda: cache.free_slots())())


@pytest.mark.parametrize("config", VARIANTS)
def test_matrices_in_the_dtype_of_the_model_change_nothing(config, rng):
    config = dataclasses.replace(config, dtype="bfloat16")
    _, params = build(config)
    batch = pad_batch(examples(rng, [(5, 9), (3, 9)]), WIDE)
    converted = jax.jit(params_in_dtype, static_argnums=1)(params, "bfloat16")
    assert jnp.dtype("bfloat16") in {x.dtype for x in jax.tree.leaves(converted)}
    np.testing.assert_array_equal(
        forward(config)(converted, *batch), forward(config)(params, *batch)
    )


@pytest.mark.parametrize("config", VARIANTS)
def test_padding_changes_nothing(config, rng):
    _, params = build(config)
    pair = examples(rng, [(3, 4)])
    alone = forward(config)(params, *pad_batch(pair, BatchShape(1, 3, 4)))
    padded = forward(config)(params, *pad_batch(pair, WIDE))
    np.testing.assert_allclose(padded[:1, :4], alone, atol=5e-5)


@pytest.mark.parametrize("config", VARIANTS)
def test_packed_equals_unpacked(config, rng):
    _, params = build(config)
    pairs = examples(rng, [(3, 4), (5, 5)])
    apart = pad_batch(pairs, WIDE)
    packed = pack(pairs)
    expected = forward(config)(params, *apart)
    found = forward(config)(params, *packed)[0]
    np.testing.assert_allclose(found[:4], expected[0, :4], atol=5e-5)
    np.testing.assert_allclose(found[4:9], expected[1, :5], atol=5e-5)


def pack(pairs: list[Example]) -> Batch:
    """Returns all pairs in the first row of a batch of shape WIDE; its second row is empty."""
    rows = {}
    for side in ("inputs", "targets"):
        sentences = [getattr(pair, side) for pair in pairs]
        rows[side] = np.concatenate(sentences)
        rows[f"{side}_positions"] = np.concatenate([np.arange(len(x)) for x in sentences])
        numbers = [np.full(len(x), i) for i, x in enumerate(sentences, start=1)]
        rows[f"{side}_segment_ids"] = np.concatenate(numbers)
    return Batch(**{k: jnp.asarray([x, 0 * x], jnp.int32) for k, x in rows.items()})


def mean_loss(model: Transformer, params, batch: Batch):
    """Returns the loss per target token, without dropout."""
    rows = jnp.arange(len(batch.inputs))
    sums = make_loss(model, label_smoothing=0.1)(params, batch, rows, None)
    return sums.loss / jnp.count_nonzero(batch.targets_segment_ids)


@pytest.mark.parametrize("config", VARIANTS)
def test_every_parameter_has_a_gradient(config, rng):
    model, params = build(config)
    batch = pad_batch(examples(rng, [(7, 9), (8, 8)]), WIDE)

    @jax.jit
    def gradients(params):
        return jax.grad(lambda params: mean_loss(model, params, batch))(params)

    for path, gradient in jax.tree_util.tree_leaves_with_path(gradients(params["params"])):
        name = jax.tree_util.keystr(path, simple=True, separator="/")
        assert np.isfinite(gradient).all(), name
        # One vector added to all keys changes all scores of a query equally: no gradient.
        assert np.abs(gradient).max() > 1e-7 or name.endswith("key/bias"), name


@functools.cache
def loss_and_gradients(config: TransformerConfig):
    """Returns loss and gradients of one batch, with the parameters of TINY."""
    model, params = Transformer(config, VOCAB, VOCAB, BOS), build(TINY)[1]["params"]
    batch = pad_batch(examples(np.random.default_rng(0), [(7, 9), (8, 8)]), WIDE)
    return jax.jit(jax.value_and_grad(lambda params: mean_loss(model, params, batch)))(params)


@pytest.mark.parametrize(
    ("layer_loop", "remat"),
    [
        pytest.param("unrolled", "full", marks=pytest.mark.slow),
        pytest.param("unrolled", "dots", marks=pytest.mark.slow),
        pytest.param("scan", "none", marks=pytest.mark.slow),
        pytest.param("scan", "full", marks=pytest.mark.slow),
        ("scan", "dots"),
    ],
)
def test_scan_and_remat_change_only_the_program(layer_loop, remat, rng):
    config = dataclasses.replace(TINY, layer_loop=layer_loop, remat=remat)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5),
        loss_and_gradients(config),
        loss_and_gradients(TINY),
    )
    if layer_loop == "scan":
        batch = pad_batch(examples(rng, [(7, 9), (8, 8)]), WIDE)
        calls = str(jax.make_jaxpr(build(config)[0].apply)(build(TINY)[1], *batch))
        assert calls.count("scan[") == 2  # one for the encoder, one for the decoder


def test_the_decoder_does_not_look_ahead(rng):
    _, params = build(TINY)
    batch = pad_batch(examples(rng, [(4, 5)]), WIDE)
    changed = batch.targets.at[0, 3].set(jnp.where(batch.targets[0, 3] == 4, 5, 4))
    before = forward(TINY)(params, *batch)[0]
    after = forward(TINY)(params, *batch._replace(targets=changed))[0]
    np.testing.assert_array_equal(before[:4], after[:4])
    assert not np.allclose(before[4], after[4])


def test_the_first_token_of_every_packed_sentence_sees_bos():
    targets = jnp.array([[5, 6, 3, 7, 8, 3]])
    positions = jnp.array([[0, 1, 2, 0, 1, 2]])
    assert shift_right(targets, positions, BOS).tolist() == [[BOS, 5, 6, BOS, 7, 8]]


def test_dropout_needs_a_key_and_changes_with_it(rng):
    model, params = build(TINY)
    batch = pad_batch(examples(rng, [(4, 5)]), WIDE)

    @jax.jit
    def noisy(key: int) -> jax.Array:
        rngs = {"dropout": jax.random.key(key)}
        return model.apply(params, *batch, dropout_rows=jnp.arange(2), rngs=rngs)

    assert jnp.array_equal(noisy(0), noisy(0))
    assert not jnp.allclose(noisy(0), noisy(1))
    assert not jnp.allclose(noisy(0), forward(TINY)(params, *batch))


@pytest.mark.parametrize("tie_embeddings", ["all", "none"])
def test_bfloat16_keeps_parameters_and_logits_in_float32(rng, tie_embeddings):
    plain = dataclasses.replace(TINY, tie_embeddings=tie_embeddings)
    config = dataclasses.replace(plain, dtype="bfloat16")
    _, params = build(config)
    batch = pad_batch(examples(rng, [(4, 5)]), WIDE)
    logits = forward(config)(params, *batch)
    assert logits.dtype == jnp.float32
    assert jnp.any(logits != logits.astype(jnp.bfloat16))  # not rounded to bfloat16
    assert {x.dtype for x in jax.tree.leaves(params)} == {jnp.dtype("float32")}
    expected = forward(plain)(params, *batch)
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
        ({"num_kv_heads": 3}, "divisible by model.num_kv_heads"),
        ({"num_heads": 3, "key_width": 4}, "unless both model.key_width and model.value_width"),
        ({"key_width": 5, "positions": "rotary"}, "width of a key must be even, got 5"),
        ({"positions": "bucketed", "num_position_buckets": 3}, "even and at least 4, got 3"),
        ({"positions": "bucketed", "max_distance": 16}, "larger than half"),
        ({"local_window": 1}, "see only itself"),
        ({"local_window": -2}, "must not be negative"),
        ({"norm_epsilon": 0.0}, "must be positive"),
    ],
)
def test_a_config_that_makes_no_sense_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(TINY, **change)


@pytest.mark.parametrize(("name", "value"), [("positions", "alibi"), ("activation", "gelu_new")])
def test_an_unknown_choice_is_refused(name, value):
    """The config refuses it: unknown positions would mean no positions, without a message."""
    config = dataclasses.replace(TINY)
    object.__setattr__(config, name, value)  # without the type checks of the tests
    with pytest.raises(ValueError, match=rf"model\.{name} must be one of \w+, .*, got '{value}'"):
        config.__post_init__()
