"""The generated pairs: deterministic, disjoint, unambiguous, varied; and the files shipped."""

import json
import lzma
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.demo_text.draw import (
    DEFINITE,
    Dice,
    adjectives_for,
    determiners_for,
    nouns_of,
)
from tools.demo_text.phrases import A, Determiner, noun_phrase
from tools.demo_text.typed import without_apostrophes
from tools.demo_text.write import (
    DIRECTORY,
    SIZES,
    VARIED,
    make_pair,
    make_tsv,
    split_of,
    words_of,
)

ROOT = Path(__file__).parents[3]
SAMPLE = 20_000

# In a process of its own, because there no type checker slows every call down.
SCRIPT = """
import json, sys
from tools.demo_text.write import make_pair
json.dump([make_pair("train", index, seed=7) for index in range(int(sys.argv[1]))], sys.stdout)
"""


def generate(count: int, *, hash_seed: str = "0") -> list[tuple[str, str]]:
    """The first pairs of seed 7, made in another process."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(count)],
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    return [(source, target) for source, target in json.loads(done.stdout)]


@pytest.fixture(scope="module")
def sample() -> list[tuple[str, str]]:
    return generate(SAMPLE)


@pytest.mark.parametrize("split", SIZES)
def test_the_shipped_files_begin_as_the_generator_writes_them(split) -> None:
    shipped = lzma.decompress((DIRECTORY / f"{split}.tsv.xz").read_bytes())
    assert shipped.startswith(make_tsv(split, 300))
    assert shipped.count(b"\n") == SIZES[split]


def test_the_shipped_training_text_goes_on_with_plain_sentences() -> None:
    shipped = lzma.decompress((DIRECTORY / "train.tsv.xz").read_bytes()).decode().splitlines()
    for index in range(VARIED, SIZES["train"], 400):
        assert tuple(shipped[index].split("\t")) == make_pair("train", index)


def test_words_of_a_sentence_are_the_same_however_it_is_typed() -> None:
    assert words_of("Yesterday, Anna was not old.") == words_of("yesterday anna wasn't old")


@pytest.mark.slow
def test_a_pair_is_a_function_of_seed_split_and_index(sample) -> None:
    for index in (19_000, 3, 17):
        assert make_pair("train", index, seed=7) == sample[index]
    assert [make_pair("train", index, seed=8) for index in range(100)] != sample[:100]


@pytest.mark.slow
def test_the_hash_seed_of_python_changes_nothing(sample) -> None:
    assert generate(500, hash_seed="12345") == sample[:500]


def test_splits_are_disjoint_by_construction() -> None:
    english = {
        split: {make_pair(split, index, seed=seed)[0] for index in range(20) for seed in (0, 1)}
        for split in SIZES
    }
    for split in ("train", "validation", "test"):
        assert {split_of(sentence) for sentence in english[split]} == {split}
    assert not english["everyday"] & (english["test"] | english["validation"])
    assert not english["train"] & (english["test"] | english["validation"])
    assert not english["test"] & english["validation"]


@pytest.mark.slow
def test_an_english_sentence_has_one_german_one(sample) -> None:
    translations = {}
    for source, target in sample:
        assert translations.setdefault(source, target) == target


@pytest.mark.slow
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


@pytest.mark.slow
def test_repetitions_are_rare(sample) -> None:
    assert len({source for source, _ in sample}) > 0.9 * SAMPLE


@pytest.mark.slow
def test_lengths_are_moderate(sample) -> None:
    words = [len(source.split()) for source, _ in sample]
    assert 7 <= sum(words) / len(words) <= 12
    assert max(words) <= 40


def test_an_unknown_split_is_refused() -> None:
    with pytest.raises(ValueError, match="train, everyday, validation, test; got 'dev'"):
        make_pair("dev", 0)


@pytest.mark.parametrize(
    ("typed", "without"),
    [
        ("I don't know.", "I dont know."),
        ("they can't and I'm not", "they cant and Im not"),
        ("You've won, they're here", "Youve won, theyre here"),
        ("It's Anna's, we're late", "It's Anna's, we're late"),  # other words without them
    ],
)
def test_apostrophes_are_sometimes_left_out(typed: str, without: str) -> None:
    found = {without_apostrophes(Dice(str(i)), (typed, "x")) for i in range(200)}
    assert found == {(typed, "x"), (without, "x")}
