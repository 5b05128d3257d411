"""The tables agree with each other."""

from collections import Counter

from tools.demo_text import further_words
from tools.demo_text.lexicon import (
    ADJECTIVES,
    FREQUENCIES,
    MODALS,
    NOUNS,
    OWNED,
    REPORTS,
    TIMES,
    VERBS,
)

KINDS = {noun.kind for noun in NOUNS}


def test_each_english_word_has_one_row() -> None:
    words = [noun.english for noun in NOUNS] + [noun.english_plural for noun in NOUNS]
    words += [adjective.english for adjective in ADJECTIVES]
    words += [time.english for time in TIMES] + [adverb.english for adverb in FREQUENCIES]
    words += [modal.english for modal in MODALS]
    words += [verb.english for verb in VERBS] + [report[0].english for report in REPORTS]
    assert not [word for word, count in Counter(words).items() if word and count > 1]


def test_a_further_word_has_one_translation_for_each_kind() -> None:
    words = {noun.english for noun in NOUNS} | {adjective.english for adjective in ADJECTIVES}
    further = {noun.english for noun in further_words.NOUNS}
    assert not words & further
    german: dict[str, str] = {}
    for noun in further_words.NOUNS:
        assert german.setdefault(noun.english, noun.german) == noun.german
        assert noun.gender in ("m", "f", "n") and noun.kind in KINDS, noun.english
    for adjective in further_words.ADJECTIVES:
        assert german.setdefault(adjective.english, adjective.german) == adjective.german
        assert set(adjective.kinds.split()) <= KINDS, adjective.english


def test_every_kind_that_is_named_has_nouns() -> None:
    named = [adjective.kinds for adjective in ADJECTIVES] + [OWNED]
    for verb in VERBS:
        named += [verb.objects, verb.place, verb.destination, verb.subjects]
    assert {kind for kinds in named for kind in kinds.split()} == KINDS


def test_every_kind_has_adjectives_and_every_reason_is_one() -> None:
    described = {kind for adjective in ADJECTIVES for kind in adjective.kinds.split()}
    assert described == KINDS
    adjectives = {adjective.english for adjective in ADJECTIVES}
    assert all(set(verb.reasons.split()) <= adjectives for verb in VERBS)


def test_principal_parts_are_complete() -> None:
    for verb in (*VERBS, *further_words.ALONE, *further_words.TRANSITIVE):
        assert len(verb.english.split()) in (3, 4), verb.english
        infinitive, _, participle = verb.german.split()
        prefix, bar, _ = infinitive.rpartition("|")
        assert not bar or participle.startswith(prefix), verb.german
        assert infinitive.endswith("n")
