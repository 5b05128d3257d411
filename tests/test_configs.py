"""Every file in configs/ loads, and its model can be built, trained and decoded."""

import dataclasses
import functools
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from flaxformer_mt.config import load_config, load_variants
from flaxformer_mt.model.cache import empty_cache
from flaxformer_mt.model.config import TransformerConfig
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.training.optimizer import make_optimizer
from flaxformer_mt.training.state import init_state

CONFIGS = sorted((Path(__file__).parents[1] / "configs").glob("*.py"))


def test_there_are_configs():
    assert {"demo", "multi30k_en_de", "news_en_zh_words"} <= {path.stem for path in CONFIGS}


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_loads_and_has_a_model_that_fits_together(path):
    config = load_config(str(path))
    # One layer of each kind: all layers of a stack are equal.
    small = dataclasses.replace(config.model, num_encoder_layers=1, num_decoder_layers=1)
    model = Transformer(small, source_vocab_size=300, target_vocab_size=300, bos_id=2)
    optimizer = make_optimizer(config.training, config.model.d_model)
    tokens = jnp.ones((2, 5), jnp.int32)

    def shapes():
        state = init_state(model, optimizer, config.seed)
        batch = [tokens] * 6
        logits = model.apply({"params": state.params}, *batch)
        source = model.apply({"params": state.params}, *batch[:3], method="encode_source")
        sizes = {"beam_size": config.decoding.beam_size, "max_target_length": 7}
        cache = empty_cache(source, model.kernels, batch=2, **sizes)
        beams = jnp.ones((2, config.decoding.beam_size), jnp.int32)
        step = model.apply({"params": state.params}, beams, cache, method="decode_step")
        return logits, step[0]

    logits, next_logits = jax.eval_shape(shapes)
    assert logits.shape == (2, 5, 300)
    assert next_logits.shape == (2, config.decoding.beam_size, 300)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_says_how_to_run_it(path):
    assert f"--config configs/{path.name}" in path.read_text(encoding="utf-8")


# Millions of parameters, table 3 of the paper.
TABLE_3 = {
    "base": 65,
    **{f"A heads {count}": 65 for count in (1, 4, 16, 32)},
    **{"B d_k 16": 58, "B d_k 32": 60},
    **{"C layers 2": 36, "C layers 4": 50, "C layers 8": 80},
    **{"C d_model 256": 28, "C d_model 1024": 168, "C d_ff 1024": 53, "C d_ff 4096": 90},
    **{"D dropout 0.0": 65, "D dropout 0.2": 65, "D smoothing 0.0": 65, "D smoothing 0.2": 65},
    "E learned positions": 65,
    "big": 213,
}
FAST = ("base", "A heads 1", "B d_k 16", "C layers 2", "C d_ff 1024", "D dropout 0.0")


@functools.cache
def count_parameters(model_config: TransformerConfig, vocab_size: int) -> int:
    model = Transformer(model_config, vocab_size, vocab_size, bos_id=2)
    one = jnp.ones((1, 1), jnp.int32)
    shapes = jax.eval_shape(model.init, jax.random.key(0), one, one, one, one, one, one)
    return sum(x.size for x in jax.tree.leaves(shapes))


@pytest.mark.parametrize(
    "name",
    [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in TABLE_3],
)
def test_models_are_as_large_as_table_3_says(name):
    config = load_variants("configs/table_3.py", "paper_variants")[name]
    tolerance = 0.04 if name in ("base", "big") else 0.07
    model = dataclasses.replace(config.model, dropout=0.0)  # it has no parameters
    assert abs(count_parameters(model, 37_000) / 1e6 / TABLE_3[name] - 1) < tolerance


def test_the_scaled_down_rows_are_those_of_the_paper():
    small = load_variants("configs/table_3.py", "variants")
    paper = load_variants("configs/table_3.py", "paper_variants")
    assert [name.split()[0] for name in small] == [name.split()[0] for name in paper][:-1]
