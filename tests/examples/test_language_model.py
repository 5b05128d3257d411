"""The language model, and noisy-channel reranking."""

import numpy as np
from numpy_stack import forward
from random_params import random_params

import language_model
from flaxformer_mt.data.tokenization.vocabulary import BOS_ID
from flaxformer_mt.data.tokenization.word_vocabulary import WordVocabulary
from single_stack import SingleStack
from small_runs import make_rows, sequence_log_probs

TEXTS = ["der Hund schläft .", "die Katze schläft .", "der Hund und die Katze schlafen ."]
VOCABULARY = WordVocabulary.learn(TEXTS, max_size=50, min_count=1)


def test_log_probabilities_are_a_sum_over_the_words():
    model = SingleStack(language_model.SIZES, VOCABULARY.size, causal=True)
    rows = language_model.encode(VOCABULARY, TEXTS)
    params = random_params(model, *rows)
    found = language_model.language_log_probs(model, params, rows)
    for text, log_prob in zip(TEXTS, found, strict=True):
        tokens, total = VOCABULARY.tokenize(text), 0.0
        for t, token in enumerate(tokens):
            logits = forward(params, [BOS_ID, *tokens[:t]], num_layers=1, causal=True)[-1]
            total += np.log(np.exp(logits[token]) / np.exp(logits).sum())
        assert abs(log_prob - total) < 1e-3


def test_padding_adds_nothing():
    logits = np.random.default_rng(0).normal(size=(1, 4, 5)).astype(np.float32)
    short, long = make_rows([[2, 3]]), make_rows([[2, 3]], length=4)
    a = sequence_log_probs(logits[:, :2], short.tokens, short.segment_ids)
    b = sequence_log_probs(logits, long.tokens, long.segment_ids)
    np.testing.assert_allclose(a, b, rtol=1e-6)


def test_the_choice_maximises_the_weighted_sum():
    candidates = language_model.Candidates(
        [["a", "b", "c"]],
        *(np.array([row]) for row in ([-1.0, -2, -3], [-9, -1, -5], [-4, -9, -1])),
    )
    assert candidates.choose(0, 0) == ["a"]
    assert candidates.choose(1, 0) == ["b"]
    assert candidates.choose(0, 1) == ["c"]
