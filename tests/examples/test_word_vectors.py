"""Word vectors: the file, the statistics by hand, and the embedding matrix."""

import math

import numpy as np
import pytest

import word_vectors
from flaxformer_mt.data.tokenization.word_vocabulary import WordVocabulary

VOCABULARY = WordVocabulary.learn(["a b c", "a b", "a"], max_size=10, min_count=1)


def test_a_file_is_read_as_it_was_written(tmp_path):
    path = tmp_path / "vectors.txt"
    vectors = {"a": np.array([1.5, -2]), "Straße": np.array([0.25, 3])}
    word_vectors.write_vectors(vectors, path)
    path.write_text("2 2\n" + path.read_text())  # as word2vec
    found = word_vectors.read_vectors(path)
    assert found.keys() == vectors.keys()
    for word, vector in vectors.items():
        np.testing.assert_array_equal(found[word], vector)


def test_a_word_can_contain_spaces_and_other_line_separators(tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text("a 1 2\n\x85 0.5 1\n. . . 3 4\n", encoding="utf-8")
    assert {word: list(x) for word, x in word_vectors.read_vectors(path).items()} == {
        "a": [1, 2],
        "\x85": [0.5, 1],
        ". . .": [3, 4],
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [("a 1 2\nb 1\n", "line 2: 1 numbers, expected 2"), ("a 1 x\n", "line 1: expected a word")],
)
def test_a_bad_line_is_named(tmp_path, text, message):
    path = tmp_path / "vectors.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        word_vectors.read_vectors(path)


def test_information_by_hand():
    counts = np.array([[0.0, 3, 1], [3, 0, 0], [1, 0, 0]])
    found = word_vectors.positive_information(counts)
    assert found[0, 1] == pytest.approx(math.log((3 / 8) / ((4 / 8) * (3 / 8))))
    assert found[1, 2] == 0


def test_words_with_the_same_neighbours_have_the_same_vector():
    vocabulary = WordVocabulary.learn(["the dog cat sleeps runs"], max_size=20, min_count=1)
    texts = ["the dog sleeps", "the cat sleeps", "the dog runs", "the cat runs"]
    vectors = word_vectors.learn_vectors(list(map(vocabulary.tokenize, texts)), vocabulary, width=4)
    np.testing.assert_allclose(vectors["dog"], vectors["cat"], atol=1e-6)
    assert np.abs(vectors["dog"] - vectors["runs"]).max() > 0.1


def test_only_known_words_get_a_vector():
    table = np.random.default_rng(0).normal(size=(VOCABULARY.size, 2), scale=0.3)
    vectors = {"b": np.array([10.0, -10]), "c": np.array([0, 20.0]), "elsewhere": np.zeros(2)}
    found = word_vectors.with_vectors(table, VOCABULARY, vectors)
    b, c = (VOCABULARY.pieces.index(word) for word in "bc")
    others = [row for row in range(VOCABULARY.size) if row not in (b, c)]
    np.testing.assert_array_equal(found[others], table[others])
    np.testing.assert_allclose(found[b] * 2, [found[c, 1], -found[c, 1]])
    assert found[[b, c]].std() == pytest.approx(table.std())
    with pytest.raises(ValueError, match="width 3, but the model has d_model 2"):
        word_vectors.with_vectors(table, VOCABULARY, {"a": np.zeros(3)})
