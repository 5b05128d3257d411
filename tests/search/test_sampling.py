"""Samples against the probabilities of toy models."""

import functools
from collections import Counter

import jax.numpy as jnp
import numpy as np
import pytest
from toy_models import EOS, all_hypotheses, log_softmax, random_tables, search, sentences

from flaxformer_mt.search.sampling import Sampler, WithoutReplacement

LIMIT = 3
NUM_SAMPLES = 4000


def sampler(rows: int, seed: int = 0, **given) -> Sampler:
    seeds = jnp.arange(rows, dtype=jnp.uint32) + jnp.uint32(seed)
    temperature = jnp.float32(given.pop("temperature", 1.0))
    return Sampler(seeds, temperature, **given)


def probabilities(table: np.ndarray, temperature: float = 1.0) -> dict[tuple[int, ...], float]:
    """Returns the probability of every sentence, with the search's limit and suppressed tokens."""
    allowed = table.astype(np.float64) / temperature
    allowed[:, :EOS] = -1e9
    log_probs = log_softmax(allowed)
    found = {}
    for tokens in all_hypotheses(table.shape[-1], LIMIT):
        total, prefix = 0.0, 0
        for place, token in enumerate(tokens):
            total += log_probs[prefix, token] if place < LIMIT - 1 else 0.0  # then it must be EOS
            prefix = (prefix * 7 + token) % len(table)
        found[tokens] = np.exp(total)
    assert sum(found.values()) == pytest.approx(1)
    return found


def check_frequencies(samples, expected, number) -> None:
    """Asserts that each count is within 4.5 standard deviations."""
    counts = Counter(samples)
    assert set(counts) <= set(expected)
    for what, probability in expected.items():
        spread = 4.5 * np.sqrt(number * probability * (1 - probability)) + 1
        assert abs(counts[what] - number * probability) < spread, what


@pytest.mark.parametrize("temperature", [1.0, 0.5, 2.0])
def test_sentences_are_sampled_with_their_probabilities(temperature):
    table = random_tables(5, 1)
    tables = np.repeat(table, 8, axis=0)
    choose = sampler(8, temperature=temperature)
    number = NUM_SAMPLES // 8
    found = search(tables, [LIMIT] * 8, num_hypotheses=number, sentence_options={"choose": choose})
    samples = [tokens for row in range(8) for tokens in sentences(found, row)]
    assert len(samples) == NUM_SAMPLES
    check_frequencies(samples, probabilities(table[0], temperature), NUM_SAMPLES)


def test_top_k_and_top_p_keep_the_most_probable(rng):
    scores = jnp.asarray(rng.normal(size=(2, 3, 50)), jnp.float32)
    log_probs = log_softmax(np.asarray(scores))
    for top_k in (1, 7, 49, 50, 60):
        left = np.asarray(sampler(2, top_k=top_k).adjusted_log_probs(scores)) > -np.inf
        rank = (log_probs[..., None, :] > log_probs[..., None]).sum(-1)
        np.testing.assert_array_equal(left, rank < top_k)
    for top_p in (1e-6, 0.3, 0.9, 0.999999):
        tempered = np.asarray(sampler(2, top_p=jnp.float32(top_p)).adjusted_log_probs(scores))
        for row, of_row in zip(log_probs.reshape(-1, 50), tempered.reshape(-1, 50), strict=True):
            order = np.argsort(-row)
            number = int(np.searchsorted(np.cumsum(np.exp(row[order])), top_p)) + 1
            assert set(np.flatnonzero(of_row > -np.inf)) == set(order[:number])
        np.testing.assert_allclose(np.exp(tempered).sum(-1), 1, rtol=1e-5)


def test_sampling_from_one_token_is_greedy_search():
    tables = random_tables(6, 5)
    expected = search(tables, [9] * 5)
    found = search(tables, [9] * 5, sentence_options={"choose": sampler(5, top_k=1)})
    np.testing.assert_array_equal(found.tokens, expected.tokens)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-5)


def test_samples_depend_on_the_seed_of_the_sentence_only():
    tables = random_tables(7, 4)
    seeds = jnp.array([3, 1, 4, 1], jnp.uint32)
    order = np.array([2, 0, 3, 1])
    sample = functools.partial(search, num_hypotheses=5)
    found = sample(tables, [9] * 4, sentence_options={"choose": Sampler(seeds, jnp.float32(1))})
    moved = sample(
        tables[order], [9] * 4, sentence_options={"choose": Sampler(seeds[order], jnp.float32(1))}
    )
    np.testing.assert_array_equal(found.tokens[order], moved.tokens)
    other = sample(tables, [9] * 4, sentence_options={"choose": Sampler(seeds + 1, jnp.float32(1))})
    assert (found.tokens != other.tokens).any()


def test_as_many_samples_without_replacement_as_sentences_are_all_sentences():
    tables = random_tables(8, 3)
    selection = WithoutReplacement(sampler(3))
    found = search(
        tables, [4] * 3, beam_size=16, num_hypotheses=16, sentence_options={"selection": selection}
    )
    for row in range(3):
        assert sorted(sentences(found, row)) == sorted(all_hypotheses(6, 4))


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_samples_without_replacement_have_the_right_probabilities(temperature):
    """Of ordered pairs: p(first) * p(second) / (1 - p(first)).

    With more beginnings than hypotheses, so that noise that forgot its prefix would show.
    """
    number = 6000
    table = random_tables(9, 1, vocab_size=9)
    tables = np.repeat(table, number, axis=0)
    selection = WithoutReplacement(sampler(number, seed=77, temperature=temperature))
    found = search(
        tables,
        [LIMIT] * number,
        beam_size=2,
        num_hypotheses=2,
        sentence_options={"selection": selection},
    )
    pairs = [tuple(sentences(found, row)) for row in range(number)]
    of_one = probabilities(table[0], temperature)
    expected = {
        (one, other): p * q / (1 - p)
        for one, p in of_one.items()
        for other, q in of_one.items()
        if one != other
    }
    check_frequencies(pairs, expected, number)


def test_samples_report_the_score_of_the_model():
    tables = random_tables(10, 4)
    choose = {"choose": sampler(4, temperature=0.7, top_k=3)}
    selection = {"selection": WithoutReplacement(sampler(4, temperature=0.7))}
    for found in (
        search(tables, [LIMIT] * 4, num_hypotheses=3, alpha=0.6, sentence_options=choose),
        search(
            tables,
            [LIMIT] * 4,
            beam_size=3,
            num_hypotheses=3,
            alpha=0.6,
            sentence_options=selection,
        ),
    ):
        for row, table in enumerate(tables):
            log_probs = log_softmax(table)
            for tokens, score in zip(sentences(found, row), found.scores[row], strict=True):
                total, prefix = 0.0, 0
                for token in tokens:
                    total += log_probs[prefix, token]
                    prefix = (prefix * 7 + token) % len(table)
                assert score == pytest.approx(total / ((5 + len(tokens)) / 6) ** 0.6, rel=1e-4)
