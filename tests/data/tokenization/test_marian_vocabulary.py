"""The vocabularies of Marian models. tests/parity compares them with `transformers`."""

import dataclasses
import json
import pickle

import numpy as np
import pytest
from marian_directories import LANGUAGE, tokenizer_files, write_tokenizer

from flaxformer_mt.data.tokenization.config import TokenizerConfig
from flaxformer_mt.data.tokenization.marian_vocabulary import (
    MarianVocabulary,
    read_marian_vocabularies,
)
from flaxformer_mt.data.tokenization.tokenizer import LearningText, Tokenizer, build_tokenizer
from flaxformer_mt.translation.segments import tag_lines

NOTHING = LearningText(pairs=lambda: [])


@pytest.fixture
def source() -> MarianVocabulary:
    return MarianVocabulary(tokenizer_files(), "source")


def test_ids_are_those_of_the_json_and_pieces_those_of_the_model(source):
    ids = json.loads(tokenizer_files()["vocab.json"])
    assert source.tokenize("the cat") == [ids["▁the"], ids["▁cat"], 0]
    assert (source.eos_id, source.unk_id) == (0, 1)
    assert source.pad_id == source.bos_id == source.size - 1 == len(ids) - 1
    assert source.pieces[ids["▁cat"]] == "▁cat" and len(source.pieces) == source.size
    assert source.detokenize(source.tokenize("the cat")) == "the cat"


def test_a_piece_that_the_json_lacks_is_unknown_and_not_in_the_text(source):
    ids = source.tokenize("the ☃ cat")
    assert ids.count(source.unk_id) == 1
    assert source.detokenize(ids) == "the  cat"


def test_a_language_is_one_token_at_the_beginning_alone(source):
    language = source.pieces.index(LANGUAGE)
    assert source.tokenize(f"{LANGUAGE} the cat") == [language, *source.tokenize("the cat")]
    assert source.tokenize(">>xyz<< the cat") == [1, *source.tokenize("the cat")]
    assert language not in source.tokenize(f"the {LANGUAGE} cat")


def test_the_languages_of_the_json_are_optional(tmp_path):
    write_tokenizer(tmp_path / "model")
    config = TokenizerConfig(kind="marian", source_model="model")
    options = {"directory": tmp_path / "workdir", "data_directory": tmp_path}
    build_tokenizer(config, NOTHING, **options)
    tokenizer = Tokenizer.load(tmp_path / "workdir")
    assert tokenizer.languages == ("deu",) and not tokenizer.needs_tag
    assert tag_lines(["the cat", f"{LANGUAGE} a"], tokenizer, None) == ["the cat", f"{LANGUAGE} a"]
    assert tag_lines(["the cat"], tokenizer, "deu") == [f"{LANGUAGE} the cat"]
    with pytest.raises(ValueError, match="does not know the target language 'fra'; it knows: deu"):
        tag_lines(["the cat"], tokenizer, "fra")


def test_text_that_spells_a_special_token_gets_it_unless_the_settings_say_no(source):
    cut = MarianVocabulary(tokenizer_files(split_special_tokens=True), "source")
    text = "the </s> cat <pad>"
    assert [source.tokenize(text).count(token) for token in (0, source.pad_id)] == [2, 1]
    assert [cut.tokenize(text).count(token) for token in (0, cut.pad_id)] == [1, 0]


def test_text_ends_at_the_first_end_and_has_no_special_tokens(source):
    cat, dog = source.tokenize("cat")[:-1], source.tokenize("dog")[:-1]
    ids = [source.bos_id, *cat, source.pad_id, source.eos_id, *dog]
    assert source.detokenize(np.array(ids, np.int32)) == "cat"
    assert source.detokenize([]) == ""


def test_the_second_vocabulary_of_separate_ones_is_the_target(tmp_path):
    write_tokenizer(tmp_path, separate=True)
    source, target = read_marian_vocabularies(tmp_path)
    assert "▁die" in target.pieces and "▁die" not in source.pieces
    assert target.detokenize(target.tokenize("die Katze")) == "die Katze"
    (tmp_path / "target_vocab.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"target_vocab\.json; .* holds: source\.spm"):
        read_marian_vocabularies(tmp_path)


def test_added_tokens_are_whole_and_special_ones_silent():
    files = tokenizer_files()
    ids = json.loads(files["vocab.json"])
    piece = "▁green"
    entry = {"content": piece, "special": True}
    one = MarianVocabulary(tokenizer_files(added_tokens_decoder={str(ids[piece]): entry}), "source")
    assert one.tokenize(f"the{piece}cat") == [ids["▁the"], ids[piece], ids["▁cat"], 0]
    assert one.detokenize([ids[piece], ids["▁cat"]]) == "cat"
    entry["lstrip"] = True
    with pytest.raises(ValueError, match=r"'▁green' with lstrip, rstrip or single_word"):
        MarianVocabulary(tokenizer_files(added_tokens_decoder={"5": entry}), "source")


def test_saved_loaded_and_pickled_it_is_the_same(tmp_path):
    for separate in (False, True):
        write_tokenizer(tmp_path / "a", separate=separate)
        tokenizer = Tokenizer(*read_marian_vocabularies(tmp_path / "a", bos_id=5), {"kind": "x"})
        tokenizer.save(tmp_path / "b")
        loaded = Tokenizer.load(tmp_path / "b")
        assert loaded.settings == {"kind": "x"}
        for name in tokenizer_files(separate=separate):
            assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
        for copy in (loaded, pickle.loads(pickle.dumps(tokenizer))):
            assert copy.fingerprint == tokenizer.fingerprint
            assert copy.target.bos_id == 5
            assert copy.target.tokenize("die Katze") == tokenizer.target.tokenize("die Katze")
    other = Tokenizer(*read_marian_vocabularies(tmp_path / "a", bos_id=6))
    assert other.fingerprint != tokenizer.fingerprint


def test_a_run_takes_it_from_a_directory_and_keeps_it(tmp_path):
    write_tokenizer(tmp_path / "opus")
    config = TokenizerConfig(kind="marian", source_model="opus")
    first = build_tokenizer(config, NOTHING, directory=tmp_path / "run", data_directory=tmp_path)
    again = build_tokenizer(
        dataclasses.replace(config, source_model="moved"), NOTHING, directory=tmp_path / "run"
    )
    assert first.fingerprint == again.fingerprint
    with pytest.raises(ValueError, match="'marian' needs existing vocabularies: set source_model"):
        build_tokenizer(TokenizerConfig(kind="marian"), NOTHING, directory=tmp_path / "new")
    with pytest.raises(ValueError, match="target_model='a' does not go with kind='marian'"):
        TokenizerConfig(kind="marian", target_model="a")
    with pytest.raises(ValueError, match="sampling_alpha needs kind='sentencepiece', got kind='m"):
        TokenizerConfig(kind="marian", source_model="opus", sampling_alpha=0.2)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("vocab.json", b"{", r"vocab\.json is no JSON"),
        ("vocab.json", b"[]", r"vocab\.json: expected a JSON object, got list"),
        ("vocab.json", b'{"a": "b"}', r"expected an object of \{piece: id\}"),
        ("vocab.json", b'{"</s>": 0, "<unk>": 1, "<pad>": 3}', "no piece has the id 2"),
        ("vocab.json", b'{"</s>": 0, "<unk>": 1}', "lacks the special token '<pad>'"),
        ("source.spm", b"no model", r"source\.spm is not a SentencePiece model"),
        ("tokenizer_config.json", b'{"eos_token": {"content": "END"}}', "special token 'END'"),
    ],
)
def test_damaged_files_are_named(tmp_path, name, content, message):
    write_tokenizer(tmp_path)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_marian_vocabularies(tmp_path)


@pytest.mark.parametrize("name", ["source.spm", "target.spm", "vocab.json"])
def test_missing_files_are_named(tmp_path, name):
    write_tokenizer(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(FileNotFoundError, match=name.replace(".", r"\.")):
        read_marian_vocabularies(tmp_path)
