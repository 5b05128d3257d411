"""What a trained demo makes of hand-written sentences and of every example in the documentation.

The tests that translate need the model of `make demo`, which they look for in runs/demo or in the
directory that DEMO_WORKDIR names:

    DEMO_WORKDIR=runs/demo python -m pytest tests/tools/demo_text/test_translations.py
"""

import itertools
import lzma
import os
import re
from pathlib import Path

import nbformat
import pytest

from flaxformer_mt import Translator
from flaxformer_mt.data.tokenization.known_words import few_words
from tools.demo_text.check import find_mistakes, read_sentences
from tools.demo_text.write import DIRECTORY, words_of

ROOT = Path(__file__).parents[3]
WORKDIR = Path(os.environ.get("DEMO_WORKDIR", ROOT / "runs/demo"))
HAND_WRITTEN = read_sentences("plain_sentences.tsv")
SHOWN = read_sentences("shown_sentences.tsv")

# Not the docstrings of a cell, which have three quotes.
QUOTED_SENTENCE = re.compile(r'(?<!")"([A-Z][^"\n]*\.)"(?!")')


@pytest.fixture(scope="module")
def trained() -> Translator:
    if not (WORKDIR / "checkpoints").is_dir():
        pytest.skip(f"needs the trained demo, and {WORKDIR} has none: run `make demo`")
    return Translator.load(str(WORKDIR))


@pytest.fixture(scope="module")
def training_text() -> list[str]:
    """The English training sentences."""
    files = (DIRECTORY / f"{split}.tsv.xz" for split in ("train", "everyday"))
    lines = [line for file in files for line in lzma.decompress(file.read_bytes()).splitlines()]
    return [line.decode().split("\t")[0] for line in lines]


def documented_sentences() -> dict[str, str]:
    """Each quoted sentence in the pages and in the code of the notebooks, and where it is."""
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    texts = {path.name: path.read_text(encoding="utf-8") for path in pages}
    for path in (ROOT / "colab").glob("*.ipynb"):
        cells = nbformat.read(path, as_version=4).cells
        code = [cell.source for cell in cells if cell.cell_type == "code"]
        texts[path.name] = "\n".join(code)
    return {s: name for name, text in texts.items() for s in QUOTED_SENTENCE.findall(text)}


def test_there_are_200_hand_written_sentences() -> None:
    assert len(HAND_WRITTEN) == 200
    assert len({words_of(sentence) for sentence in HAND_WRITTEN}) == 200
    more = [read_sentences(f"{name}_sentences.tsv") for name in ("beginners", "unseen")]
    assert [len(sentences) for sentences in more] == [3312, 176]
    for english, translations in itertools.chain(
        *(d.items() for d in (HAND_WRITTEN, SHOWN, *more))
    ):
        assert translations and all(translations), english


@pytest.mark.slow
def test_no_hand_written_sentence_is_in_the_training_text(training_text) -> None:
    known = set(map(words_of, training_text))
    for sentences in (HAND_WRITTEN, read_sentences("unseen_sentences.tsv")):
        assert not [sentence for sentence in sentences if words_of(sentence) in known]


def test_the_training_text_has_every_word_of_the_sentences(training_text) -> None:
    different = " ".join(dict.fromkeys(" ".join(training_text).split()))  # no word twice
    known = {word.rstrip(".?!") for word in words_of(different).split()}
    for sentence in (*HAND_WRITTEN, *SHOWN):
        assert set(words_of(sentence).split()) <= known, sentence


def test_the_text_is_small_enough_for_a_list_of_known_words(training_text) -> None:
    """Otherwise a translator could not tell which words the demo does not know."""
    assert few_words(training_text)


def test_the_english_text_has_no_hyphens(training_text) -> None:
    """A mark that only stands inside words would count as known, also at the start of a line."""
    assert not [line for line in training_text if "-" in line]


def test_the_shown_sentences_are_those_of_the_documentation() -> None:
    documented = documented_sentences()
    translations = {text for right in SHOWN.values() for text in right}
    missing = documented.keys() - SHOWN.keys() - translations
    assert not missing, f"add to shown_sentences.tsv: {[(documented[s], s) for s in missing]}"
    assert len(documented.keys() & SHOWN.keys()) >= 5


def test_hand_written_sentences_come_out_right(trained) -> None:
    mistakes = find_mistakes(trained, HAND_WRITTEN)
    assert len(mistakes) <= 10, mistakes


def test_most_sentences_of_somebody_who_does_not_know_the_text_come_out_right(trained) -> None:
    sentences = read_sentences("unseen_sentences.tsv")
    mistakes = find_mistakes(trained, sentences)
    assert len(mistakes) <= 0.48 * len(sentences), mistakes  # 560 updates: about 0.42


UNKNOWN = {
    "words": {
        "The platypus is big.": "Der platypus ist groß.",
        "Where is my zither?": "Wo ist mein zither?",
        "She loves quinoa.": "Sie liebt quinoa.",
        "My name is Zorg.": "Mein Name ist Zorg.",
        "The alchemist is not tired.": "Der alchemist ist nicht müde.",
        "We live in Manchester.": "Wir wohnen in Manchester.",
    },
    "marks": {
        "**The dog sleeps.**": "**Der Hund schläft.**",
        'The "old" dog sleeps.': 'Der "alte" Hund schläft.',
        "He is (very) tired.": "Er ist (sehr) müde.",
        "The dog sleeps; the cat sings.": "Der Hund schläft, die Katze singt.",
        "- I like my car.": "- Ich mag mein Auto.",
        "I’m tired.": "Ich bin müde.",
        "---": "---",
    },
    "capitals": {
        "THE DOG SLEEPS.": "DER HUND SCHLÄFT.",
        "WHERE IS MY ZITHER?": "WO IST MEIN ZITHER?",
        "NASA": "NASA",
    },
}


@pytest.mark.parametrize("kind", UNKNOWN)
def test_what_the_demo_does_not_know_does_not_harm_its_sentence(trained, kind) -> None:
    mistakes = find_mistakes(trained, {ours: (it,) for ours, it in UNKNOWN[kind].items()})
    assert len(mistakes) <= 1, mistakes


def test_every_shown_sentence_comes_out_right(trained) -> None:
    assert not find_mistakes(trained, SHOWN)
