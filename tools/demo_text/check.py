"""Translates sentences with a trained demo and prints those that come out wrong.

    python -m tools.demo_text.check --workdir runs/demo

The sentences are in `tests/tools/demo_text`. `plain_sentences.tsv` has short ones, written by hand
as learners type them; none is in the training text. `other_sentences.tsv` has more of them, by
somebody who knew the words of the training text, but not its sentences; it contains a tenth of
them. The authors of `beginners_sentences.tsv` and `unseen_sentences.tsv` knew neither.
`shown_sentences.tsv` has the examples in README, docs and notebooks. The training text was improved
with all lists but `unseen_sentences.tsv`. A line is an English sentence and its right translations,
separated by tabs.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path

from flaxformer_mt import Translator

SENTENCES = Path(__file__).parents[2] / "tests/tools/demo_text"


def read_sentences(name: str) -> dict[str, tuple[str, ...]]:
    """Returns the right translations of each sentence in a file of `SENTENCES`."""
    lines = (SENTENCES / name).read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines]
    return {english: tuple(translations) for english, *translations in rows}


def find_mistakes(
    translator: Translator, sentences: Mapping[str, tuple[str, ...]]
) -> dict[str, str]:
    """Returns the wrong translation of each sentence that has one.

    A right one equals one of those given, letter by letter, but for the mark at the end.
    """
    found = translator.translate(list(sentences))
    best = {
        english: hypotheses[0].text for english, hypotheses in zip(sentences, found, strict=True)
    }
    return {
        english: text
        for english, text in best.items()
        if text.rstrip(".?!") not in {right.rstrip(".?!") for right in sentences[english]}
    }


def main() -> None:
    """Prints the mistakes in each file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--workdir", default="runs/demo")
    translator = Translator.load(parser.parse_args().workdir)
    for kind in ("plain", "other", "beginners", "unseen", "shown"):
        name = f"{kind}_sentences.tsv"
        sentences = read_sentences(name)
        mistakes = find_mistakes(translator, sentences)
        for english, text in mistakes.items():
            print(f"{english}\n    {text}\n    {sentences[english][0]}")
        print(f"{name}: {len(sentences) - len(mistakes)} of {len(sentences)} right\n")


if __name__ == "__main__":
    main()
