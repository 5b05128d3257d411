import dataclasses
import json
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest

from flaxformer_mt.data.sources.pair import Pair
from flaxformer_mt.data.tokenization.config import TokenizerConfig
from flaxformer_mt.data.tokenization.tokenizer import LearningText, Tokenizer, build_tokenizer

ENGLISH = "the small cat dog house sees a big green tree under over walking walked talks"
GERMAN = "die kleine Katze Hund Haus sieht ein großer grüner Baum unter über geht ging redet"
SMALL = TokenizerConfig(vocab_size=360)
WORDS = TokenizerConfig(kind="word", shared=False, vocab_size=1000)


def text_of(pairs: list[Pair]) -> LearningText:
    return LearningText(pairs=lambda: pairs)


@pytest.fixture(scope="module")
def corpus() -> LearningText:
    rng, english, german = np.random.default_rng(3), ENGLISH.split(), GERMAN.split()
    draws = [rng.integers(0, len(english), rng.integers(3, 9)) for _ in range(300)]
    pairs = [
        Pair(" ".join(english[i] for i in draw), " ".join(german[i] for i in draw))
        for draw in draws
    ]
    return text_of(pairs)


def names_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_a_shared_vocabulary_is_learnt_from_both_sides(corpus, tmp_path, capfd):
    tokenizer = build_tokenizer(SMALL, corpus, directory=tmp_path)
    assert capfd.readouterr() == ("", "learning the vocabulary of both languages\n")
    assert tokenizer.source is tokenizer.target
    assert tokenizer.shared
    vocabulary = tokenizer.source
    ids = (vocabulary.pad_id, vocabulary.unk_id, vocabulary.bos_id, vocabulary.eos_id)
    assert ids == (0, 1, 2, 3)
    for sentence in corpus.pairs()[0]:
        tokens = vocabulary.tokenize(sentence)
        assert all(token >= 260 for token in tokens[:-1])  # no character had to be spelled in bytes
        assert vocabulary.detokenize(tokens) == sentence
    assert names_in(tmp_path) == ["shared.model", "source.words.txt", "tokenizer.json"]


def test_separate_vocabularies_are_learnt_from_a_side_each(corpus, tmp_path):
    config = dataclasses.replace(SMALL, shared=False)
    tokenizer = build_tokenizer(config, corpus, directory=tmp_path)
    assert not tokenizer.shared
    assert len(tokenizer.source.tokenize("über")) > len(tokenizer.target.tokenize("über"))
    assert len(tokenizer.source.tokenize("walked")) < len(tokenizer.target.tokenize("walked"))
    files = ["source.model", "source.words.txt", "target.model", "tokenizer.json"]
    assert names_in(tmp_path) == files


@pytest.mark.parametrize("model_type", ["unigram", "bpe"])
def test_learning_twice_gives_the_same(corpus, tmp_path, model_type):
    config = dataclasses.replace(SMALL, model_type=model_type, max_lines=50)
    prints = {
        build_tokenizer(config, corpus, directory=tmp_path / name).fingerprint for name in "ab"
    }
    assert len(prints) == 1


@pytest.mark.parametrize("config", [SMALL, dataclasses.replace(SMALL, shared=False), WORDS])
def test_saved_and_loaded_it_is_the_same(corpus, tmp_path, config):
    tokenizer = build_tokenizer(config, corpus, directory=tmp_path / "a")
    tokenizer.save(tmp_path / "b")
    loaded = Tokenizer.load(tmp_path / "b")
    assert loaded.fingerprint == tokenizer.fingerprint
    assert loaded.shared == tokenizer.shared
    for source in (*corpus.pairs()[200:], Pair("猫 xyz", "猫")):
        assert loaded.source.tokenize(source.source) == tokenizer.source.tokenize(source.source)
        assert loaded.target.tokenize(source.target) == tokenizer.target.tokenize(source.target)


def test_the_fingerprint_tells_vocabularies_apart(corpus, tmp_path):
    one = build_tokenizer(dataclasses.replace(SMALL, shared=False), corpus, directory=tmp_path)
    others = [
        Tokenizer(one.target, one.source),
        Tokenizer(one.source, one.source),
        Tokenizer(one.source, build_tokenizer(WORDS, corpus, directory=tmp_path / "w").target),
    ]
    assert len({tokenizer.fingerprint for tokenizer in (one, *others)}) == 4


def test_a_resumed_run_takes_the_tokenizer_of_its_workdir(corpus, tmp_path, rng):
    first = build_tokenizer(SMALL, corpus, directory=tmp_path)
    sampling = dataclasses.replace(SMALL, sampling_alpha=0.1)
    resumed = build_tokenizer(sampling, text_of([Pair("other", "text")]), directory=tmp_path)
    assert resumed.fingerprint == first.fingerprint
    plain = first.source.tokenize("the cat talks")
    assert any(resumed.source.sample("the cat talks", rng.random) != plain for _ in range(20))


def test_a_resumed_run_that_asks_for_another_tokenizer_is_told_so(corpus, tmp_path):
    build_tokenizer(SMALL, corpus, directory=tmp_path)
    other = dataclasses.replace(SMALL, vocab_size=300, source_model="my.model")
    expected = (
        "vocab_size was 360 and is now 300; source_model was '' and is now 'my.model'. Restore"
    )
    with pytest.raises(ValueError, match=expected):
        build_tokenizer(other, corpus, directory=tmp_path)


def test_a_directory_without_its_index_holds_no_tokenizer(corpus, tmp_path):
    tokenizer = build_tokenizer(SMALL, corpus, directory=tmp_path)
    (tmp_path / "tokenizer.json").unlink()  # as if killed before the end of `save`
    with pytest.raises(FileNotFoundError, match=r"tokenizer\.json; .* holds: shared\.model"):
        Tokenizer.load(tmp_path)
    assert build_tokenizer(SMALL, corpus, directory=tmp_path).fingerprint == tokenizer.fingerprint


@pytest.mark.parametrize("content", ["{", "[]", '{"kind": "x", "shared": true, "settings": {}}'])
def test_a_damaged_index_is_reported(tmp_path, content):
    (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(ValueError, match=r"tokenizer\.json is damaged"):
        Tokenizer.load(tmp_path)


def test_a_tokenizer_can_go_to_a_worker_process(corpus, tmp_path):
    tokenizer = build_tokenizer(SMALL, corpus, directory=tmp_path)
    copy = pickle.loads(pickle.dumps(tokenizer))
    assert copy.shared
    assert copy.fingerprint == tokenizer.fingerprint


def test_existing_models_are_used_unchanged(corpus, tmp_path):
    learnt = build_tokenizer(SMALL, corpus, directory=tmp_path / "data")
    config = TokenizerConfig(source_model="shared.model")
    both = build_tokenizer(
        config, corpus, directory=tmp_path / "a", data_directory=tmp_path / "data"
    )
    assert both.shared
    assert both.fingerprint == learnt.fingerprint
    one = dataclasses.replace(SMALL, shared=False, target_model=str(tmp_path / "data/shared.model"))
    tokenizer = build_tokenizer(one, corpus, directory=tmp_path / "b")
    assert tokenizer.target.to_bytes() == learnt.target.to_bytes() != tokenizer.source.to_bytes()
    shutil.rmtree(tmp_path / "data")  # from now on the workdir is enough, ...
    moved = dataclasses.replace(one, target_model="elsewhere.model")  # ... whatever the name
    assert build_tokenizer(moved, corpus, directory=tmp_path / "b").fingerprint == (
        tokenizer.fingerprint
    )


def test_existing_word_files_are_used_unchanged(corpus, tmp_path):
    special = "<PAD>\t1\n<UNK>\t1\n<S>\t1\n</S>\t1\n"
    (tmp_path / "en.tsv").write_text(special + "the\t5\ncat\t3\n")
    config = dataclasses.replace(WORDS, source_vocab="en.tsv")
    tokenizer = build_tokenizer(config, corpus, directory=tmp_path / "w", data_directory=tmp_path)
    assert tokenizer.source.tokenize("the cat talks") == [4, 5, 1, 3]
    assert 1 not in tokenizer.target.tokenize(GERMAN)
    assert names_in(tmp_path / "w") == ["source.vocab.tsv", "target.vocab.tsv", "tokenizer.json"]


def test_missing_and_wrong_vocabulary_files_are_explained(corpus, tmp_path):
    (tmp_path / "words.tsv").write_text("the\t5\n")

    def build(**fields):
        config = TokenizerConfig(**fields)
        build_tokenizer(config, corpus, directory=tmp_path / "t", data_directory=tmp_path)

    with pytest.raises(FileNotFoundError, match=r"my\.model; .* holds: words\.tsv"):
        build(source_model="my.model")
    with pytest.raises(FileNotFoundError, match=r"my\.tsv; .* holds: words\.tsv"):
        build(kind="word", source_vocab="my.tsv")
    with pytest.raises(ValueError, match=r"words\.tsv: not a SentencePiece model"):
        build(source_model="words.tsv")
    assert not (tmp_path / "t").exists()


def test_a_vocabulary_too_small_for_the_characters_is_explained(corpus, tmp_path):
    config = TokenizerConfig(vocab_size=100)
    expected = (
        r"vocab_size=100 is too small .* the 256 bytes of byte_fallback and .* alone are 2\d\d"
    )
    with pytest.raises(ValueError, match=expected):
        build_tokenizer(config, corpus, directory=tmp_path)


@pytest.mark.parametrize("model_type", ["unigram", "bpe"])
def test_little_text_gives_a_small_vocabulary(tmp_path, model_type):
    config = TokenizerConfig(model_type=model_type)
    tokenizer = build_tokenizer(config, text_of([Pair("a cat", "eine Katze")]), directory=tmp_path)
    assert 260 < tokenizer.source.size < 300
    assert tokenizer.source.detokenize(tokenizer.source.tokenize("a cat")) == "a cat"


@pytest.mark.parametrize("pairs", [[], [Pair("", " ")]])
@pytest.mark.parametrize("kind", ["sentencepiece", "word"])
def test_no_text_gives_no_vocabulary(tmp_path, pairs, kind):
    with pytest.raises(ValueError, match="no text to learn the vocabulary from"):
        build_tokenizer(TokenizerConfig(kind=kind), text_of(pairs), directory=tmp_path)


def test_identity_keeps_chinese_punctuation(tmp_path):
    corpus = text_of([Pair("yes, yes", "是，是。")] * 3)
    for config, expected in (
        (TokenizerConfig(normalization="identity"), "是，是。"),
        (TokenizerConfig(normalization="nmt_nfkc"), "是,是。"),
    ):
        target = build_tokenizer(config, corpus, directory=tmp_path / expected).target
        assert target.detokenize(target.tokenize("是，是。")) == expected


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"vocab_size": 4}, "vocab_size must be more than"),
        ({"character_coverage": 0.0}, "character_coverage must be"),
        ({"max_lines": -1}, "max_lines must be"),
        ({"min_count": 0}, "min_count must be"),
        ({"sampling_alpha": 1.0}, "sampling_alpha must be"),
        ({"kind": "word", "sampling_alpha": 0.1}, "needs kind='sentencepiece', got kind='word'"),
        ({"kind": "word", "source_model": "a"}, "source_model='a' does not go with kind='word'"),
        ({"target_vocab": "a"}, "target_vocab='a' does not go with kind='sentencepiece'"),
        ({"source_model": "a", "target_model": "b"}, "two files are given, a and b"),
    ],
)
def test_a_bad_configuration_is_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        TokenizerConfig(**fields)


def test_the_index_says_how_the_tokenizer_was_made(corpus, tmp_path):
    build_tokenizer(WORDS, corpus, directory=tmp_path)
    index = json.loads((tmp_path / "tokenizer.json").read_text())
    assert (index["kind"], index["shared"]) == ("word", False)
    assert index["settings"] == dataclasses.asdict(WORDS)
