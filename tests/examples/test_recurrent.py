"""The recurrent model and a convolution against the equations of their papers, in NumPy."""

import jax
import numpy as np
from random_params import random_params

from convolutional import Convolution, ConvolutionalTranslator
from flaxformer_mt.data.tokenization.vocabulary import BOS_ID
from recurrent import RecurrentTranslator

SOURCE = np.array([[5, 6, 7, 0], [7, 4, 5, 6]], np.int32)
SEGMENTS = np.minimum(SOURCE, 1)
READ = np.array([[BOS_ID, 5, 6], [BOS_ID, 7, 5]], np.int32)


def exact(tree):
    return jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), tree)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def dense(params, x):
    return x @ params["kernel"] + params.get("bias", 0)


def gru(params, state, x):
    r, z, n = np.split(dense(params["of_input"], x), 3, -1)
    from_r, from_z = np.split(dense(params["gates_of_state"], state), 2, -1)
    r, z = sigmoid(r + from_r), sigmoid(z + from_z)
    return (1 - z) * np.tanh(n + dense(params["new_of_state"], r * state)) + z * state


def test_the_recurrent_translator_word_by_word():
    model = RecurrentTranslator(vocab_size=9, width=4)
    params = random_params(model, SOURCE, SEGMENTS, READ)
    run = jax.jit(
        lambda: model.apply({"params": params}, SOURCE, SEGMENTS, READ, with_weights=True)
    )
    logits, weights = run()
    p = exact(params)
    table = p["embedding"]["embedding"]
    for row, length in enumerate((3, 4)):
        x = table[SOURCE[row, :length]]
        there, back = np.zeros((length + 1, 4)), np.zeros((length + 1, 4))
        for j in range(length):
            there[j + 1] = gru(p["forwards"], there[j], x[j])
        for j in reversed(range(length)):
            back[j] = gru(p["backwards"], back[j + 1], x[j])
        memory = np.concatenate([there[1:], back[:-1]], axis=1)
        state = np.tanh(dense(p["first_state"], back[0]))
        for t, word in enumerate(table[READ[row]]):
            decoder = p["decoder"]
            hidden = dense(decoder["of_state"], state) + dense(p["of_memory"], memory)
            e = dense(decoder["vector"], np.tanh(hidden))[:, 0]
            alpha = np.exp(e) / np.exp(e).sum()
            context = alpha @ memory
            state = gru(decoder["gru"], state, np.concatenate([word, context]))
            features = np.tanh(np.concatenate([state, context, word]))
            np.testing.assert_allclose(weights[row, t, :length], alpha, atol=1e-5)
            np.testing.assert_allclose(logits[row, t], dense(p["output"], features), atol=1e-4)
    assert np.abs(weights[0, :, 3]).max() == 0  # padding


def test_a_convolution_with_a_gate():
    x = np.random.default_rng(0).normal(size=(1, 5, 2)).astype(np.float32)
    for causal in (False, True):
        module = Convolution(2, 3, causal)
        params = random_params(module, x)
        found = np.asarray(module.apply({"params": params}, x))[0]
        p = exact(params)["Dense_0"]
        for t in range(5):
            first = t - 2 if causal else t - 1
            near = [x[0, i] if 0 <= i < 5 else np.zeros(2) for i in range(first, first + 3)]
            a, b = np.split(dense(p, np.concatenate(near)), 2)
            np.testing.assert_allclose(found[t], a * sigmoid(b), atol=1e-5)


def test_the_convolutional_translator_hides_padding_and_later_words():
    model = ConvolutionalTranslator(vocab_size=9, width=4, num_layers=2)
    params = random_params(model, SOURCE, SEGMENTS, READ)
    apply = jax.jit(lambda source, read: model.apply({"params": params}, source, SEGMENTS, read))
    logits = apply(SOURCE, READ)
    later = READ.copy()
    later[:, 2] = 8
    np.testing.assert_allclose(apply(SOURCE, later)[:, :2], logits[:, :2], atol=1e-6)
    assert np.abs(apply(SOURCE, later)[:, 2] - logits[:, 2]).max() > 1e-3
    padding, word = SOURCE.copy(), SOURCE.copy()
    padding[0, 3], word[0, 2] = 8, 8
    np.testing.assert_allclose(apply(padding, READ)[0], logits[0], atol=1e-6)
    assert np.abs(apply(word, READ)[0] - logits[0]).max() > 1e-3
