"""Token ids and text of Hugging Face's MarianTokenizer and of our vocabularies."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from marian_directories import OURS, our_model, write_tokenizer

pytest.importorskip("torch", reason="needs the extra [parity]: make test-all")
pytest.importorskip("transformers", reason="needs the extra [parity]: make test-all")

import dataclasses

import hugging_face

from flaxformer_mt.data.tokenization.marian_vocabulary import read_marian_vocabularies
from flaxformer_mt.data.tokenization.tokenizer import Tokenizer
from flaxformer_mt.interop.marian.convert import write_marian

pytestmark = pytest.mark.slow

TEXTS = [
    "the cat",
    "",
    "   ",
    "  the   cat  ",
    "The CAT, (walking): 3 % «a» „b“ … –",
    "Zebra ☃☃ quit 猫",
    "e\u0301 \u200b a\u00a0b ﷽ 👩\u200d👧",
    "tab\tnew\nline\r\x0b\x00null",
    "▁the ▁ cat",
    "a </s> b <pad> <unk> <s> </s>",
    "</s>>>deu<< dog",
    ">>deu<< the cat",
    ">>deu<<the cat",
    ">>xyz<< the cat",
    " >>deu<< the cat",
    ">> the << cat",
    ">>",
    "the >>deu<< cat",
    "die größere Katze geht über",
]
ODD = st.text(alphabet="the cat <>/s▁ö☃\t\u3000猫ｆ", max_size=30)
SETTINGS = {
    "one vocabulary": {},
    "separate": {"separate": True},
    "cut special tokens": {"split_special_tokens": True},
    "clean up": {"clean_up_tokenization_spaces": True},
    "added": {"additional_special_tokens": [">>deu<<"]},
}


@pytest.fixture(scope="module", params=SETTINGS)
def both(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp("tokenizer")
    write_tokenizer(directory, **SETTINGS[request.param])
    return hugging_face.load_tokenizer(directory), read_marian_vocabularies(directory)


def check(theirs, ours, text: str) -> None:
    source, target = ours
    assert source.tokenize(text) == theirs(text)["input_ids"]
    assert target.tokenize(text) == theirs(text_target=text)["input_ids"]


@pytest.mark.parametrize("text", TEXTS)
def test_ids_are_the_same(both, text):
    check(*both, text)


@settings(max_examples=100, deadline=None)
@given(text=ODD)
def test_ids_of_any_text_are_the_same(both, text):
    check(*both, text)


@settings(max_examples=100, deadline=None)
@given(numbers=st.lists(st.integers(1, 10**6), max_size=20))
def test_text_of_any_ids_is_the_same(both, numbers):
    """Up to EOS (id 0), where ours stops."""
    theirs, (_, target) = both
    ids = [1 + number % (target.size - 1) for number in numbers]
    expected = theirs.decode([*ids, 0, target.pad_id], skip_special_tokens=True)
    assert target.detokenize([*ids, 0, 5, 6]) == expected


EXPORTS = {
    "shared, bytes": {"byte_fallback": True, "vocab_size": 330},
    "shared, BPE": {"model_type": "bpe"},
    "separate": {"shared": False},
    "identity, T5's ids": {
        "normalization_rule_name": "identity",
        "pad_id": 0,
        "eos_id": 1,
        "unk_id": 2,
        "bos_id": -1,
    },
}


@pytest.fixture(scope="module", params=EXPORTS)
def exported(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp("export")
    options = EXPORTS[request.param]
    tie = "all" if options.get("shared", True) else "target"
    loaded = our_model(dataclasses.replace(OURS, tie_embeddings=tie), **options)
    write_marian(directory, loaded)
    return hugging_face.load_tokenizer(directory), loaded.tokenizer


def check_exported(theirs, tokenizer: Tokenizer, text: str) -> None:
    for vocabulary, ids in (
        (tokenizer.source, theirs(text)["input_ids"]),
        (tokenizer.target, theirs(text_target=text)["input_ids"]),
    ):
        assert ids == vocabulary.tokenize(text)
    ids = [token for token in tokenizer.target.tokenize(text) if token != tokenizer.target.unk_id]
    text = theirs.decode(ids, skip_special_tokens=True)
    assert " ".join(text.splitlines()) == tokenizer.target.detokenize(ids).strip()


@pytest.mark.parametrize("text", [text for text in TEXTS if not text.startswith(">>")])
def test_our_vocabularies_give_the_same_there(exported, text):
    check_exported(*exported, text)


@settings(max_examples=100, deadline=None)
@given(text=ODD.filter(lambda text: not text.startswith(">>")))
def test_our_vocabularies_give_the_same_there_for_any_text(exported, text):
    check_exported(*exported, text)


def test_the_exceptions_are_those_that_are_documented(exported):
    theirs, tokenizer = exported
    text = ">>xyz<< the cat"
    assert theirs(text)["input_ids"] != tokenizer.source.tokenize(text)
    assert np.count_nonzero(np.equal(theirs(text)["input_ids"], tokenizer.source.unk_id)) == 1
