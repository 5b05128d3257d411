"""Translations of Hugging Face's `generate` and of our search: tokens, text and scores."""

import dataclasses
import json
import warnings

import jax
import pytest

pytest.importorskip("torch", reason="needs the extra [parity]: make test-all")
pytest.importorskip("transformers", reason="needs the extra [parity]: make test-all")

import hugging_face
from hugging_face import SENTENCES, Theirs
from marian_directories import OURS, our_model

from flaxformer_mt import convert
from flaxformer_mt.checkpoints.loading import LoadedModel
from flaxformer_mt.config import Config
from flaxformer_mt.interop.marian.convert import read_marian, write_marian
from flaxformer_mt.interop.marian.generation import EARLY_STOPPING
from flaxformer_mt.translation.config import DecodingConfig
from flaxformer_mt.translation.translator import Translator

pytestmark = pytest.mark.slow

LIMIT = 12
# Some of their translations end, others reach the limit: see below.
MODELS = {
    "one vocabulary": {"seed": 14},
    "separate, gelu": {"separate": True, "activation_function": "gelu", "seed": 8},
}
PENALTIES = (0.6, 1.0, 1.4)


def ours(loaded: LoadedModel, **changes) -> Translator:
    """Small batches: what is compiled is smaller then. Theirs has no sentences and no copies."""
    changes |= {"max_rows_per_batch": 8, "split_sentences": False, "copy_unknown": False}
    config = dataclasses.replace(loaded.config.decoding, **changes)
    params = jax.device_put(loaded.params)
    given = loaded.model, params, loaded.tokenizer, config
    return Translator(*given, max_source_length=loaded.config.data.max_source_length)


def compare(theirs, found) -> None:
    """Asserts equal tokens and text, and equal scores where theirs have any.

    Of theirs with equal texts, only the best one counts, as with ours.
    """
    for outputs, hypotheses in zip(theirs, found, strict=True):
        first = {one.text: one for one in reversed(outputs)}
        expected = [one for one in outputs if first[one.text] is one]
        assert [h.tokens for h in hypotheses] == [one.tokens for one in expected]
        assert [h.text for h in hypotheses] == [one.text for one in expected]
        for hypothesis, one in zip(hypotheses, expected, strict=True):
            if one.score is not None:
                assert hypothesis.score == pytest.approx(one.score, abs=1e-4)


@pytest.fixture(scope="module", params=MODELS)
def model(request, tmp_path_factory) -> Theirs:
    directory = tmp_path_factory.mktemp("model")
    return hugging_face.make(directory, generation={"max_length": LIMIT}, **MODELS[request.param])


def test_translations_have_various_lengths(model):
    outputs = hugging_face.generate(model, SENTENCES, num_beams=4, num_return_sequences=4)
    lengths = {len(one.tokens) for of_line in outputs for one in of_line}
    assert LIMIT - 1 in lengths and len(lengths) > 6


def test_greedy_search(model):
    expected = hugging_face.generate(model, SENTENCES)
    compare(expected, ours(read_marian(model.directory)).translate(SENTENCES))


@pytest.mark.parametrize(
    ("beam_size", "early_stopping"), [(4, False), (5, False), (4, True), (4, "never")]
)
def test_beam_search(model, beam_size, early_stopping):
    rules = {"num_beams": beam_size, "early_stopping": early_stopping}
    changes = {
        "beam_size": beam_size,
        "num_hypotheses": beam_size,
        "early_stopping": EARLY_STOPPING[early_stopping],
    }
    translator = ours(read_marian(model.directory), **changes)
    for alpha in PENALTIES:
        expected = hugging_face.generate(
            model, SENTENCES, num_return_sequences=beam_size, length_penalty=alpha, **rules
        )
        found = translator.translate(SENTENCES, length_penalty=alpha)
        compare(expected, found)
    scored = translator.score(SENTENCES, [h[0].tokens for h in found], length_penalty=alpha)
    reported = [hypotheses[0].score for hypotheses in found]
    assert [one.score for one in scored] == pytest.approx(reported, abs=1e-4)


RULES = {
    "min_length": ({"min_length": 7}, {"min_target_length": 7}),
    "min_new_tokens": ({"min_new_tokens": 6}, {"min_target_length": 7}),
    "no_repeat_ngram_size": ({"no_repeat_ngram_size": 2}, {"no_repeat_ngram_size": 2}),
    "repetition_penalty": ({"repetition_penalty": 3.0}, {"repetition_penalty": 3.0}),
}


@pytest.mark.parametrize("name", RULES)
def test_rules_of_a_generation_config_are_imported(tmp_path, name):
    """They change the translations, and in the same way on both sides."""
    theirs, ours_expected = RULES[name]
    given = {"max_length": LIMIT, "num_beams": 4}
    hugging_face.make(tmp_path, generation=given | theirs, seed=14)
    # As in OPUS-MT: for generate, the start token (padding) has been generated already.
    file = tmp_path / "generation_config.json"
    values = json.loads(file.read_text())
    file.write_text(json.dumps(values | {"bad_words_ids": [[values["pad_token_id"]]]}))
    model = hugging_face.load(tmp_path)
    with warnings.catch_warnings(action="error"):
        loaded = read_marian(tmp_path)
    for field, value in ours_expected.items():
        assert getattr(loaded.config.decoding, field) == value
    expected = [one[0] for one in hugging_face.generate(model, SENTENCES)]
    found = [hypotheses[0] for hypotheses in ours(loaded).translate(SENTENCES)]
    assert [one.tokens for one in found] == [one.tokens for one in expected]
    without = hugging_face.generate(
        model,
        SENTENCES,
        min_length=0,
        min_new_tokens=0,
        no_repeat_ngram_size=0,
        repetition_penalty=1.0,
    )
    assert [one.tokens for one in expected] != [one[0].tokens for one in without]


GENERATIONS = {
    "OPUS-MT": {
        "num_beams": 4,
        "max_length": 30,
        "bad_words_ids": [["<pad>"]],
        "renormalize_logits": True,
    },
    "n-best": {
        "num_beams": 3,
        "num_return_sequences": 2,
        "max_new_tokens": 9,
        "length_penalty": 0.3,
        "early_stopping": "never",
        "bad_words_ids": [["<pad>"], ["<unk>"], ["▁der"], ["▁the"]],
    },
    "nothing said": {},
}
WARNED = {
    "OPUS-MT": [],
    "n-best": [],
    "nothing said": ["the generation config gives no max_length"],
}


def with_ids(values: dict, vocab: dict[str, int]) -> dict:
    """bad_words_ids by the names of the words."""
    words = values.get("bad_words_ids", [])
    ids = [[vocab[word] for word in one] for one in words if one[0] in vocab]
    return values | ({"bad_words_ids": ids} if ids else {})


@pytest.mark.parametrize("name", GENERATIONS)
@pytest.mark.parametrize("legacy", [False, True])
def test_a_converted_directory_translates_as_generate_does(tmp_path, name, legacy):
    """Text to text with the command; also if config.json has the search, as in old models."""
    theirs = hugging_face.make(tmp_path / "theirs", seed=14)
    config = tmp_path / "theirs" / ("config.json" if legacy else "generation_config.json")
    values = json.loads(config.read_text())
    vocab = json.loads((tmp_path / "theirs" / "vocab.json").read_text())
    config.write_text(json.dumps(values | with_ids(GENERATIONS[name], vocab)))
    if legacy:
        (tmp_path / "theirs" / "generation_config.json").unlink()
    theirs = hugging_face.load(tmp_path / "theirs")
    workdir = str(tmp_path / "ours")
    arguments = ["--from", "marian", "--input", str(tmp_path / "theirs"), "--workdir", workdir]
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        assert convert.main(arguments) == 0
    assert [str(one.message)[:41] for one in warned] == WARNED[name]
    translator = Translator.load(workdir)
    compare(hugging_face.generate(theirs, SENTENCES), translator.translate(SENTENCES))


def test_a_model_of_ours_translates_the_same_there(tmp_path):
    """Text to text, with our vocabularies and suppressed tokens, by the search that both have.

    Lines that begin with >>deu<< are left out: transformers reads it as a language code, which our
    vocabulary does not have.
    """
    decoding = DecodingConfig(
        beam_size=4,
        num_hypotheses=4,
        length_penalty=1.0,
        length_normalization="average",
        early_stopping="heuristic",
        forced_end="free",
        max_target_length=10,
        target_length_ratio=0.0,
        target_length_margin=10,
        forbidden=(9,),
    )
    config = dataclasses.replace(OURS, norm_epsilon=1e-5, output_bias=True)
    loaded = our_model(config)
    loaded = loaded._replace(config=Config(model=config, decoding=decoding))
    loaded.params["logits_bias"][loaded.tokenizer.target.eos_id] += 1.6
    write_marian(tmp_path, loaded)
    sentences = [sentence for sentence in SENTENCES if ">>" not in sentence]
    expected = hugging_face.generate(hugging_face.load(tmp_path), sentences)
    assert len({len(one.tokens) for of_line in expected for one in of_line}) > 3
    compare(expected, ours(loaded).translate(sentences))
