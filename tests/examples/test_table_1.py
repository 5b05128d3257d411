"""The measurements of table 1 on programs whose cost is known, and the search without a cache."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from random_params import random_params

import table_1
from flaxformer_mt.data.tokenization.vocabulary import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from recurrent import RecurrentTranslator
from small_runs import make_rows


def test_the_longest_chain_of_products():
    a = jnp.ones((2, 2))

    def program(x):
        x, y = a @ x, a @ a  # y is no part of the chain
        for _ in range(2):
            x = jnp.tanh(a @ x)
        return jax.lax.scan(lambda x, _: (a @ (a @ x), None), x, None, length=5)[0] + y

    assert table_1.longest_chain(jax.make_jaxpr(program)(a)) == 3 + 5 * 2


def test_path_lengths_of_known_operations():
    def shift(length, width):
        return lambda x: x + jnp.pad(x[:-1], ((1, 0), (0, 0)))

    assert table_1.path_length(shift, 6) == 5
    assert table_1.path_length(lambda n, d: lambda x: x + x.sum(0), 6) == 1
    with pytest.raises(ValueError, match="does not depend"):
        table_1.path_length(lambda n, d: lambda x: 2 * x, 6)


def test_exponents_of_a_known_program():
    n, d = table_1.exponents(lambda n, d: lambda x: (x @ x.T) @ x)
    assert (n, d) == (pytest.approx(2, abs=0.01), pytest.approx(1, abs=0.01))


def test_restricted_attention_grows_with_n_and_reaches_half_a_window():
    n, d = table_1.exponents(table_1.restricted_layer)
    assert (n, d) == (pytest.approx(1, abs=0.02), pytest.approx(1, abs=0.02))
    assert table_1.path_length(table_1.restricted_layer, 12) == 6  # 11 positions, 2 a layer


def test_a_search_without_a_cache_takes_the_best_word_at_each_step():
    model = RecurrentTranslator(vocab_size=9, width=4)
    source = make_rows([[5, 6, 7], [8, 4]])
    one = jnp.ones((1, 2), jnp.int32)
    params = random_params(model, one, one, one)
    found = table_1.translate_by(model, params, source, 5)
    apply = jax.jit(lambda read: model.apply({"params": params}, *source[::2], read))
    for row in range(2):
        read, expected = [BOS_ID], []
        while len(expected) < 4 and EOS_ID not in expected:
            padded = np.array([read + [0] * (5 - len(read))] * 2, np.int32)
            logits = np.array(apply(padded))[row, len(read) - 1]
            logits[[PAD_ID, UNK_ID, BOS_ID]] = -np.inf
            expected.append(int(logits.argmax()))
            read.append(expected[-1])
        if len(expected) == 4 and EOS_ID not in expected:
            expected.append(EOS_ID)  # the limit
        assert found[row, : len(expected)].tolist() == expected
