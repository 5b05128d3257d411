"""The grammar as data: deterministic, disjoint, unambiguous, large, fast, free of jax."""

import json
import os
import subprocess
import sys

import pytest

from flaxformer_mt.data.sources.grammar.draw import (
    DEFINITE,
    adjectives_for,
    determiners_for,
    nouns_of,
)
from flaxformer_mt.data.sources.grammar.phrases import A, Determiner, noun_phrase
from flaxformer_mt.data.sources.synthetic import SPLITS, Grammar, split_of

SAMPLE = 100_000

# In a process of its own: there nobody checks the types of every call, which takes most of the
# time here, and nobody else has imported jax.
SCRIPT = """
import json, sys, time
from flaxformer_mt.data.sources.synthetic import Grammar
grammar = Grammar("train", size=10**9, seed=7)
started = time.process_time()
pairs = [grammar[index] for index in range(int(sys.argv[1]))]
seconds = time.process_time() - started
json.dump({"pairs": pairs, "seconds": seconds, "jax": "jax" in sys.modules}, sys.stdout)
"""


def generate(count: int, *, hash_seed: str = "0") -> dict:
    """What the script says of `count` pairs."""
    environment = {
        **os.environ,
        "PYTHONHASHSEED": hash_seed,
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    command = [sys.executable, "-c", SCRIPT, str(count)]
    done = subprocess.run(command, env=environment, capture_output=True, check=True)
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def generated() -> dict:
    return generate(SAMPLE)


@pytest.fixture(scope="module")
def sample(generated) -> list[tuple[str, str]]:
    return [(source, target) for source, target in generated["pairs"]]


def test_a_pair_is_a_function_of_seed_split_and_index(sample) -> None:
    again = Grammar("train", size=SAMPLE, seed=7)  # the size changes nothing but the end
    assert [again[index] for index in (99_000, 3, 17)] == [sample[i] for i in (99_000, 3, 17)]
    other = Grammar("train", size=100, seed=8)
    assert [other[index] for index in range(100)] != sample[:100]


def test_hash_randomisation_decides_nothing(sample) -> None:
    pairs = generate(500, hash_seed="12345")["pairs"]
    assert [tuple(pair) for pair in pairs] == sample[:500]


def test_jax_is_not_imported(generated) -> None:
    assert not generated["jax"]


def test_it_is_fast(generated) -> None:
    # More than 30,000 a second where this was written; slow and shared machines pass too.
    assert SAMPLE / generated["seconds"] > 5_000


def test_splits_are_disjoint_by_construction() -> None:
    english = {}
    for split in SPLITS:
        for seed in (0, 1):
            grammar = Grammar(split, size=20, seed=seed)
            english.setdefault(split, set()).update(grammar[i].source for i in range(20))
        assert {split_of(sentence) for sentence in english[split]} == {split}
    assert not english["train"] & (english["test"] | english["validation"])
    assert not english["test"] & english["validation"]


def test_an_english_sentence_has_one_german_one(sample) -> None:
    translations = {}
    for source, target in sample:
        assert translations.setdefault(source, target) == target


def test_sentences_are_whole(sample) -> None:
    for source, target in sample:
        for text in (source, target):
            assert text[0].isupper() and text[-1] in ".?", text
            assert "  " not in text and " ," not in text and ",," not in text, text
            assert ",." not in text and ",?" not in text, text
        assert source[-1] == target[-1]


def test_there_are_more_than_a_million_pairs() -> None:
    # One pattern is enough: <person> needs <thing>. Subject and object are drawn independently,
    # and the word between them keeps sentences with different parts different.
    def phrases(kinds: str, determiners: tuple[Determiner, ...]) -> set[str]:
        return {
            noun_phrase(determiner, adjective, noun, plural).english
            for noun in nouns_of(kinds)
            for determiner in determiners_for(noun.kind, determiners)
            for adjective in (None, *adjectives_for(noun.kind))
            for plural in (False, True)
            if determiner.english[plural] is not None
        }

    subjects, objects = (
        phrases("person child", DEFINITE),
        phrases("clothes vehicle thing", (*DEFINITE, A)),
    )
    assert len(subjects) * len(objects) > 1_000_000


def test_repetitions_are_rare(sample) -> None:
    assert len({source for source, _ in sample}) > 0.9 * SAMPLE


def test_lengths_are_moderate(sample) -> None:
    words = [len(source.split()) for source, _ in sample]
    assert 7 <= sum(words) / len(words) <= 12
    assert max(words) <= 40


def test_errors_teach() -> None:
    with pytest.raises(ValueError, match="train, validation, test; got 'dev'"):
        Grammar("dev")
    with pytest.raises(ValueError, match="at least 1 pair; got 0"):
        Grammar("train", size=0)
    with pytest.raises(IndexError, match="Pair 5 of a grammar with 5 pairs"):
        _ = Grammar("train", size=5)[5]
