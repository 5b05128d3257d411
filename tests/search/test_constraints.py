"""Phrases that must appear: they always appear, and they lower the score as little as possible."""

import functools
import itertools

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiers import slow_after
from toy_models import (
    EOS,
    A,
    B,
    all_hypotheses,
    log_prob,
    random_tables,
    search,
    sentences,
)

from flaxformer_mt.search.constraints import Banks, automaton, make_banks
from flaxformer_mt.search.rules import ForcedPrefix, NoRepeatedNgram

VOCAB = 12
NOT_BOUNDARY = (10, 11)  # tokens that continue a word


def boundary(vocab_size: int) -> np.ndarray:
    return ~np.isin(np.arange(vocab_size), NOT_BOUNDARY)


def banks(phrases, *, vocab_size=VOCAB, size=(4, 4), whole_words=True) -> Banks:
    return make_banks(
        phrases,
        rows=len(phrases),
        size=size,
        whole_words=lambda phrase: whole_words,
        boundary=boundary(vocab_size),
        eos_id=EOS,
    )


def contains(tokens, phrase, *, whole_words=True) -> bool:
    """Returns whether the phrase is there, and no token continues its last word."""
    return any(
        tuple(tokens[i : i + len(phrase)]) == tuple(phrase)
        and not (whole_words and tokens[i + len(phrase)] in NOT_BOUNDARY)
        for i in range(len(tokens) - len(phrase))
    )


words = st.integers(EOS + 1, VOCAB - 1)
first_words = st.integers(EOS + 1, NOT_BOUNDARY[0] - 1)
phrases_of_a_sentence = st.lists(
    st.tuples(first_words, st.lists(words, max_size=3)).map(lambda p: (p[0], *p[1])), max_size=4
)


@settings(max_examples=60, deadline=None)
@given(
    phrases=st.lists(phrases_of_a_sentence, min_size=4, max_size=4),
    room=st.integers(0, 6),
    whole_words=st.booleans(),
    beam_size=st.sampled_from([1, 4]),
    seed=st.integers(0, 10_000),
)
def test_every_phrase_appears_even_with_a_random_model(phrases, room, whole_words, beam_size, seed):
    """With the least sufficient length or more; also after a prefix and against rules."""
    prefix = np.array([[A, B, 10, A]] * 4)
    lengths = [0, 0, 2, 4]
    needed = [sum(map(len, of_one)) + 1 for of_one in phrases]
    limits = [n + length + room for n, length in zip(needed, lengths, strict=True)]
    tables = random_tables(seed, 4, vocab_size=VOCAB)
    sentence_options = {
        "selection": banks(phrases, whole_words=whole_words),
        "prefix": ForcedPrefix(jnp.asarray(prefix), jnp.asarray(lengths)),
        "rules": (NoRepeatedNgram(2),),
    }
    found = search(
        tables, limits, beam_size=beam_size, length=30, sentence_options=sentence_options
    )
    for row, of_one in enumerate(phrases):
        (tokens,) = sentences(found, row)
        assert tokens[: lengths[row]] == tuple(prefix[row, : lengths[row]])
        assert len(tokens) <= limits[row] and tokens[-1] == EOS
        for phrase in of_one:
            assert contains(tokens, phrase, whole_words=whole_words), (tokens, phrase)


@pytest.mark.parametrize("beam_size", slow_after(1, [3, 1, 8]))
def test_a_sentence_without_phrases_gets_an_ordinary_beam_search(beam_size):
    limits = [9, 7, 9, 1, 0, 5]
    tables = random_tables(21, 6, vocab_size=VOCAB)
    plain = search(tables, limits, beam_size=beam_size, num_hypotheses=beam_size, alpha=0.6)
    phrases = [[], [(4, 5)], [], [], [], []]
    found = search(
        tables,
        limits,
        beam_size=beam_size,
        num_hypotheses=beam_size,
        alpha=0.6,
        sentence_options={"selection": banks(phrases)},
    )
    for row in (0, 2, 3, 4, 5):
        np.testing.assert_array_equal(found.tokens[row], plain.tokens[row])
        np.testing.assert_allclose(found.scores[row], plain.scores[row], rtol=1e-6)  # two programs


def test_a_beam_as_wide_as_the_space_finds_the_best_sentence_with_the_phrases():
    """Among all sentences of at most 5 tokens. It must not stop where a free search would."""
    phrases = [[(A, B)], [(B,), (A,)], [(B, B, A)], [(A, A)], [(A, B), (B, A)], []]
    tables = random_tables(22, 6)
    tables[..., EOS] += 1.0
    selection = banks(phrases, vocab_size=6)
    found = search(tables, [5] * 6, beam_size=40, sentence_options={"selection": selection})
    plain = search(tables, [5] * 6, beam_size=40)
    changed = 0
    for row, of_one in enumerate(phrases):
        every = [
            tokens
            for tokens in all_hypotheses(6, 5)
            if all(contains(tokens, phrase) for phrase in of_one)
        ]
        best = max(every, key=functools.partial(log_prob, tables[row]))
        (tokens,) = sentences(found, row)
        # A hypothesis that would end must continue with a phrase, so the best one may be missed.
        assert tokens in every
        assert found.scores[row, 0] == pytest.approx(log_prob(tables[row], tokens), rel=1e-4)
        changed += tokens != sentences(plain, row)[0]
        assert log_prob(tables[row], tokens) >= log_prob(tables[row], best) - 3
    assert changed >= 3


def test_banks_find_better_translations_than_masks_alone(monkeypatch):
    """With banks, phrases appear where the model gives them the highest probability."""
    tables = random_tables(23, 40, vocab_size=VOCAB)
    tables[..., EOS] -= 1.0
    phrases = [[(4 + row % 6, 5)] for row in range(40)]
    search_them = functools.partial(search, tables, [12] * 40, beam_size=6)
    dealt = search_them(sentence_options={"selection": banks(phrases)}).scores
    monkeypatch.setattr(Banks, "priority", lambda self, candidates: candidates.totals)
    crowded = search_them(sentence_options={"selection": banks(phrases)}, num_hypotheses=2).scores[
        :, :1
    ]
    assert dealt.mean() > crowded.mean() + 0.3


def test_a_sentence_with_its_phrase_ends_though_others_are_more_probable():
    """The model would write any word but B without end, and end after B."""
    tables = np.full((1, 10_007, VOCAB), 10.0, np.float32)
    tables[..., : EOS + 1], tables[..., B] = -20.0, -5.0
    tables[0, (0 * 7 + B), EOS] = 20.0  # after B alone
    sentence_options = {"selection": banks([[(B,)]])}
    found = search(tables, [12], beam_size=3, sentence_options=sentence_options)
    assert sentences(found, 0) == [(B, EOS)]


def test_the_automaton_knows_how_much_of_a_phrase_was_just_read(rng):
    for phrase in itertools.product((A, B), repeat=4):
        table = automaton(phrase, 5, whole_words=True)
        tokens = rng.choice([A, B, 9], size=200)
        state, read = 0, []
        for token in tokens:
            read.append(token)
            symbol = phrase.index(token) if token in phrase else 5
            state = table[state, symbol]
            longest = max(
                n for n in range(5) if n <= len(read) and tuple(read[len(read) - n :]) == phrase[:n]
            )
            assert state == longest


def test_states_follow_all_phrases_at_once():
    selection = banks([[(A, B), (B, A, 10), (B,)]])
    state = selection.start(1, 1)
    met = selection.satisfied
    history = []
    for token in (A, B, A, 10, 10, B, EOS):
        state = selection.follow(state, jnp.array([[token]]))
        history.append(state[0, 0].tolist())
    assert history == [
        [1, 0, 0, met],
        [2, 1, 1, met],  # "A B" and "B" are spelt; the word may continue
        [met, 2, met, met],  # it ended
        [met, 3, met, met],
        [met, 0, met, met],  # 10 continues the word of "B A 10"
        [met, 1, met, met],
        [met, 0, met, met],
    ]


@pytest.mark.parametrize("beam_size", [1, 4])
def test_a_phrase_whose_word_has_not_ended_is_not_undone_by_the_next(beam_size):
    """After "4 5 8 9" the token 10 would complete "9 10" and undo the first phrase."""
    phrases = [[(4, 5, 8, 9), (9, 10)]] * 30
    tables = random_tables(25, 30, vocab_size=VOCAB)
    sentence_options = {"selection": banks(phrases)}
    found = search(tables, [7] * 30, beam_size=beam_size, sentence_options=sentence_options)
    first = {tokens[0] for row in range(30) for tokens in sentences(found, row)}
    assert first == {4, 9}  # both orders came up
    for row in range(30):
        (tokens,) = sentences(found, row)
        assert all(contains(tokens, phrase) for phrase in phrases[row])


def test_whole_words_are_not_checked_if_a_phrase_begins_inside_a_word():
    phrases = [[(10, 4), (5,)]]
    tables = random_tables(24, 1, vocab_size=VOCAB)
    found = search(tables, [4], beam_size=4, sentence_options={"selection": banks(phrases)})
    (tokens,) = sentences(found, 0)
    assert all(contains(tokens, phrase, whole_words=False) for phrase in phrases[0])
