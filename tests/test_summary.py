"""The summary against real parameters, XLA's count of operations, and the config's loops."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import pytest
from tiers import slow_after

from flaxformer_mt import summary
from flaxformer_mt.config import load_config, save_config
from flaxformer_mt.data.batching.batch import BatchShape
from flaxformer_mt.data.tokenization.tokenizer import Tokenizer
from flaxformer_mt.data.tokenization.word_vocabulary import WordVocabulary
from flaxformer_mt.inspection.flops import batch_like, jaxpr_flops, training_flops
from flaxformer_mt.inspection.modules import fold_layers, module_rows, params_by_part
from flaxformer_mt.inspection.table import short
from flaxformer_mt.model.config import TransformerConfig, preset
from flaxformer_mt.model.initialization import init_params
from flaxformer_mt.model.transformer import Transformer

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
        "local_window": 4,
        "tie_embeddings": "none",
        "output_bias": True,
    },
}


MAPS = ("query", "key", "value", "out")


def make(**changes) -> Transformer:
    return Transformer(dataclasses.replace(SMALL, **changes), VOCAB, VOCAB, 2)


def shapes(model: Transformer):
    return jax.eval_shape(lambda: init_params(model, jax.random.key(0)))


def by_path(model: Transformer, shape: BatchShape = SHAPE):
    return {row.path: row for row in module_rows(model, shape)}


@pytest.mark.default_compiler
@pytest.mark.parametrize("changes", slow_after(2, VARIANTS.values()), ids=VARIANTS.keys())
def test_parameters_and_flops_are_those_of_the_compiled_model(changes):
    model = make(d_model=256, d_ff=512, **changes)  # so large that matrix products dominate
    params = shapes(model)
    row = by_path(model)[""]
    assert row.params == sum(x.size for x in jax.tree.leaves(params))
    assert row.outputs == (1, 9, VOCAB)

    forward = functools.partial(model.apply, method="__call__")
    compiled = jax.jit(forward).lower({"params": params}, *batch_like(SHAPE)).compile()
    xla = compiled.cost_analysis()
    assert row.flops == pytest.approx(xla["flops"] + xla["transcendentals"], rel=0.03)


@pytest.mark.parametrize(("name", "millions"), [("base", 65), ("big", 213)])
def test_presets_have_the_parameters_of_table_3(name, millions):
    parts = params_by_part(shapes(Transformer(preset(name), 37_000, 37_000, 2)))
    assert sum(parts.values()) / 1e6 == pytest.approx(millions, rel=0.04)


def test_rows_are_in_order_and_add_up():
    rows = by_path(make(norm="pre"))
    paths = list(rows)
    for path, row in rows.items():
        parts = [rows[p] for p in paths if p.rpartition("/")[0] == path and p]
        assert sum(part.params for part in parts) in (0, row.params)
        assert sum(part.flops for part in parts) <= row.flops
        assert row.flops > 0  # every module with parameters uses them
        # A module is directly before its submodules.
        inside = [i for i, p in enumerate(paths) if p == path or p.startswith(f"{path}/")]
        assert not path or inside == list(range(inside[0], inside[0] + len(inside)))
    layers = [path for path in paths if path and "/" not in path]
    assert layers.index("encoder_0") < layers.index("decoder_positions") < layers.index("decoder_0")


def test_shapes_and_flops_of_attention():
    rows = by_path(make())
    attention = rows["decoder_0/source_attention"]
    assert (attention.kind, attention.inputs, attention.outputs) == (
        "MultiHeadAttention",
        (1, 9, 64),
        (1, 9, 64),
    )
    assert rows["decoder_0/source_attention/key"].outputs == (1, 12, 4, 16)
    linear = sum(rows[f"decoder_0/source_attention/{name}"].flops for name in MAPS)
    products = 2 * (2 * 4 * 9 * 12 * 16)  # Q K^T and the weighted sum of V: 2 N T S H each
    assert products < attention.flops - linear < 1.2 * products


def test_equal_layers_share_a_line_and_loops_change_nothing():
    one, three = (list(module_rows(make(num_encoder_layers=n), SHAPE)) for n in (1, 3))
    folded = list(fold_layers(three))
    assert [row for row, _ in folded][1:] == one[1:]
    repeats = {row.path: count for row, count in folded}
    assert (repeats["encoder_0"], repeats["decoder_0"], repeats[""]) == (3, 1, 1)
    looped = make(num_encoder_layers=3, layer_loop="scan", remat="full")
    assert module_rows(looped, SHAPE) == three


def test_training_flops_follow_loops_and_rematerialisation():
    plain, scanned, again = (
        training_flops(make(**changes), SHAPE)
        for changes in ({}, {"layer_loop": "scan"}, {"layer_loop": "scan", "remat": "full"})
    )
    assert plain == pytest.approx(3 * by_path(make())[""].flops, rel=0.05)
    assert scanned == pytest.approx(plain, rel=0.01)
    assert again > 1.15 * plain
    assert training_flops(make(), SHAPE, r_drop=5.0) == pytest.approx(2 * plain, rel=0.02)


def test_parts_add_up_to_the_whole():
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
        (7, "7"),
        (1234, "1.23 k"),
        (56_789, "56.8 k"),
        (999_000, "999 k"),
        (999_999, "1.00 M"),
        (2e9, "2.00 G"),
        (1.3e15, "1.30 P"),
        (2.5e22, "25000 E"),
    ],
)
def test_numbers_are_written_with_three_digits(number, text):
    assert short(number) == text


def test_the_command(capsys):
    args = ["--model.num-heads", "2", "--source-length", "7", "--model.positions", "learned"]
    assert summary.main(args) == 0
    lines = capsys.readouterr().out.splitlines()
    row = next(line for line in lines if line.strip().startswith("encoder_positions"))
    assert "[1 7 128] -> [1 7 128]" in row
    assert any(line.split()[:4] == ["encoder_0", "x", "2", "EncoderLayer"] for line in lines)
    assert any(line.split() == ["parameters", "1,689,600"] for line in lines)
    assert "batch of 2,048" in next(line for line in lines if line.startswith("FLOPs"))


def test_the_command_takes_a_workdir(capsys, tmp_path):
    """Config and vocabulary are those of the run."""
    vocabulary = WordVocabulary([(word, 1) for word in ("<pad>", "<unk>", "<s>", "</s>", "a", "b")])
    Tokenizer(source=vocabulary, target=vocabulary).save(str(tmp_path / "tokenizer"))
    config = load_config("configs/demo.py")
    config = dataclasses.replace(config, model=dataclasses.replace(config.model, d_ff=96))
    save_config(config, str(tmp_path))
    assert summary.main(["--workdir", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert "[1 20 128] -> [1 20 96]" in text and "[1 20] -> [1 20 6]" in text
    assert summary.main(["--workdir", str(tmp_path / "no")]) == 2
    assert "does not exist" in capsys.readouterr().err


def test_the_command_refuses_what_the_model_cannot_read(capsys):
    args = ["--source-length", "513", "--model.positions", "learned"]
    assert summary.main(args) == 2
    assert "The model has learned positions for 512 tokens" in capsys.readouterr().err


@pytest.mark.parametrize("side", ["source", "target"])
def test_an_example_without_tokens_is_refused(side, capsys):
    assert summary.main(["--config", "configs/demo.py", f"--{side}-length", "0"]) == 2
    assert f"--{side}-length must be at least 1 (the end token), got 0" in capsys.readouterr().err
