import io
import os
import pickle
import signal
import threading
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

from flaxformer_mt.data.tokenization.config import TokenizerConfig
from flaxformer_mt.data.tokenization.sentencepiece_vocabulary import SentencePieceVocabulary
from flaxformer_mt.data.tokenization.word_vocabulary import WordVocabulary

TEXT = "the small cat dog house sees a big green tree under over walking walked talks"
OURS = {"pad_id": 0, "unk_id": 1, "bos_id": 2, "eos_id": 3}
SPECIAL = [("<PAD>", 9), ("<UNK>", 9), ("<S>", 9), ("</S>", 9)]


@cache
def lines() -> tuple[str, ...]:
    rng = np.random.default_rng(5)
    return tuple(" ".join(rng.choice(TEXT.split(), rng.integers(3, 9))) for _ in range(400))


@cache
def model(model_type="unigram", byte_fallback=True, **options) -> bytes:
    """Returns a SentencePiece model with settings that other projects use."""
    file = io.BytesIO()
    settings_of_model: Any = OURS | options
    SentencePieceTrainer.train(
        sentence_iterator=iter(lines()),
        model_writer=file,
        model_type=model_type,
        vocab_size=340 if byte_fallback else 70,
        byte_fallback=byte_fallback,
        hard_vocab_limit=False,
        minloglevel=2,
        **settings_of_model,
    )
    return file.getvalue()


def pieces_of(vocabulary: SentencePieceVocabulary, ids: list[int]) -> list[str]:
    processor = SentencePieceProcessor(model_proto=vocabulary.to_bytes())
    return [processor.id_to_piece(token) for token in ids]


@pytest.mark.parametrize("model_type", ["unigram", "bpe"])
def test_pieces_and_back(model_type):
    vocabulary = SentencePieceVocabulary(model(model_type))
    ids = vocabulary.tokenize("the cat walks")
    assert pieces_of(vocabulary, ids)[-1] == "</s>"
    assert vocabulary.bos_id not in ids
    assert vocabulary.detokenize(ids) == "the cat walks"
    assert vocabulary.tokenize("") == [vocabulary.eos_id]
    assert vocabulary.detokenize([]) == ""


def test_detokenize_stops_at_the_first_end_and_drops_special_tokens():
    vocabulary = SentencePieceVocabulary(model())
    cat, dog = (vocabulary.tokenize(word)[:-1] for word in ("cat", "dog"))
    ids = [vocabulary.bos_id, *cat, vocabulary.pad_id, vocabulary.eos_id, *dog, vocabulary.eos_id]
    assert vocabulary.detokenize(ids) == "cat"
    assert vocabulary.detokenize(np.array(cat, np.int32)) == "cat"


def test_with_bytes_nothing_is_unknown():
    vocabulary = SentencePieceVocabulary(model())
    ids = vocabulary.tokenize("the 猫 🐈 sees")
    assert vocabulary.unk_id not in ids
    assert vocabulary.detokenize(ids) == "the 猫 🐈 sees"
    without_bytes = SentencePieceVocabulary(model(byte_fallback=False))
    assert without_bytes.unk_id in without_bytes.tokenize("the 猫 sees")


def test_text_that_spells_a_special_token_does_not_get_it():
    vocabulary = SentencePieceVocabulary(model())
    ids = vocabulary.tokenize("the </s> <s> <pad> <unk> cat")
    assert [ids.count(special) for special in OURS.values()] == [0, 0, 0, 1]
    assert vocabulary.detokenize(ids) == "the </s> <s> <pad> <unk> cat"


def test_an_error_of_the_text_is_not_one_of_the_vocabulary():
    def lines():
        yield from ["the dog sleeps"] * 100
        raise OSError("a process that prepares text was killed")

    with pytest.raises(OSError, match="^a process that prepares text was killed$"):
        SentencePieceVocabulary.learn(lines(), TokenizerConfig(vocab_size=300))


def test_an_interruption_does_not_wait_until_the_vocabulary_is_learnt():
    ended = threading.Event()

    def lines():
        yield from ["the dog sleeps"] * 100
        os.kill(os.getpid(), signal.SIGINT)
        assert ended.wait(60), "the main thread did not answer"

    with pytest.raises(KeyboardInterrupt):
        SentencePieceVocabulary.learn(lines(), TokenizerConfig(vocab_size=300))
    ended.set()


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 339)))
@example([14])  # the byte of "\n"
@example([4 + byte for byte in "a\u2028b\r\nc\x85\x0bd".encode()])
def test_detokenized_text_is_one_line(ids):
    vocabulary = SentencePieceVocabulary(model())
    text = vocabulary.detokenize(token for token in ids if token < vocabulary.size)
    assert len(text.splitlines()) <= 1
    assert "\n" not in text


def test_breaks_spelled_in_bytes_become_spaces():
    vocabulary = SentencePieceVocabulary(model())
    assert vocabulary.detokenize([4 + byte for byte in "a\nb\u2028c".encode()]) == "a b c"


def test_a_model_keeps_its_ids_and_missing_special_tokens_follow_them():
    t5 = SentencePieceVocabulary(model(pad_id=0, eos_id=1, unk_id=2, bos_id=-1))
    size = SentencePieceProcessor(model_proto=t5.to_bytes()).get_piece_size()
    assert (t5.pad_id, t5.eos_id, t5.unk_id, t5.bos_id, t5.size) == (0, 1, 2, size, size + 1)
    bare = SentencePieceVocabulary(model(pad_id=-1, eos_id=-1, unk_id=0, bos_id=-1))
    assert {bare.pad_id, bare.bos_id, bare.eos_id} == {bare.size - 3, bare.size - 2, bare.size - 1}
    ids = bare.tokenize("the cat")
    assert ids[-1] == bare.eos_id
    assert bare.detokenize([bare.bos_id, *ids, bare.pad_id]) == "the cat"


@pytest.mark.parametrize("content", [b"", b"the\t5\n"])
def test_other_files_are_no_model(content):
    with pytest.raises(ValueError, match="not a SentencePiece model"):
        SentencePieceVocabulary(content)


SAMPLED = [("unigram", 0.2), ("bpe", 0.3)]


@pytest.mark.parametrize(("model_type", "alpha"), SAMPLED)
def test_a_sample_depends_on_text_and_generator_alone(model_type, alpha):
    vocabulary = SentencePieceVocabulary(model(model_type), alpha)
    first = [
        vocabulary.sample(line, np.random.default_rng(i).random) for i, line in enumerate(lines())
    ]
    worker = pickle.loads(pickle.dumps(vocabulary))
    for i in reversed(range(len(lines()))):
        assert worker.sample(lines()[i], np.random.default_rng(i).random) == first[i]
    plain = [vocabulary.tokenize(line) for line in lines()]
    assert sum(map(len, first)) > 1.2 * sum(map(len, plain))
    assert [vocabulary.detokenize(ids) for ids in first] == list(lines())


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"model_type": "bpe"},
        {"byte_fallback": False},
        {"model_type": "bpe", "byte_fallback": False},
        {"split_by_whitespace": False, "byte_fallback": False},  # pieces such as "the▁cat"
        {"split_by_whitespace": False, "model_type": "bpe"},
    ],
)
def test_without_randomness_the_pieces_are_those_of_sentencepiece(options, rng):
    harmless = 1e-12 if options.get("model_type") == "bpe" else 1e6
    vocabulary = SentencePieceVocabulary(model(**options), harmless)
    for line in (*lines(), "", " two  spaces ", "the 猫猫 sees 猫a", "x" * 50, "ＡＢＣ…", "▁a▁"):
        sampled, plain = vocabulary.sample(line, rng.random), vocabulary.tokenize(line)
        # Equal pieces, perhaps in another order: "green green" has equally good segmentations.
        assert sorted(sampled) == sorted(plain), line
        assert vocabulary.detokenize(sampled) == vocabulary.detokenize(plain), line


def test_sampling_off_is_tokenize(rng):
    vocabulary = SentencePieceVocabulary(model())
    assert vocabulary.sample("the cat", rng.random) == vocabulary.tokenize("the cat")


def test_models_without_sampling_are_refused(rng):
    with pytest.raises(ValueError, match="type unigram or BPE.*Set sampling_alpha to 0"):
        SentencePieceVocabulary(model("char"), 0.1).sample("the cat", rng.random)
    with pytest.raises(ValueError, match="user-defined symbols such as '<sep>'"):
        SentencePieceVocabulary(model(user_defined_symbols="<sep>"), 0.1).sample(
            "the cat", rng.random
        )


def word_file(directory, content: str):
    path = directory / "words.tsv"
    path.write_text(content, encoding="utf-8")
    return path


def rows(*words: str) -> list[tuple[str, int]]:
    return SPECIAL + [(word, 1) for word in words]


def test_words_and_back(tmp_path):
    content = "".join(f"{word}\t{count}\n" for word, count in rows("the", "cat", "猫"))
    vocabulary = WordVocabulary.read(word_file(tmp_path, content))
    assert vocabulary.size == 7
    assert vocabulary.tokenize("  the 猫\tsees the cat") == [4, 6, 1, 4, 5, 3]
    assert vocabulary.detokenize([2, 4, 6, 1, 0, 5, 3, 4, 3]) == "the 猫 <unk> cat"
    assert vocabulary.sample("the", np.random.default_rng().random) == [4, 3]
    assert vocabulary.to_bytes().decode() == content


def test_a_word_that_spells_a_special_token_is_unknown():
    assert WordVocabulary(rows("the")).tokenize("</S> <PAD> <S> <UNK> the") == [1, 1, 1, 1, 4, 3]


def test_a_word_with_a_line_separator_inside_is_detokenized_to_one_line():
    assert WordVocabulary(rows("a\x1cb\u2028c")).detokenize([4, 3]) == "a b c"


@pytest.mark.parametrize(
    ("lines_of_file", "message"),
    [
        (["the\t5", "cat\t3", "dog\t2", "a\t1", "b\t1"], "line 1: the first four rows must be"),
        (["<PAD>\t1", "<UNK>\t1", "的\t1", "</S>\t1"], "line 3: the first four rows must be"),
        (["<PAD>\t1", "<UNK>\t1"], "only 2"),
        ([f"{w}\t1" for w, _ in rows("a", "b", "a")], "rows 5 and 7 both hold 'a'"),
        ([f"{w}\t1" for w, _ in rows("a", "", "b")], "row 6 holds no word"),
        ([*(f"{w}\t1" for w, _ in SPECIAL), "a\t1", "", "b\t1"], "line 6: expected word<TAB>count"),
        ([*(f"{w}\t1" for w, _ in SPECIAL), "cat"], "line 5: expected word<TAB>count, got 'cat'"),
        ([*(f"{w}\t1" for w, _ in SPECIAL), "cat\tx"], "line 5: expected word<TAB>count"),
    ],
)
def test_a_bad_word_file_is_explained(tmp_path, lines_of_file, message):
    with pytest.raises(ValueError, match=rf"words\.tsv.*{message}"):
        WordVocabulary.read(word_file(tmp_path, "\n".join(lines_of_file)))


def test_words_are_learnt_by_frequency_and_then_alphabet():
    text = ["b b b a a </s>", "a d c c </s>", "", "d e"]
    learnt = WordVocabulary.learn(text, max_size=99, min_count=2)
    expected = "<pad>\t0\n<unk>\t0\n<s>\t0\n</s>\t0\na\t3\nb\t3\nc\t2\nd\t2\n"
    assert learnt.to_bytes().decode() == expected
    assert WordVocabulary.learn(text, max_size=6, min_count=1).tokenize("a b c") == [4, 5, 1, 3]
    assert WordVocabulary.learn(text, max_size=99, min_count=1).size == 9


def test_long_lines_are_learnt_from():
    """SentencePiece omits lines of more than 4192 bytes by default."""
    long = "ab " * 2000 + "\u732b"
    config = TokenizerConfig(vocab_size=20, byte_fallback=False)
    made = SentencePieceVocabulary.learn([long, "ab"], config)
    assert made.unk_id not in made.tokenize("\u732b")
