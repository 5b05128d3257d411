"""The summary against what it speaks of: real parameters, XLA's count, the config's loops."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import pytest

from flaxformer_mt import summary
from flaxformer_mt.data.batching.batch import BatchShape
from flaxformer_mt.inspection.costs import count_costs, params_by_part
from flaxformer_mt.inspection.flops import jaxpr_flops
from flaxformer_mt.inspection.table import short
from flaxformer_mt.inspection.walk import Step, batch_like, walk
from flaxformer_mt.model.config import TransformerConfig, preset
from flaxformer_mt.model.initialization import init_params
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.training.config import TrainingConfig
from flaxformer_mt.training.optimizer import make_optimizer
from flaxformer_mt.training.step import batch_loss

SHAPE = BatchShape(1, 12, 9)
VOCAB = 300
SMALL = TransformerConfig(
    d_model=64, d_ff=128, num_heads=4, num_encoder_layers=1, num_decoder_layers=1
)
VARIANTS = {
    "paper": {},
    "learned": {"positions": "learned"},
    "rotary": {
        "norm": "pre",
        "norm_type": "rms",
        "activation": "swiglu",
        "positions": "rotary",
        "num_kv_heads": 2,
        "key_width": 16,
        "use_bias": False,
    },
    "relative": {"positions": "relative", "activation": "geglu", "max_distance": 4},
    "bucketed": {
        "positions": "bucketed",
        "neighborhood": 4,
        "tie_embeddings": "none",
        "output_bias": True,
    },
}


def make(**changes) -> Transformer:
    return Transformer(dataclasses.replace(SMALL, **changes), VOCAB, VOCAB, 2)


def shapes(model: Transformer):
    return jax.eval_shape(lambda: init_params(model, jax.random.key(0)))


def total(steps: list[Step], what: str) -> int:
    return sum(getattr(step, what) * step.repeats for step in steps)


def find(steps, *path: str) -> Step:
    """The first step of that name, inside of the first of that name, ..."""
    step = next(step for step in steps if step.name == path[0])
    return find(step.children, *path[1:]) if path[1:] else step


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS.keys())
def test_parameters_and_flops_are_those_of_the_compiled_model(changes):
    model = make(d_model=256, d_ff=512, **changes)  # so large that matrix products prevail
    params = shapes(model)
    steps = walk(model, SHAPE)
    assert total(steps, "params") == sum(x.size for x in jax.tree.leaves(params))

    loss = functools.partial(batch_loss, model, label_smoothing=0.0, dropout_key=None)
    compiled = jax.jit(loss).lower(params, batch_like(SHAPE)).compile()
    xla = compiled.cost_analysis()
    assert total(steps, "flops") == pytest.approx(xla["flops"] + xla["transcendentals"], rel=0.03)


@pytest.mark.parametrize(("name", "millions"), [("base", 65), ("big", 213)])
def test_presets_have_the_parameters_of_table_3(name, millions):
    parts = params_by_part(shapes(Transformer(preset(name), 37_000, 37_000, 2)))
    assert sum(parts.values()) / 1e6 == pytest.approx(millions, rel=0.04)


def test_a_module_is_the_sum_of_its_steps():
    def check(step: Step) -> None:
        if step.children:
            assert step.params == sum(child.params for child in step.children)
            assert step.flops == sum(child.flops for child in step.children)
        for child in step.children:
            check(child)

    for step in walk(make(norm="pre"), SHAPE):
        check(step)


def test_attention_is_told_in_the_words_of_the_paper():
    steps = walk(make(), SHAPE)
    attention = find(steps, "decoder_0", "source_attention")
    assert [(child.name, child.outputs[0].axes) for child in attention.children] == [
        ("key", "[B S N H]"),
        ("value", "[B S N H]"),
        ("query", "[B T N H]"),
        ("queries", "[B N T H]"),
        ("scores", "[B N T S]"),
        ("weights", "[B N T S]"),
        ("heads", "[B N T H]"),
        ("out", "[B T D]"),
    ]
    scores = find(attention.children, "scores")
    assert scores.flops == 2 * 4 * 9 * 12 * 16  # 2 N T S H
    assert [tensor.shape for tensor in scores.inputs] == [(1, 4, 9, 16), (1, 4, 16, 12)]
    assert [step.name for step in steps][-2:] == ["target_embedding.logits", "loss"]


def test_letters_are_right_where_sizes_are_equal():
    model = make(d_model=16, d_ff=16, num_heads=4, num_kv_heads=2, key_width=4, value_width=8)
    steps = walk(model, BatchShape(1, 16, 16))  # S = T = D = F, N = H
    inner = find(steps, "encoder_0", "feed_forward", "in")
    assert (inner.inputs[0].axes, inner.outputs[0].axes) == ("[B S D]", "[B S F]")
    heads = find(steps, "decoder_0", "source_attention", "heads")
    assert [tensor.axes for tensor in heads.inputs] == ["[B N T S]", "[B G S W]"]
    assert heads.outputs[0].axes == "[B N T W]"


def test_equal_layers_are_folded_and_loops_change_nothing():
    one, three = (walk(make(num_encoder_layers=n), SHAPE) for n in (1, 3))
    folded = find(three, "encoder_0")
    assert folded.repeats == 3
    assert dataclasses.replace(folded, repeats=1) == find(one, "encoder_0")
    assert walk(make(num_encoder_layers=3, layer_loop="scan", remat="full"), SHAPE) == three


def test_training_costs_follow_loops_and_rematerialisation():
    optimizer = make_optimizer(TrainingConfig(), SMALL.d_model)
    plain, scanned, again = (
        count_costs(make(**changes), optimizer, SHAPE)
        for changes in ({}, {"layer_loop": "scan"}, {"layer_loop": "scan", "remat": "full"})
    )
    forward = total(walk(make(), SHAPE), "flops")
    assert plain.gradient == pytest.approx(3 * forward, rel=0.05)
    assert scanned.gradient == pytest.approx(plain.gradient, rel=0.01)
    assert again.gradient > 1.15 * plain.gradient
    assert plain.param_bytes == 4 * sum(plain.params.values())
    assert plain.optimizer_bytes == pytest.approx(2 * plain.param_bytes, rel=1e-3)


def test_parts_are_all_of_it():
    parts = params_by_part(shapes(make(norm="pre", tie_embeddings="none", output_bias=True)))
    assert parts["embeddings"] == VOCAB * (3 * 64 + 1)
    attention, feed_forward, norm = 4 * (64 * 64 + 64), 2 * 64 * 128 + 128 + 64, 2 * 64
    assert parts["decoder"] == 2 * attention + feed_forward + 4 * norm


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: x @ x.T, 2 * 3 * 3 * 5),
        (lambda x: x.T + 1.0, 15),
        (lambda x: x.sum(), 15),
        (lambda x: x > 0, 0),
        (lambda x: jax.lax.scan(lambda c, row: (c + row, None), x[0], x)[0], 3 * 5),
        (lambda x: jax.lax.cond(x[0, 0] > 0, lambda x: x @ x.T, lambda x: x @ x.T * 2.0, x), 99),
        (jax.jit(lambda x: jax.nn.relu(x)), 15),
    ],
)
def test_flops_of_small_programs(function, expected):
    assert jaxpr_flops(jax.make_jaxpr(function)(jnp.ones((3, 5)))) == expected


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, ""),
        (7, "7  "),
        (1234, "1.23 k"),
        (56_789, "56.8 k"),
        (999_000, "999 k"),
        (2e9, "2.00 G"),
    ],
)
def test_numbers_are_written_with_three_digits(number, text):
    assert short(number) == text


def test_the_verb(capsys):
    args = ["--model.num-heads", "2", "--source-length", "7", "--model.positions", "learned"]
    assert summary.main(args) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "  S       7  source tokens" in lines
    row = next(line for line in lines if line.strip().startswith("encoder_positions"))
    assert row.split("  ")[0] == "encoder_positions"
    assert "[B S D] -> [B S D]" in row and "[1 7 128] -> [1 7 128]" in row and "positions.py" in row
    assert any(line.startswith("encoder_0  x 2") for line in lines)
    assert any(line.split() == ["parameters", "921,600"] for line in lines)


def test_the_verb_refuses_what_the_model_cannot_read(capsys):
    args = ["--source-length", "513", "--model.positions", "learned"]
    assert summary.main(args) == 2
    assert "the model has learned vectors for 512" in capsys.readouterr().err


@pytest.mark.parametrize("side", ["source", "target"])
def test_an_example_without_tokens_is_refused(side, capsys):
    assert summary.main(["--config", "configs/demo.py", f"--{side}-length", "0"]) == 2
    assert f"--{side}-length must be at least 1 (the end token), got 0" in capsys.readouterr().err
