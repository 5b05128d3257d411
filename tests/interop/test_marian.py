"""Import and export of Marian directories, without torch (tests/parity compares with it)."""

import dataclasses
import json
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax.traverse_util import flatten_dict
from marian_directories import OURS, our_model, write_directory, write_tokenizer
from tiers import slow_after

from flaxformer_mt.checkpoints.loading import LoadedModel
from flaxformer_mt.data.tokenization.tokenizer import Tokenizer
from flaxformer_mt.data.tokenization.word_vocabulary import WordVocabulary
from flaxformer_mt.interop.marian import weights
from flaxformer_mt.interop.marian.convert import read_marian, write_marian
from flaxformer_mt.model.positions import sinusoids
from flaxformer_mt.translation.config import DecodingConfig

safetensors_numpy = pytest.importorskip(
    "safetensors.numpy", reason="needs the extra [marian] (safetensors)"
)

SEARCH = {"num_beams": 4, "max_length": 30, "length_penalty": 1.2, "early_stopping": True}


@jax.jit(static_argnums=0)
def apply(model, params, *batch):
    return model.apply({"params": params}, *batch)


def logits(loaded: LoadedModel) -> np.ndarray:
    """The logits of three sentences, one of them padded."""
    rng = np.random.default_rng(0)
    inputs, targets = (jnp.asarray(rng.integers(4, 30, (3, n)), jnp.int32) for n in (6, 5))
    inputs_mask = jnp.asarray(np.arange(6) < [[6], [3], [6]], jnp.int32)
    targets_mask = jnp.ones((3, 5), jnp.int32)
    positions = jnp.arange(6) * inputs_mask, jnp.arange(5) * targets_mask
    params = jax.tree.map(jnp.asarray, loaded.params)
    return np.asarray(
        apply(loaded.model, params, inputs, targets, *positions, inputs_mask, targets_mask)
    )


def without(values: dict, *names: str) -> dict:
    return {name: value for name, value in values.items() if name not in names}


@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize("tied", [True, False])
def test_an_import_and_an_export_are_exact(tmp_path, separate, tied):
    config = {
        "tie_word_embeddings": tied,
        "share_encoder_decoder_embeddings": not separate and tied,
    }
    given = write_directory(
        tmp_path / "a", config=config, generation=SEARCH, separate=separate, source_lang="eng"
    )
    write_marian(tmp_path / "b", read_marian(tmp_path / "a"))
    found = safetensors_numpy.load_file(tmp_path / "b" / "model.safetensors")
    assert found.keys() == given.keys()
    for name, tensor in given.items():
        np.testing.assert_array_equal(found[name], tensor)
    names = {path.name for path in (tmp_path / "a").iterdir()}
    assert {path.name for path in (tmp_path / "b").iterdir()} == names
    for name in names - {"model.safetensors"}:
        one, other = ((tmp_path / side / name).read_bytes() for side in "ab")
        if name in ("config.json", "generation_config.json"):
            kept = json.loads(one).items() <= json.loads(other).items()
            assert kept, f"{name}: {one} -> {other}"
        else:
            assert one == other


VARIANTS = {
    "paper": {},
    "half-split, gelu": {"positions": "sinusoidal_half_split", "activation": "gelu"},
    "separate vocabularies": {"tie_embeddings": "target", "activation": "silu"},
    "three matrices, no biases": {"tie_embeddings": "none", "use_bias": False},
    "unscaled, output bias": {"scale_embeddings": False, "output_bias": True},
}


@pytest.mark.parametrize("name", slow_after(2, VARIANTS))
def test_an_export_and_an_import_give_the_same_logits(tmp_path, name):
    config = dataclasses.replace(OURS, norm_epsilon=1e-5, **VARIANTS[name])
    loaded = our_model(config, shared=config.tie_embeddings == "all")
    write_marian(tmp_path, loaded)
    again = read_marian(tmp_path)
    np.testing.assert_allclose(logits(again), logits(loaded), atol=2e-5)
    # The parameters are equal, except for the channel order and added zero biases.
    leaves = flatten_dict(again.params, sep="/")
    order = np.arange(16)
    if config.positions == "sinusoidal":
        order = weights.half_split_channels(16)
    for path, leaf in flatten_dict(loaded.params, sep="/").items():
        moved = leaves.pop(path)
        for axis, size in enumerate(leaf.shape):
            leaf = leaf.take(order, axis=axis) if size == 16 else leaf
        np.testing.assert_array_equal(moved, leaf)
    assert all(path.endswith("bias") and not leaf.any() for path, leaf in leaves.items())
    target, again_target = loaded.tokenizer.target, again.tokenizer.target
    for which in ("pad_id", "unk_id", "bos_id", "eos_id", "size"):
        assert getattr(again_target, which) == getattr(target, which)
    text = "die kleine Katze <pad> sieht ☃"
    assert again_target.tokenize(text) == target.tokenize(text)


def test_the_order_of_the_channels_matters(tmp_path, monkeypatch):
    """Without it the test above fails: positions would be added to other channels."""
    loaded = our_model(dataclasses.replace(OURS, norm_epsilon=1e-5))
    monkeypatch.setattr(weights, "half_split_channels", np.arange)
    write_marian(tmp_path, loaded)
    assert abs(logits(read_marian(tmp_path)) - logits(loaded)).max() > 0.1


def test_the_config_is_that_of_the_directory(tmp_path):
    write_directory(
        tmp_path, generation=SEARCH, source_lang="eng", target_lang="deu", config={"dropout": 0.3}
    )
    loaded = read_marian(tmp_path)
    model = loaded.config.model
    assert (model.activation, model.norm_epsilon, model.dropout) == ("silu", 1e-5, 0.3)
    assert (model.num_encoder_layers, model.num_decoder_layers) == (2, 1)
    assert loaded.config.data.source_language == "eng"
    assert loaded.config.data.target_language == "deu"
    assert loaded.tokenizer.languages == ("deu",)
    assert loaded.config.data.max_source_length == 40
    assert loaded.config.decoding == DecodingConfig(
        beam_size=4,
        length_penalty=1.2,
        length_normalization="average",
        early_stopping="first",
        forced_end="free",
        max_target_length=29,
        target_length_ratio=0.0,
        target_length_margin=29,
        allow_unknown=True,
        allow_special=True,
    )


def test_a_large_search_takes_few_rows_at_once(tmp_path):
    generation = {"num_beams": 6, "max_length": 5 * 10**6}
    write_directory(tmp_path, generation=generation)
    assert read_marian(tmp_path).config.decoding.max_rows_per_batch == 1


def rewrite(directory: Path, **changes) -> None:
    """Replaces tensors by wrong ones. None removes one."""
    file = directory / "model.safetensors"
    tensors = safetensors_numpy.load_file(file) | changes
    kept = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    safetensors_numpy.save_file(kept, file)


ZERO = np.zeros((8, 8), np.float32)
FC1 = "model.decoder.layers.0.fc1.weight"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({FC1: None}, rf"{FC1}: expected shape \(12, 8\), found none"),
        ({FC1: ZERO}, rf"{FC1}: expected shape \(12, 8\), found \(8, 8\)"),
        ({"more.weight": ZERO}, r"more\.weight: expected none, found shape \(8, 8\)"),
        ({"model.shared.weight": ZERO}, r"model\.shared\.weight: expected shape \(\d+, 8\)"),
        ({"lm_head.weight": ...}, r"lm_head\.weight: expected the same as model\.shared\.weight"),
        (
            {FC1: np.full((12, 8), np.nan, np.float32)},
            rf"{FC1}: expected numbers, found NaN \(not a number\)",
        ),
        ({FC1: np.ones((12, 8), np.int8)}, rf"{FC1}: expected floating-point .*, found int8"),
    ],
)
def test_tensors_that_do_not_fit_are_named(tmp_path, changes, message):
    tensors = write_directory(tmp_path)
    if "lm_head.weight" in changes:
        changes = {"lm_head.weight": tensors["model.shared.weight"] + 1}
    rewrite(tmp_path, **changes)
    with pytest.raises(ValueError, match=message):
        read_marian(tmp_path)


def test_many_misfits_are_counted(tmp_path):
    write_directory(tmp_path)
    rewrite(tmp_path, **{f"extra.{i}": ZERO for i in range(11)})
    with pytest.raises(ValueError, match=r"(?s)11 tensors do not fit.*extra\.0"):
        read_marian(tmp_path)


def test_old_checkpoints_with_repeated_tensors_are_read(tmp_path):
    """They store tied tensors under all names, and the sinusoids."""
    tensors = write_directory(tmp_path, generation=SEARCH)
    once = read_marian(tmp_path)
    shared = tensors["model.shared.weight"]
    positions = sinusoids(40, 8, half_split=True)
    sides = ("model.encoder", "model.decoder")
    rewrite(
        tmp_path,
        **{f"{side}.embed_tokens.weight": shared for side in sides},
        **{f"{side}.embed_positions.weight": positions for side in sides},
        **{"lm_head.weight": shared},
    )
    jax.tree.map(np.testing.assert_array_equal, once.params, read_marian(tmp_path).params)
    rewrite(tmp_path, **{"model.shared.weight": None})
    jax.tree.map(np.testing.assert_array_equal, once.params, read_marian(tmp_path).params)


def test_without_an_output_bias_there_is_none(tmp_path):
    write_directory(tmp_path, generation=SEARCH)
    rewrite(tmp_path, final_logits_bias=None)
    loaded = read_marian(tmp_path)
    assert not loaded.config.model.output_bias and "logits_bias" not in loaded.params


def test_half_precision_is_read_as_single(tmp_path):
    tensors = write_directory(tmp_path, generation=SEARCH)
    tensors["model.encoder.embed_positions.weight"] = sinusoids(40, 8, half_split=True)
    for dtype in (np.float16, jnp.bfloat16):
        rewrite(tmp_path, **{name: tensor.astype(dtype) for name, tensor in tensors.items()})
        found = read_marian(tmp_path).params["decoder_0"]["feed_forward"]["in"]["kernel"]
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, tensors[FC1].astype(dtype).astype(np.float32).T)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "bart"}, "model_type is 'bart', expected 'marian'"),
        ({"architectures": ["MarianModel"]}, r"expected \['MarianMTModel'\]"),
        ({"activation_function": "gelu_new"}, "'gelu_new', expected one of relu, gelu, swish"),
        (
            {"decoder_ffn_dim": 16},
            "encoder_ffn_dim is 12 but decoder_ffn_dim is 16, expected the same",
        ),
        ({"decoder_attention_heads": 4}, "encoder_attention_heads is 2 but decoder_a"),
        ({"encoder_layers": "2"}, "encoder_layers: expected int, got '2'"),
        ({"decoder_attention_heads": "2"}, "decoder_attention_heads: expected int, got '2'"),
        (
            {"encoder_attention_heads": 3, "decoder_attention_heads": 3},
            r"config\.json: model\.d_model \(8\) must be divisible by model\.num_heads \(3\)",
        ),
        (
            {"d_model": 9, "encoder_attention_heads": 1, "decoder_attention_heads": 1},
            "d_model must be even",
        ),
        ({"decoder_start_token_id": "7"}, "decoder_start_token_id: expected int, got '7'"),
        ({"scale_embedding": "false"}, "scale_embedding: expected bool, got 'false'"),
        ({"dropout": "0.1"}, r"config\.json: dropout: expected float, got '0\.1'"),
        ({"dropout": 1}, r"config\.json: model\.dropout must be in \[0, 1\), got 1"),
        (
            {"activation_function": ["relu"]},
            r"activation_function: expected str, got \['relu'\]",
        ),
        ({"architectures": 3}, r"architectures: expected tuple\[str, \.\.\.\], got 3"),
        ({"vocab_size": 99}, r"vocab\.json has \d+ pieces, but the embeddings have 99 rows"),
        ({"pad_token_id": 3}, r"pad_token_id is 3 in config\.json, but '<pad>' has the id"),
        ({"eos_token_id": 2}, r"eos_token_id is 2 in config\.json, but '</s>' has the id 0"),
        ({"decoder_start_token_id": 999}, "decoder_start_token_id is 999, expected an id of"),
    ],
)
def test_an_unknown_architecture_or_a_vocabulary_that_does_not_fit_is_refused(
    tmp_path, changes, message
):
    write_directory(tmp_path)
    values = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(values | changes))
    with pytest.raises(ValueError, match=message):
        read_marian(tmp_path)


@pytest.mark.parametrize(
    "name", ["config.json", "model.safetensors", "vocab.json", "source.spm", "target.spm"]
)
def test_a_missing_file_is_named(tmp_path, name):
    write_directory(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(FileNotFoundError, match=rf"no file .*{name}; .* holds: "):
        read_marian(tmp_path)


def test_damaged_files_are_named(tmp_path):
    write_directory(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"damaged")
    with pytest.raises(ValueError, match=r"model\.safetensors is damaged"):
        read_marian(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ValueError, match=r"config\.json is no JSON"):
        read_marian(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"added_tokens_decoder": {"3": {"special": True}}}, "expected a token .* got {'special'"),
        ({"added_tokens_decoder": [3]}, r"added_tokens_decoder: expected an object .* got \[3\]"),
        ({"added_tokens_decoder": {"3": "x"}}, "expected an object .* got {'3': 'x'}"),
        ({"eos_token": {}}, None),
        ({"eos_token": {"text": "</s>"}}, "expected a token .* got {'text': '</s>'}"),
        ({"extra_special_tokens": {"image": "<image>"}}, "lacks the special token '<image>'"),
        ({"added_tokens_decoder": None, "source_lang": 5}, None),
    ],
)
def test_odd_settings_of_the_tokenizer_are_named_or_left_out(tmp_path, content, message):
    write_directory(tmp_path, generation=SEARCH, **content)
    if message:
        with pytest.raises(ValueError, match=message):
            read_marian(tmp_path)
    else:
        assert read_marian(tmp_path).config.data.source_language == "und"


def test_an_empty_model_of_pieces_is_named(tmp_path):
    write_directory(tmp_path)
    (tmp_path / "source.spm").write_bytes(b"")
    with pytest.raises(ValueError, match=r"source\.spm is not a SentencePiece model"):
        read_marian(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_beams": "4"}, "num_beams: expected int, got '4'"),
        ({"num_beams": 0}, "beam_size must be at least 1 .*, but it is 0"),
        ({"max_new_tokens": 0}, "max_target_length must be at least 1, got 0"),
        ({"max_length": "8"}, "max_length: expected int, got '8'"),
        ({"length_penalty": "1"}, "length_penalty: expected float, got '1'"),
        (
            {"early_stopping": "soon"},
            "early_stopping: expected False or True or 'never'",
        ),
        ({"bad_words_ids": [5]}, r"bad_words_ids\[0\]: expected tuple\[int, \.\.\.\], got 5"),
        ({"bad_words_ids": 5}, "bad_words_ids: expected tuple.*, got 5"),
        ({"bad_words_ids": [["5"]]}, r"bad_words_ids\[0\]\[0\]: expected int, got '5'"),
        ({"suppress_tokens": ["5"]}, r"suppress_tokens\[0\]: expected int, got '5'"),
    ],
)
def test_an_invalid_search_is_refused_with_its_file(tmp_path, changes, message):
    write_directory(tmp_path, generation=SEARCH | changes)
    with pytest.raises(ValueError, match=rf"generation_config\.json: .*{message}"):
        read_marian(tmp_path)


def test_without_a_generation_config_the_search_is_that_of_the_config(tmp_path):
    """As in `generate`, which does not read the defaults of MarianConfig."""
    write_directory(tmp_path, config=SEARCH)
    with warnings.catch_warnings(action="error"):
        decoding = read_marian(tmp_path).config.decoding
    assert (decoding.beam_size, decoding.max_target_length) == (4, 29)
    file = tmp_path / "config.json"
    file.write_text(json.dumps(without(json.loads(file.read_text()), "forced_eos_token_id")))
    with pytest.warns(UserWarning, match="has no forced_eos_token_id"):
        read_marian(tmp_path)


def test_the_config_tells_the_size_of_the_vocabulary(tmp_path):
    """The summary of a workdir reads the size from the config."""
    ids = write_tokenizer(tmp_path)
    write_directory(tmp_path, generation=SEARCH)
    assert read_marian(tmp_path).config.data.tokenizer.vocab_size == ids["vocab_size"]


def test_a_pickle_is_read_only_on_request(tmp_path):
    write_directory(tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path / "pytorch_model.bin")
    with pytest.raises(ValueError, match="a pickle: such files can run code.*--allow-pickle"):
        read_marian(tmp_path)


def test_all_reasons_against_an_export_are_listed(tmp_path):
    config = dataclasses.replace(
        OURS,
        norm="pre",
        norm_type="rms",
        positions="rotary",
        activation="swiglu",
        num_kv_heads=1,
        key_width=4,
        local_window=3,
        norm_epsilon=1e-3,
    )
    with pytest.raises(ValueError, match="a Marian model cannot have") as refusal:
        write_marian(tmp_path / "out", our_model(config))
    for reason in (
        "model.norm pre, only post",
        "model.norm_type rms, only layer",
        "model.positions rotary, only sinusoidal",
        "model.activation swiglu, only relu or gelu or silu",
        "model.num_kv_heads 1, only 2 (all heads)",
        "model.key_width 4, only 8 (model.d_model / model.num_heads)",
        "model.local_window 3, only 0 (all positions)",
        "model.norm_epsilon 0.001, at most 1e-05",
    ):
        assert reason in str(refusal.value)
    assert not (tmp_path / "out").exists()


def test_unsupported_vocabularies_are_refused(tmp_path):
    loaded = our_model(OURS)
    words = WordVocabulary([(f"w{i}", 1) for i in range(12)])
    with pytest.raises(ValueError, match="does not split text into words as kind word does"):
        write_marian(tmp_path, loaded._replace(tokenizer=Tokenizer(words, words)))
    other = our_model(OURS, unk_id=2, bos_id=1).tokenizer.source
    with pytest.raises(ValueError, match=r"one unk_token .* here it is '<unk>' \(id 1\) in the so"):
        write_marian(tmp_path, loaded._replace(tokenizer=Tokenizer(loaded.tokenizer.source, other)))


def test_a_directory_with_files_is_not_overwritten(tmp_path):
    (tmp_path / "mine").write_text("")
    with pytest.raises(FileExistsError, match="is not empty"):
        write_marian(tmp_path, our_model(OURS))
