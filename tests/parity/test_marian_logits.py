"""Logits of Hugging Face's MarianMTModel and of our model with the same parameters."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from marian_directories import OURS, our_model

pytest.importorskip("torch", reason="needs the extra [parity]: make test-all")
pytest.importorskip("transformers", reason="needs the extra [parity]: make test-all")

import dataclasses

import hugging_face
import torch

from flaxformer_mt.checkpoints.loading import LoadedModel
from flaxformer_mt.interop.marian.convert import read_marian, write_marian

pytestmark = pytest.mark.slow

SEARCH = {"max_length": 20}  # without it the import warns
MODELS = {
    "swish": {},
    "relu, unscaled, deep and wide": {
        "activation_function": "relu",
        "scale_embedding": False,
        "encoder_layers": 4,
        "encoder_ffn_dim": 40,
        "decoder_ffn_dim": 40,
        "d_model": 24,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
    },
    "gelu, separate vocabularies": {"activation_function": "gelu", "separate": True},
    "three matrices": {"separate": True, "tie_word_embeddings": False, "decoder_layers": 2},
    "one vocabulary, three matrices": {"tie_word_embeddings": False},
    "silu, one head, separate with one vocabulary": {
        "activation_function": "silu",
        "share_encoder_decoder_embeddings": False,
        "encoder_attention_heads": 1,
        "decoder_attention_heads": 1,
    },
}


@jax.jit(static_argnums=0)
def apply(model, params, *batch):
    return model.apply({"params": params}, *batch)


def our_logits(loaded: LoadedModel, inputs, mask, targets) -> np.ndarray:
    """As a batch of ours: padding is 0 there."""
    inputs, mask, targets = (jnp.asarray(x, jnp.int32) for x in (inputs * mask, mask, targets))
    positions = jnp.arange(inputs.shape[1]) * mask, jnp.zeros_like(targets) + jnp.arange(6)
    params = jax.tree.map(jnp.asarray, loaded.params)
    batch = inputs, targets, *positions, mask, jnp.ones_like(targets)
    return np.asarray(apply(loaded.model, params, *batch))


@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_theirs_has_the_same_logits_here(tmp_path, name):
    theirs = hugging_face.make(tmp_path, generation=SEARCH, **MODELS[name])
    batch = hugging_face.random_batch(theirs.model)
    expected = hugging_face.teacher_forced(theirs.model, *batch)
    assert np.ptp(expected) > 5  # or equality would mean little
    assert abs(our_logits(read_marian(tmp_path), *batch) - expected).max() < 1e-4


EXPORTS = {
    "paper": {},
    "half-split, silu": {"positions": "sinusoidal_half_split", "activation": "silu"},
    "separate, no biases": {"tie_embeddings": "target", "use_bias": False, "activation": "gelu"},
    "three matrices": {"tie_embeddings": "none", "output_bias": True, "scale_embeddings": False},
}


@pytest.mark.parametrize("name", EXPORTS)
def test_a_model_of_ours_has_the_same_logits_there(tmp_path, name):
    config = dataclasses.replace(OURS, norm_epsilon=1e-5, **EXPORTS[name])
    loaded = our_model(config, shared=config.tie_embeddings == "all")
    write_marian(tmp_path, loaded)
    theirs = hugging_face.load(tmp_path)
    batch = hugging_face.random_batch(theirs.model)
    expected = our_logits(loaded, *batch)
    assert abs(hugging_face.teacher_forced(theirs.model, *batch) - expected).max() < 1e-4


def test_our_default_epsilon_changes_logits_little(tmp_path):
    loaded = our_model(OURS)
    write_marian(tmp_path, loaded)
    theirs = hugging_face.load(tmp_path)
    batch = hugging_face.random_batch(theirs.model)
    difference = hugging_face.teacher_forced(theirs.model, *batch) - our_logits(loaded, *batch)
    assert 0 < abs(difference).max() < 1e-3


def test_an_import_and_an_export_write_what_transformers_saved(tmp_path):
    """Tensor by tensor, file by file: theirs -> ours -> theirs."""
    from safetensors.numpy import load_file

    for name in ("swish", "gelu, separate vocabularies", "three matrices"):
        theirs = hugging_face.make(tmp_path / name, generation=SEARCH, **MODELS[name])
        write_marian(tmp_path / f"{name} again", read_marian(theirs.directory))
        files = [tmp_path / n / "model.safetensors" for n in (name, f"{name} again")]
        given, found = map(load_file, files)
        assert given.keys() == found.keys()
        for key, tensor in given.items():
            np.testing.assert_array_equal(found[key], tensor)


def test_a_pickle_is_read_if_asked_for_and_only_its_tensors(tmp_path):
    theirs = hugging_face.make(tmp_path, generation=SEARCH)
    expected = read_marian(tmp_path).params
    (tmp_path / "model.safetensors").unlink()
    torch.save(theirs.model.state_dict(), tmp_path / "pytorch_model.bin")
    found = read_marian(tmp_path, allow_pickle=True).params
    jax.tree.map(np.testing.assert_array_equal, found, expected)
    torch.save({"code": Code()}, tmp_path / "pytorch_model.bin")
    with pytest.raises(ValueError, match=r"pytorch_model\.bin is damaged, or holds something"):
        read_marian(tmp_path, allow_pickle=True)


class Code:
    """An object whose pickle runs code when it is read."""

    def __reduce__(self):
        return pytest.fail, ("code of a pickle was run",)
