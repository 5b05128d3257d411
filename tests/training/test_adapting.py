"""Frozen parameters keep their bits and cost no memory; adapters start at the base, and merge."""

import re

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax.traverse_util import flatten_dict, unflatten_dict
from tiers import slow_after

from flaxformer_mt.model.config import TransformerConfig
from flaxformer_mt.model.initialization import init_params
from flaxformer_mt.model.layers import Linear
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.training.adapting import Adaptation, make_adaptation
from flaxformer_mt.training.config import TrainingConfig
from flaxformer_mt.training.optimizer import kernel_mask, make_optimizer, muon_dimensions

MODEL = Transformer(
    TransformerConfig(
        d_model=16,
        d_ff=32,
        num_heads=2,
        key_width=5,
        value_width=6,
        num_encoder_layers=1,
        num_decoder_layers=1,
    ),
    source_vocab_size=12,
    target_vocab_size=12,
    bos_id=2,
)
ATTENTIONS = 3  # the encoder's, and two of the decoder
KEY = jax.random.key(7)


@pytest.fixture(scope="module")
def params():
    return jax.jit(lambda: init_params(MODEL, jax.random.key(0)))()


def config_of(**fields):
    return TrainingConfig(warmup_steps=1, learning_rate=0.01, **fields)


def batch():
    """A batch of eight sentences of five tokens; the task is copying."""
    tokens = jax.random.randint(jax.random.key(1), (8, 5), 4, 12)
    positions, segments = jnp.arange(5) + 0 * tokens, jnp.ones_like(tokens)
    return tokens, tokens, positions, positions, segments, segments


@jax.jit
def logits_of(params):
    return MODEL.apply({"params": params}, *batch())


def loss_of(params):
    losses = optax.softmax_cross_entropy_with_integer_labels(logits_of(params), batch()[1])
    return losses.mean()


def train(adaptation, tree, config, steps=3):
    """Returns (tree, optimiser state, losses) after some updates like those of a training step."""
    optimizer = make_optimizer(config, 16)

    @jax.jit
    def step(tree, state):
        trained, frozen = adaptation.split(tree)

        def loss(trained):
            return loss_of(adaptation.merge(adaptation.join(trained, frozen)))

        value, gradients = jax.value_and_grad(loss)(trained)
        updates, state = optimizer.update(gradients, state, trained)
        return adaptation.join(optax.apply_updates(trained, updates), frozen), state, value

    state, losses = jax.jit(lambda tree: optimizer.init(adaptation.split(tree)[0]))(tree), []
    for _ in range(steps):
        tree, state, value = step(tree, state)
        losses.append(float(value))
    return tree, state, losses


def names(tree):
    return {"/".join(path): np.asarray(x) for path, x in flatten_dict(tree).items()}


def changed(after, before):
    """Returns the names of the parameters that differ in any bit."""
    after, before = names(after), names(before)
    assert after.keys() == before.keys()
    return {name for name, x in after.items() if x.tobytes() != before[name].tobytes()}


def count(tree):
    return sum(x.size for x in jax.tree.leaves(tree))


# -------------------------------------------------------------------------------- all, or some


def test_without_settings_each_function_returns_its_argument(params):
    adaptation = make_adaptation(TrainingConfig(), params)
    assert adaptation == Adaptation() and not adaptation.merges
    assert adaptation.start(params, KEY) is params
    trained, frozen = adaptation.split(params)
    assert trained is params and not frozen
    assert adaptation.join(trained, frozen) is params
    assert adaptation.merge(params) is params


def test_matching_parameters_are_trained_and_the_others_keep_every_bit(params):
    params = jax.tree.map(lambda x: x.at[..., 0].set(-0.0), params)  # -0.0 + 0.0 is not -0.0
    config = config_of(trainable=("decoder_0/.*/kernel", ".*/scale"))
    adaptation = make_adaptation(config, params)
    tree, _, losses = train(adaptation, adaptation.start(params, KEY), config)
    expected = {
        name
        for name in names(params)
        if name.endswith("/scale") or name.startswith("decoder_0/") and name.endswith("/kernel")
    }
    assert changed(tree, params) == expected
    assert losses[-1] < losses[0]
    assert adaptation.merge(tree) is tree


def test_the_optimiser_has_no_state_for_frozen_parameters(params):
    config = config_of(trainable=("target_embedding/table",))
    adaptation = make_adaptation(config, params)
    _, state, _ = train(adaptation, params, config, steps=1)
    moments = [x.shape for x in jax.tree.leaves(state) if x.ndim]
    assert moments == [(12, 16), (12, 16)]  # Adam's two


def test_clipping_ignores_frozen_parameters(params):
    """A small gradient is not clipped, however large the gradients of frozen parameters are."""
    config = config_of(trainable=("target_embedding/table",))
    adaptation = make_adaptation(config, params)
    gradient = jax.tree.map(lambda x: jnp.full(x.shape, 1e6), params)
    gradient["target_embedding"]["table"] = jnp.full((12, 16), 1e-3)
    trained, _ = adaptation.split(gradient)
    clipped, _ = optax.clip_by_global_norm(config.clip_norm).update(trained, optax.EmptyState())
    np.testing.assert_array_equal(clipped["target_embedding"]["table"], np.float32(1e-3))


def test_split_and_joined_is_the_same_tree(params):
    adaptation = make_adaptation(config_of(trainable=("decoder_0/.*",)), params)
    joined = adaptation.join(*adaptation.split(params))
    assert jax.tree.structure(joined) == jax.tree.structure(params)
    assert not changed(joined, params)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"trainable": ("decoder_0/self_atention/query/kernel",)},
            r"training.trainable: 'decoder_0/self_atention/query/kernel' matches no parameter; .*"
            r"whole path.*\n  decoder_0/self_attention/query/kernel\n",
        ),
        ({"trainable": (".*", "decoder")}, r"training.trainable: 'decoder' matches no parameter"),
        (
            {"lora_rank": 2, "lora_target": (".*/bias",)},
            r"training.lora_target: '.\*/bias' matches no kernel",
        ),
        (
            {"lora_rank": 11},
            r"lora_rank is 11, but decoder_0/self_attention/key/kernel is a matrix of 16 x 10, "
            r"whose rank is at most 10",
        ),
    ],
    ids=["misspelt", "part of a path", "no kernel", "rank"],
)
def test_refused(params, fields, message):
    with pytest.raises(ValueError, match=re.compile(message, re.DOTALL)):
        make_adaptation(TrainingConfig(**fields), params)


# -------------------------------------------------------------------------------- adapters


def started(params, **fields):
    config = config_of(**({"lora_rank": 3} | fields))
    adaptation = make_adaptation(config, params)
    return config, adaptation, adaptation.start(params, KEY)


def filled(tree):
    """Adapters that change the output, because B is random too."""
    adapters = {
        path: jnp.asarray(np.random.default_rng(number).normal(0, 0.3, x.shape), jnp.float32)
        for number, (path, x) in enumerate(flatten_dict(tree["adapters"]).items())
    }
    return tree | {"adapters": unflatten_dict(adapters)}


def test_adapters_start_at_the_base_exactly(params):
    _, adaptation, tree = started(params)
    assert adaptation.merges
    merged = adaptation.merge(tree)
    assert jax.tree.structure(merged) == jax.tree.structure(params)
    np.testing.assert_array_equal(logits_of(merged), logits_of(params))
    for name, x in names(tree["adapters"]).items():
        assert bool(x.any()) == name.endswith("/a")


def test_adapters_have_the_shapes_and_the_number_of_the_paper(params):
    """r * (inputs + outputs) for each target: (Hu et al. 2021, section 5.1)."""
    _, adaptation, tree = started(params)
    adapters = names(tree["adapters"])
    assert adapters["encoder_0/self_attention/query/kernel/a"].shape == (16, 3)
    assert adapters["encoder_0/self_attention/query/kernel/b"].shape == (3, 2, 5)
    assert adapters["decoder_0/source_attention/out/kernel/a"].shape == (2, 6, 3)
    assert adapters["decoder_0/source_attention/out/kernel/b"].shape == (3, 16)
    trained, frozen = adaptation.split(tree)
    # query and key [16 2 5], value [16 2 6], out [2 6 16]
    assert count(trained) == ATTENTIONS * 3 * (2 * (16 + 10) + (16 + 12) + (12 + 16))
    assert count(frozen) == count(params)


def test_only_adapters_change_and_only_they_have_moments(params):
    config, adaptation, tree = started(params)
    after, state, losses = train(adaptation, tree, config, steps=5)
    assert changed(after, tree) == {name for name in names(tree) if name.startswith("adapters/")}
    assert losses[-1] < losses[0]
    moments = sum(x.size for x in jax.tree.leaves(state) if x.ndim)
    assert moments == 2 * count(tree["adapters"])


def test_parts_of_the_base_can_be_trained_with_the_adapters(params):
    config, adaptation, tree = started(params, trainable=(".*/scale",))
    after, _, _ = train(adaptation, tree, config)
    assert {name for name in changed(after, tree) if name.startswith("base/")} == {
        name for name in names(tree) if name.endswith("/scale")
    }


@pytest.mark.parametrize(
    ("shape", "num_inputs", "path"),
    [((16, 2, 5), 1, "query"), ((2, 6, 16), 2, "out"), ((16, 32), 1, "in")],
)
def test_merged_is_unmerged(shape, num_inputs, path):
    """x W' = x W + alpha / r * (x A) B, with all three as matrices."""
    linear = Linear(shape, ("a",) * len(shape), num_inputs=num_inputs, use_bias=False)
    kernel = jax.random.normal(KEY, shape)
    config = TrainingConfig(lora_rank=3, lora_alpha=6.0, lora_target=(".*",))
    adaptation = make_adaptation(config, {path: {"kernel": kernel}})
    tree = filled(adaptation.start({path: {"kernel": kernel}}, KEY))
    x = jax.random.normal(jax.random.key(3), (4, *shape[:num_inputs]))
    merged = linear.apply({"params": adaptation.merge(tree)[path]}, x)
    a, b = (np.asarray(tree["adapters"][path]["kernel"][name]) for name in "ab")
    inputs = int(np.prod(shape[:num_inputs]))
    flat = np.asarray(x).reshape(4, inputs)
    low_rank = (flat @ a.reshape(inputs, 3)) @ b.reshape(3, -1)
    expected = flat @ np.asarray(kernel).reshape(inputs, -1) + 2.0 * low_rank
    np.testing.assert_allclose(merged.reshape(4, -1), expected, rtol=1e-4, atol=1e-4)


def test_merging_changes_only_the_targets(params):
    _, adaptation, tree = started(params, lora_target=(".*/query/kernel", ".*/feed_forward/.*"))
    targets = changed(adaptation.merge(filled(tree)), params)
    assert targets == {
        *("encoder_0/self_attention/query/kernel", "decoder_0/self_attention/query/kernel"),
        *("decoder_0/source_attention/query/kernel",),
        *("encoder_0/feed_forward/in/kernel", "encoder_0/feed_forward/out/kernel"),
        *("decoder_0/feed_forward/in/kernel", "decoder_0/feed_forward/out/kernel"),
    }


def test_adapters_have_the_axis_names_of_their_kernels():
    one = jnp.ones((1, 1), jnp.int32)
    boxed = jax.eval_shape(lambda: MODEL.init(KEY, *[one] * 6)["params"])
    adaptation = make_adaptation(config_of(lora_rank=3), boxed)
    tree = jax.eval_shape(lambda params: adaptation.start(params, KEY), boxed)
    attention = nn.get_partition_spec(tree)["adapters"]["decoder_0"]["source_attention"]
    assert tuple(attention["query"]["kernel"]["a"]) == ("embed", None)
    assert tuple(attention["query"]["kernel"]["b"]) == (None, "heads", "head_width")
    assert tuple(attention["out"]["kernel"]["a"]) == ("heads", "head_width", None)
    assert tuple(attention["out"]["kernel"]["b"]) == (None, "embed")
    assert nn.unbox(tree)["base"].keys() == boxed.keys()


def test_adapters_are_kernels_to_weight_decay_and_muon(params):
    _, adaptation, tree = started(params)
    trained, _ = adaptation.split(tree)
    assert all(jax.tree.leaves(kernel_mask(trained)))
    out = muon_dimensions(trained)["adapters"]["encoder_0"]["self_attention"]["out"]["kernel"]
    assert tuple(out["a"]) == ((0, 1), (2,))  # [N H r]
    assert tuple(out["b"]) == ((0,), (1,))  # [r D]


@pytest.mark.parametrize("optimizer", slow_after(1, ["adamw", "adafactor", "lion", "muon"]))
def test_adapters_learn_with_every_optimiser(params, optimizer):
    rate = 0.003 if optimizer == "lion" else 0.01
    config = TrainingConfig(
        optimizer=optimizer, weight_decay=0.01, lora_rank=3, warmup_steps=1, learning_rate=rate
    )
    adaptation = make_adaptation(config, params)
    _, _, losses = train(adaptation, adaptation.start(params, KEY), config, steps=6)
    assert losses[-1] < losses[0]
