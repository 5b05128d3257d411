"""Tags of an encoder alone."""

from collections import Counter

import jax
import numpy as np
import pytest
from random_params import random_params

import pos_tagging
from flaxformer_mt.model.config import TransformerConfig
from single_stack import SingleStack

SENTENCES = pos_tagging.make_sentences(300, seed=1)


def test_every_sentence_follows_the_grammar():
    for sentence in SENTENCES:
        for word, tag in sentence:
            assert word in pos_tagging.LEXICON[tag].split()
    assert any(Counter(word for word, _ in sentence)["saw"] == 2 for sentence in SENTENCES)


def test_the_baseline_is_the_most_frequent_tag():
    found = pos_tagging.most_frequent_tags(SENTENCES)
    pairs = [pair for sentence in SENTENCES for pair in sentence]
    for word, tag in found.items():
        assert pairs.count((word, tag)) == max(
            pairs.count((word, other)) for other in pos_tagging.TAGS
        )


def test_accuracies_count_words_ambiguous_words_and_sentences():
    truth = [[("I", "PRP"), ("saw", "VBD")], [("a", "DT"), ("dog", "NN")]]
    found = [["PRP", "NN"], ["DT", "NN"]]
    assert pos_tagging.accuracies(found, truth) == (75.0, 0.0, 50.0)


@pytest.mark.parametrize("positions", ["none", "sinusoidal"])
def test_only_positions_tell_two_equal_words_apart(positions):
    config = TransformerConfig(
        d_model=8, d_ff=8, num_heads=2, num_encoder_layers=1, positions=positions
    )
    model = SingleStack(config, len(pos_tagging.WORDS) + 1, num_outputs=len(pos_tagging.TAGS))
    rows = pos_tagging.encode([["I", "saw", "a", "saw"]])
    params = random_params(model, *rows)
    logits = np.asarray(jax.jit(model.apply)({"params": params}, *rows))[0]
    assert np.allclose(logits[1], logits[3], atol=1e-6) == (positions == "none")
    assert not np.allclose(logits[1], logits[2], atol=1e-3)


@pytest.mark.slow
@pytest.mark.default_compiler
def test_an_encoder_learns_what_the_baseline_cannot():
    tagger = pos_tagging.train(SENTENCES, positions="sinusoidal", num_steps=60)
    texts = [[word for word, _ in sentence] for sentence in SENTENCES]
    baseline = pos_tagging.most_frequent_tags(SENTENCES)
    by_word = [[baseline[word] for word in text] for text in texts]
    _, ambiguous, _ = pos_tagging.accuracies(tagger(texts), SENTENCES)
    assert ambiguous > pos_tagging.accuracies(by_word, SENTENCES)[1] + 10
