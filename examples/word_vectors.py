"""Pretrained word vectors for a word-level model.

    python examples/word_vectors.py

Vectors come from a text file with a word and its numbers on each line (word2vec, GloVe, fastText),
or are learnt here from text alone: the positive pointwise mutual information of words and their
neighbours, reduced by a singular value decomposition (Levy and Goldberg 2014). They replace rows of
the embedding matrix before training. A language model that learns from 300 sentences starts with
random vectors, or with those of 5,700 other sentences.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import jax.numpy as jnp
import numpy as np

from flaxformer_mt.data.tokenization.vocabulary import EOS_ID
from flaxformer_mt.data.tokenization.word_vocabulary import WordVocabulary
from single_stack import fit_language_model, init
from small_runs import show
from variants import Texts, Variant, make_variant, perplexity

Vectors = Mapping[str, np.ndarray]


def read_vectors(path: Path) -> dict[str, np.ndarray]:
    """Returns the vectors of a text file; a first line with count and width is skipped.

    Raises:
      ValueError: a line has no number, or another number of numbers than the line before.
    """
    vectors: dict[str, np.ndarray] = {}
    width = 0
    lines = path.read_text(encoding="utf-8").split("\n")  # other line separators can be words
    for number, line in enumerate(lines, start=1):
        if not line:
            continue
        # A word can contain spaces: once the width is known, the numbers are the last fields.
        word, *numbers = line.rstrip(" \r").rsplit(" ", width or -1)
        if number == 1 and len(numbers) == 1:
            continue
        try:
            vector = np.array(numbers, np.float32)
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: expected a word and numbers") from error
        if not vector.size or (width and vector.size != width):
            raise ValueError(f"{path}, line {number}: {vector.size} numbers, expected {width}")
        vectors[word], width = vector, vector.size
    return vectors


def write_vectors(vectors: Vectors, path: Path) -> None:
    """Writes vectors in the format that `read_vectors` reads."""
    lines = (f"{word} {' '.join(f'{x:.6g}' for x in vector)}\n" for word, vector in vectors.items())
    path.write_text("".join(lines), encoding="utf-8")


def learn_vectors(
    sentences: Sequence[Sequence[int]], vocabulary: WordVocabulary, *, width: int, window: int = 2
) -> dict[str, np.ndarray]:
    """Returns vectors of the words by their neighbours, at most `window` words away."""
    counts = np.zeros((vocabulary.size, vocabulary.size))
    for sentence in sentences:
        for i, word in enumerate(sentence):
            for neighbour in sentence[max(0, i - window) : i]:
                counts[word, neighbour] += 1
                counts[neighbour, word] += 1
    u, s, _ = np.linalg.svd(positive_information(counts), hermitian=True)
    table = u[:, :width] * np.sqrt(s[:width])
    return {vocabulary.pieces[i]: table[i] for i in range(EOS_ID, vocabulary.size)}


def positive_information(counts: np.ndarray) -> np.ndarray:
    """Returns max(0, log p(a, b) / (p(a) p(b))) for each pair of words."""
    total, each = counts.sum(), counts.sum(1)
    expected = np.outer(each, each) / total
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.maximum(0, np.nan_to_num(np.log(counts / expected), neginf=0))


def with_vectors(table: np.ndarray, vocabulary: WordVocabulary, vectors: Vectors) -> np.ndarray:
    """Returns the embedding matrix [V D] with the vectors of known words.

    They are scaled to the standard deviation of the matrix; other rows stay as they are.

    Raises:
      ValueError: the vectors have another width than the matrix.
    """
    table = np.array(table)
    rows = [row for row, word in enumerate(vocabulary.pieces) if word in vectors]
    known = np.array([vectors[vocabulary.pieces[row]] for row in rows])
    if known.size and known.shape[1] != table.shape[1]:
        raise ValueError(
            f"the vectors have width {known.shape[1]}, but the model has d_model {table.shape[1]}"
        )
    if known.size:
        table[rows] = known / known.std() * table.std()
    return table


def main(num_steps: int = 60) -> None:
    """Trains with random and with pretrained vectors, and prints the perplexities."""
    texts = Texts()
    few, many = texts.training.take(slice(0, 300)), texts.training
    sentences = [row[row != 0].tolist() for row in many.tokens[300:]]
    vectors = learn_vectors(sentences, texts.vocabulary, width=32)
    model = make_variant(Variant(), texts.vocabulary.size)
    random = init(model)
    table = with_vectors(random["embedding"]["table"], texts.vocabulary, vectors)
    pretrained = {**random, "embedding": {"table": jnp.asarray(table)}}
    rows = []
    for name, start in (("random vectors", random), ("pretrained vectors", pretrained)):
        params = fit_language_model(model, start, few, num_steps=num_steps)
        rows.append((name, *(perplexity(model, params, text) for text in (few, texts.near))))
    show(("perplexity, 300 sentences", "training", "held-out"), rows)


if __name__ == "__main__":
    main()
