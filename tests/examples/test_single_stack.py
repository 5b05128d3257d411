"""The stack against the equations of the paper in NumPy."""

import jax
import numpy as np
import pytest
from numpy_stack import forward
from random_params import random_params

from flaxformer_mt.data.tokenization.vocabulary import BOS_ID
from flaxformer_mt.model.config import TransformerConfig
from single_stack import SingleStack, next_word_logits
from small_runs import make_rows

SMALL = TransformerConfig(d_model=8, d_ff=12, num_heads=2, num_encoder_layers=1)
SENTENCES = [[4, 9, 5, 9, 7], [8, 6, 3]]


@pytest.mark.parametrize("causal", [False, True])
def test_equals_numpy(causal):
    model = SingleStack(SMALL, vocab_size=10, causal=causal)
    rows = make_rows(SENTENCES)
    params = random_params(model, *make_rows(SENTENCES))
    logits = np.asarray(jax.jit(model.apply)({"params": params}, *rows))
    for row, sentence in enumerate(SENTENCES):
        expected = forward(params, sentence, num_layers=1, causal=causal)
        np.testing.assert_allclose(logits[row, : len(sentence)], expected, atol=2e-4)


def test_a_causal_stack_predicts_each_word_from_the_words_before_it():
    model = SingleStack(SMALL, vocab_size=10, causal=True)
    params = random_params(model, *make_rows(SENTENCES))
    changed = [[4, 9, 5, 3, 3], [8, 6, 5]]
    score = jax.jit(lambda rows: next_word_logits(model, params, rows))
    before, after = (np.asarray(score(make_rows(x))) for x in (SENTENCES, changed))
    different = np.abs(before - after).max(-1) > 1e-6  # [B T]
    assert different.tolist() == [[False] * 4 + [True], [False] * 5]
    expected = forward(params, [BOS_ID, 8, 6], num_layers=1, causal=True)
    np.testing.assert_allclose(before[1, :3], expected, atol=2e-4)
