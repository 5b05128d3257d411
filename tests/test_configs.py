"""Every file in configs/: it loads, and its model can be built, trained and decoded with."""

from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from flaxformer_mt.config import load_config
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.training.optimizer import make_optimizer
from flaxformer_mt.training.state import init_state

CONFIGS = sorted((Path(__file__).parents[1] / "configs").glob("*.py"))


def test_there_are_some():
    assert {"demo", "multi30k_en_de", "news_en_zh_words"} <= {path.stem for path in CONFIGS}


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_loads_and_has_a_model_that_fits_together(path):
    config = load_config(str(path))
    model = Transformer(config.model, source_vocab_size=300, target_vocab_size=300, bos_id=2)
    optimizer = make_optimizer(config.training, config.model.d_model)
    tokens = jnp.ones((2, 5), jnp.int32)

    def shapes():
        state = init_state(model, optimizer, config.seed)
        batch = [tokens] * 6
        logits = model.apply({"params": state.params}, *batch)
        memory = model.apply({"params": state.params}, *batch[:3], method="encode")
        sizes = {"beam_size": config.decoding.beam_size, "max_target_length": 7}
        cache = model.apply(
            {"params": state.params}, memory, tokens > 0, **sizes, method="init_cache"
        )
        beams = jnp.ones((2, config.decoding.beam_size), jnp.int32)
        step = model.apply({"params": state.params}, beams, cache, method="decode_step")
        return logits, step[0]

    logits, next_logits = jax.eval_shape(shapes)
    assert logits.shape == (2, 5, 300)
    assert next_logits.shape == (2, config.decoding.beam_size, 300)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_says_how_to_run_it(path):
    assert f"--config configs/{path.name}" in path.read_text(encoding="utf-8")
