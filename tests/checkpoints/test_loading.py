"""A run starts from another workdir's parameters, bit for bit, or is refused with the reason."""

import dataclasses
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from flaxformer_mt.checkpoints.loading import adopt_tokenizer, initial_params, load_model
from flaxformer_mt.checkpoints.manager import Checkpoints
from flaxformer_mt.checkpoints.reading import read_extras
from flaxformer_mt.config import Config, save_config
from flaxformer_mt.data.tokenization.tokenizer import Tokenizer
from flaxformer_mt.data.tokenization.word_vocabulary import WordVocabulary
from flaxformer_mt.model.config import TransformerConfig
from flaxformer_mt.model.initialization import init_params
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.training.state import TrainState

TINY = TransformerConfig(
    d_model=8, d_ff=16, num_heads=2, num_encoder_layers=1, num_decoder_layers=1
)


def tokenizer_of(*words):
    special = ("<pad>", "<unk>", "<s>", "</s>")
    vocabulary = WordVocabulary([(word, 1) for word in (*special, *words)])
    return Tokenizer(vocabulary, vocabulary)


TOKENIZER = tokenizer_of("a", "dog", "runs")  # V = 7, including the special tokens


def model_of(config=TINY):
    return Transformer(config, 7, 7, 2)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The workdir of a tiny model, and its parameters."""
    workdir = tmp_path_factory.mktemp("runs") / "general"
    workdir.mkdir()
    TOKENIZER.save(workdir / "tokenizer")
    params = jax.jit(lambda: init_params(model_of(), jax.random.key(5)))()
    checkpoints = Checkpoints(workdir, keep_last=1, keep_best=0)
    config = Config(model=TINY)
    checkpoints.save(
        3,
        TrainState(jnp.int32(3), params, (), jnp.zeros(2, jnp.uint32)),
        data_state={},
        metrics=None,
        config=config,
        tokenizer_fingerprint=TOKENIZER.fingerprint,
    )
    checkpoints.close()
    save_config(config, str(workdir))
    return workdir, params


def test_the_parameters_are_those_of_the_other_workdir(trained):
    workdir, params = trained
    found = initial_params(workdir, model_of(), TOKENIZER.fingerprint)
    assert jax.tree.structure(found) == jax.tree.structure(params)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(params), strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def test_a_config_of_another_model_is_refused(trained, tmp_path):
    """The shapes of the parameters are equal."""
    shutil.copytree(trained[0], tmp_path / "edited")
    save_config(Config(model=dataclasses.replace(TINY, norm="pre")), str(tmp_path / "edited"))
    with pytest.raises(ValueError, match=r"(?s)describes another .*norm: 'post' -> 'pre'"):
        load_model(tmp_path / "edited")


def test_a_checkpoint_that_training_deletes_meanwhile_is_named(tmp_path):
    with pytest.raises(OSError, match="checkpoint .*/7 is gone: a run deleted it"):
        read_extras(tmp_path / "7")


def test_training_settings_may_differ(trained):
    other = dataclasses.replace(TINY, dropout=0.3, dtype="bfloat16", layer_loop="scan")
    initial_params(trained[0], model_of(other), TOKENIZER.fingerprint)


def test_another_model_is_refused_with_what_differs(trained):
    other = dataclasses.replace(TINY, norm="pre", d_ff=32, dropout=0.3)
    with pytest.raises(ValueError, match=r"init_from: .*general holds another model") as error:
        initial_params(trained[0], model_of(other), TOKENIZER.fingerprint)
    lines = str(error.value).splitlines()
    assert lines[1:3] == ["  model.d_ff: 16 -> 32", "  model.norm: 'post' -> 'pre'"]
    assert lines[3].startswith("Use the values of that model (--config ")


def test_another_tokenizer_is_refused(trained):
    with pytest.raises(ValueError, match=rf"fingerprint {TOKENIZER.fingerprint}, but this run has"):
        initial_params(trained[0], model_of(), tokenizer_of("a", "cat", "runs").fingerprint)


def test_a_missing_workdir_is_refused(tmp_path):
    for refused in (
        lambda: initial_params(tmp_path / "none", model_of(), "abc"),
        lambda: adopt_tokenizer(tmp_path / "none", tmp_path / "new"),
    ):
        with pytest.raises(FileNotFoundError, match=r"training.init_from: .*none does not exist"):
            refused()
    assert not (tmp_path / "new").exists()


def test_a_new_workdir_gets_the_tokenizer_and_an_old_one_keeps_its_own(trained, tmp_path):
    new = tmp_path / "new"
    assert adopt_tokenizer(trained[0], new)
    assert Tokenizer.load(new / "tokenizer").fingerprint == TOKENIZER.fingerprint
    own = tokenizer_of("a", "cat")
    shutil.rmtree(new / "tokenizer")
    own.save(new / "tokenizer")
    assert not adopt_tokenizer(trained[0], new)
    assert Tokenizer.load(new / "tokenizer").fingerprint == own.fingerprint


def test_a_resumed_run_does_not_need_the_other_workdir(tmp_path):
    TOKENIZER.save(tmp_path / "tokenizer")
    assert not adopt_tokenizer(tmp_path / "gone", tmp_path)


def test_a_workdir_cannot_start_from_itself(trained):
    with pytest.raises(ValueError, match=r"are both .*general; to continue .* leave out"):
        adopt_tokenizer(trained[0], trained[0])
