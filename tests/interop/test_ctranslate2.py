"""CTranslate2 computes the same for every supported variant of the model; others are refused."""

import copy
import dataclasses
import functools
import json
import sys
import typing
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from random_models import random_model
from tiers import slow_after

from flaxformer_mt.checkpoints.loading import LoadedModel
from flaxformer_mt.data.batching.batch import BatchShape, Example, pad_batch
from flaxformer_mt.data.tokenization.tokenizer import Tokenizer
from flaxformer_mt.data.tokenization.word_vocabulary import WordVocabulary
from flaxformer_mt.interop import Quantization
from flaxformer_mt.interop.ctranslate2 import unsupported, write_ctranslate2
from flaxformer_mt.model.config import TransformerConfig

ctranslate2 = pytest.importorskip("ctranslate2", reason="needs the extra [ctranslate2]")

WORDS = [f"w{i}" for i in range(12)]
TINY = TransformerConfig(
    d_model=16,
    d_ff=24,
    num_heads=4,
    num_encoder_layers=1,
    num_decoder_layers=2,
    tie_embeddings="none",
)
# Each choice is in at least one variant.
VARIANTS = {
    "paper": {"tie_embeddings": "all"},
    "pre, gelu, learned, tied target": {
        "norm": "pre",
        "activation": "gelu",
        "positions": "learned",
        "max_positions": 20,
        "tie_embeddings": "target",
    },
    "rms, silu, relative, no biases": {
        "norm_type": "rms",
        "activation": "silu",
        "positions": "relative",
        "max_distance": 3,
        "use_bias": False,
    },
    "pre, rms, geglu, bucketed, grouped": {
        "norm": "pre",
        "norm_type": "rms",
        "activation": "geglu",
        "positions": "bucketed",
        "num_kv_heads": 2,
    },
    "swiglu, rotary, wide keys, large epsilon": {
        "activation": "swiglu",
        "positions": "rotary",
        "key_width": 6,
        "value_width": 3,
        "norm_epsilon": 1e-2,
    },
    "half-split, multi-query, wide heads, output bias, not scaled": {
        "positions": "sinusoidal_half_split",
        "num_kv_heads": 1,
        "key_width": 6,
        "value_width": 6,
        "output_bias": True,
        "scale_embeddings": False,
    },
    "relative, wide values, grouped, deep encoder": {
        "positions": "relative",
        "key_width": 3,
        "value_width": 6,
        "num_kv_heads": 2,
        "num_encoder_layers": 3,
        "num_decoder_layers": 1,
    },
    "no positions": {"positions": "none"},
}


def load(config: TransformerConfig) -> LoadedModel:
    special = ["<pad>", "<unk>", "<s>", "</s>"]
    vocabulary = WordVocabulary([(word, 1) for word in special + WORDS])
    return random_model(config, Tokenizer(vocabulary, vocabulary))


def export(loaded: LoadedModel, directory: Path, quantization: str = "float32") -> Path:
    write_ctranslate2(directory, loaded, quantization=quantization)
    return directory


def sentences(rng: np.random.Generator, lengths: list[int]) -> list[list[str]]:
    return [rng.choice(WORDS, length).tolist() for length in lengths]


@functools.partial(jax.jit, static_argnames="model")
def log_probs(params, batch, *, model):
    """Returns log p(any token | source, target before it) [B T V], teacher-forced."""
    return jax.nn.log_softmax(model.apply({"params": params}, *batch))


def score(
    loaded: LoadedModel, sources: list[list[str]], targets: list[list[str]]
) -> tuple[list[np.ndarray], list[list[str]]]:
    """Log-probability of each target token (EOS included), and the most probable token instead.

    The shape is always the same, so that each model compiles once.
    """
    vocabularies = loaded.tokenizer.source, loaded.tokenizer.target
    examples = [
        Example(
            *(
                np.array([*map(vocabulary.pieces.index, words), 3], np.int32)
                for vocabulary, words in zip(vocabularies, pair, strict=True)
            )
        )
        for pair in zip(sources, targets, strict=True)
    ]
    batch = jax.tree.map(jnp.asarray, pad_batch(examples, BatchShape(len(sources), 16, 12)))
    found = np.asarray(log_probs(loaded.params, batch, model=loaded.model))
    ids = [example.targets for example in examples]
    of_tokens = [row[range(len(one)), one] for row, one in zip(found, ids, strict=True)]
    best = [[vocabularies[1].pieces[i] for i in row.argmax(-1)] for row in found]
    return of_tokens, best


def without_end(hypotheses: list[list[str]]) -> list[list[str]]:
    return [[token for token in tokens if token != "</s>"] for tokens in hypotheses]


@pytest.mark.parametrize("changes", slow_after(3, VARIANTS.values()), ids=list(VARIANTS))
def test_the_same_probabilities(changes, rng, tmp_path):
    loaded = load(dataclasses.replace(TINY, **changes))
    directory = export(loaded, tmp_path / "export")
    engine = ctranslate2.Translator(str(directory), intra_threads=1)
    sources, targets = sentences(rng, [1, 4, 9, 15]), sentences(rng, [11, 3, 7, 1])
    options = {"max_decoding_length": 11, "min_decoding_length": 0, "return_end_token": True}

    # Teacher forcing,
    of_tokens, _ = score(loaded, sources, targets)
    for found, expected in zip(engine.score_batch(sources, targets), of_tokens, strict=True):
        np.testing.assert_allclose(found.log_probs, expected, atol=1e-4)
    # greedy search,
    greedy = engine.translate_batch(sources, beam_size=1, **options)
    greedy = [one.hypotheses[0] for one in greedy]
    _, best = score(loaded, sources, without_end(greedy))
    assert greedy == [row[: len(tokens)] for row, tokens in zip(best, greedy, strict=True)]
    # and beam search, which reorders the hypotheses at each step.
    options |= {"length_penalty": 0, "return_scores": True}
    beam = engine.translate_batch(sources, beam_size=4, **options)
    of_tokens, _ = score(loaded, sources, without_end([one.hypotheses[0] for one in beam]))
    for one, expected in zip(beam, of_tokens, strict=True):
        total = expected[: len(one.hypotheses[0])].sum()  # of EOS only where it is there
        np.testing.assert_allclose(one.scores[0], total, atol=1e-4)


def test_all_reasons_are_given_in_one_message(tmp_path):
    changes = {"positions": "bucketed", "num_position_buckets": 8, "max_distance": 200}
    loaded = load(dataclasses.replace(TINY, local_window=5, **changes))
    with pytest.raises(ValueError) as error:
        export(loaded, tmp_path / "export")
    assert "model.local_window is 5" in str(error.value)
    assert "model.num_position_buckets is 8 and model.max_distance 200" in str(error.value)
    assert not (tmp_path / "export").exists()


def test_new_positions_and_activations_are_refused():
    for field in ("positions", "activation"):
        new = copy.copy(TINY)  # as if the model had another choice
        object.__setattr__(new, field, "new")
        assert any(f"model.{field} is new, expected" in reason for reason in unsupported(new))


def test_the_buckets_that_are_refused_would_differ(rng, tmp_path, monkeypatch):
    changes = {"positions": "bucketed", "num_position_buckets": 6, "max_distance": 100}
    loaded = load(dataclasses.replace(TINY, **changes))
    assert list(unsupported(loaded.model.config))
    monkeypatch.setattr("flaxformer_mt.interop.ctranslate2.unsupported", lambda config: [])
    engine = ctranslate2.Translator(str(export(loaded, tmp_path / "export")), intra_threads=1)
    sources, targets = sentences(rng, [15]), sentences(rng, [5])  # distance 10 comes up
    (found,) = engine.score_batch(sources, targets)
    (expected,), _ = score(loaded, sources, targets)
    assert np.abs(np.subtract(found.log_probs, expected)).max() > 1e-3


def test_a_parameter_that_is_not_in_the_table_is_refused(tmp_path):
    loaded = load(TINY)
    loaded.params["encoder_0"]["adapter"] = {"kernel": jnp.ones((2, 2))}
    with pytest.raises(ValueError, match="no array for the parameters encoder_0/adapter/kernel"):
        export(loaded, tmp_path / "export")


def test_without_torch_there_is_no_bfloat16(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ValueError, match="needs torch, .*: pip install 'torch'"):
        export(load(TINY), tmp_path / "export", "int8_bfloat16")


@pytest.mark.parametrize(
    "quantization",
    [
        pytest.param(name, marks=pytest.mark.slow if "bfloat16" in name else ())
        for name in typing.get_args(Quantization)
    ],
)
def test_quantizations(quantization, rng, tmp_path):
    if "bfloat16" in quantization:
        pytest.importorskip("torch", reason="needs torch: make test-all")
    loaded = load(dataclasses.replace(TINY, tie_embeddings="all"))
    exact = export(loaded, tmp_path / "exact")
    directory = export(loaded, tmp_path / "export", quantization)
    smaller = (directory / "model.bin").stat().st_size < (exact / "model.bin").stat().st_size
    assert smaller == (quantization != "float32")
    if "int" in quantization and "vnni" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("CTranslate2's integer products overflow on a CPU without VNNI")
    sources, targets = sentences(rng, [9]), sentences(rng, [7])
    found, expected = (
        ctranslate2.Translator(str(path), intra_threads=1).score_batch(sources, targets)[0]
        for path in (directory, exact)
    )
    np.testing.assert_allclose(found.log_probs, expected.log_probs, atol=0.5)


def test_an_unknown_quantization_is_refused(tmp_path):
    with pytest.raises(ValueError, match="int4 is not a valid quantization type"):
        export(load(TINY), tmp_path / "export", "int4")


def test_nothing_is_overwritten(tmp_path):
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(FileExistsError, match="not empty"):
        export(load(TINY), tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["mine"]


def test_without_ctranslate2_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(ValueError, match=r"pip install 'flaxformer-mt\[ctranslate2\]'"):
        export(load(TINY), tmp_path / "export")


def test_special_tokens_have_names_that_no_word_has(rng, tmp_path):
    special = [("<PAD>", 0), ("<UNK>", 0), ("<S>", 0), ("</S>", 0)]
    source = WordVocabulary(special + [(word, 1) for word in [*WORDS, "</s>", "<<unk>>"]])
    target = WordVocabulary(special + [(word, 1) for word in [*WORDS, "<unk>", "x"]])
    loaded = random_model(TINY, Tokenizer(source, target))
    directory = export(loaded, tmp_path / "export")

    config = json.loads((directory / "config.json").read_bytes())
    names = [config[f"{kind}_token"] for kind in ("unk", "decoder_start", "eos")]
    assert names == ["<<<unk>>>", "<s>", "<</s>>"]
    for side, vocabulary in (("source", source), ("target", target)):
        written = json.loads((directory / f"{side}_vocabulary.json").read_bytes())
        assert written == ["<pad>", *names, *vocabulary.pieces[4:]]
    # CTranslate2 reads an unknown word, and words that look special.
    engine = ctranslate2.Translator(str(directory), intra_threads=1)
    sources, targets = [["w1", "</s>", "never seen"]], [["<unk>", "w3"]]
    (found,) = engine.score_batch(sources, targets)
    (expected,), _ = score(loaded, [["w1", "</s>", "<UNK>"]], targets)
    np.testing.assert_allclose(found.log_probs, expected, atol=1e-4)


def test_the_padding_token_that_starts_a_marian_target_is_never_chosen(rng, tmp_path):
    loaded = load(dataclasses.replace(TINY, output_bias=True))
    loaded.params["logits_bias"] = jnp.zeros(16).at[0].set(100.0)
    loaded.tokenizer.target.bos_id = 0
    loaded = loaded._replace(model=loaded.model.clone(bos_id=0))
    engine = ctranslate2.Translator(str(export(loaded, tmp_path / "export")), intra_threads=1)
    (found,) = engine.translate_batch(sentences(rng, [3]), return_scores=True)
    assert "<pad>" not in found.hypotheses[0]
