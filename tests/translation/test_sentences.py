"""A line of several sentences is translated sentence by sentence, with its own white space."""

import dataclasses
import time
import warnings
from typing import Any

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
import sentencex
from letter_models import CONFIG, LetterVocabulary, TagVocabulary, make_translator

from flaxformer_mt.data.tokenization.tokenizer import Tokenizer
from flaxformer_mt.translation.checks import as_constraints, as_prefixes
from flaxformer_mt.translation.requests import constrained_lines
from flaxformer_mt.translation.results import Hypothesis, join_lines
from flaxformer_mt.translation.segments import segment_lines, split_sentences
from flaxformer_mt.translation.translator import Translator


@pytest.mark.parametrize(
    ("language", "sentences"),
    [
        ("en", ["The dog sleeps. ", "The cat runs."]),
        ("en", ["the dog sleeps. ", "the cat runs"]),
        ("en", ["The dog sleeps.  ", "The cat runs.\t", "It rains.\u00a0", "We sing."]),
        ("en", ["Dr. Smith met J. R. Brown on Jan. 5 in the U.S. Army. ", "They left."]),
        ("en", ["I paid 3.50 dollars, e.g. to Mr. Smith. ", "Go to example.com now."]),
        ("en", ['He said "No." ', '"It rains!" she said. ', "Why?! ", "Because..."]),
        ("en", ["1. The dog sleeps. ", "2. The cat runs."]),
        ("en", ["Go to example.Com now. ", "Stop it!"]),
        ("en", ["The dog sleeps. 7. "]),
        ("en", ["Take vitamin B\u00a0.\u00a0", "The dog sleeps."]),
        ("en", ["a dog, the cat; it rains: yes"]),
        ("en", ["  a dog runs. "]),
        ("de", ["Das ist z. B. ein Hund. ", "Am 3. Oktober kam Prof. Dr. Müller. ", "Er blieb."]),
        ("fr", ["M. Dupont dort. ", "« Non. » dit-il."]),
        ("fr", ["C'est vrai\u00a0! ", "Le plan B\u00a0?\u00a0", "Et le plan C\u00a0: rien."]),
        ("zh", ["我是学生。", "你好吗？", "他说：“下雨了。”", "好！"]),
        ("zh-CN", ["下雨了。", "我们回家吧。"]),
        ("deu", ["Am 3. Oktober kam Prof. Dr. Müller. ", "Er blieb."]),
        ("de-AT", ["Am 3. Oktober kam Prof. Dr. Müller. ", "Er blieb."]),
        ("rus_Cyrl", ["Это г. Москва. ", "Она большая."]),
        ("a language that nobody knows", ["The dog sleeps. ", "The cat runs."]),
    ],
)
def test_sentences_of_a_line(language, sentences):
    assert split_sentences("".join(sentences), language) == sentences


def test_a_line_of_marks_takes_linear_time():
    line = "... " * 20_000
    start = time.monotonic()
    assert split_sentences(line, "en") == [line]
    assert time.monotonic() - start < 10


def test_a_panic_of_the_segmenter_leaves_the_line_whole(monkeypatch):
    real = sentencex.segment
    monkeypatch.setattr(sentencex, "segment", lambda language, _: real(language, "B\u00a0."))
    with pytest.raises(BaseException, match="not a char boundary"):
        sentencex.segment("fr", "")  # if it does not panic any more, the work-around can go
    assert split_sentences("Oui. Non.", "fr") == ["Oui. Non."]


@pytest.mark.parametrize("language", ["en", "de", "zh"])
@hypothesis.given(st.text(alphabet='aB1.!?。？"”( \t\u00a0\u200b\u2028é😀中', max_size=40))
@hypothesis.settings(deadline=None)
def test_no_character_disappears(language, line):
    sentences = split_sentences(line, language)
    assert "".join(sentences) == line
    assert all(sentences)


TAGGED = Tokenizer(TagVocabulary(), LetterVocabulary(), languages=("fr",))
PLAIN = Tokenizer(LetterVocabulary(), LetterVocabulary())


def segments_of(*lines: str, tokenizer: Tokenizer = PLAIN, limit: int = 100, **options: Any):
    options = {"first_line": 1, "sentences_of": "en", "over_long": "split", **options}
    return segment_lines(lines, tokenizer, max_source_length=limit, **options)


def spell(segments) -> list[str]:
    return [
        "".join(TagVocabulary.pieces[token] for token in segment.inputs[:-1])
        for segment in segments
    ]


@pytest.fixture(scope="module")
def translator() -> Translator:
    return make_translator(dataclasses.replace(CONFIG, length_penalty=0.0))


SENTENCES = ["a dog runs.", "why not. ", "yes they do.", "so it is"]
GAPS = ["  ", "\t", "\u00a0"]
LINE = SENTENCES[0] + GAPS[0] + SENTENCES[1].strip() + GAPS[1] + SENTENCES[2] + GAPS[2] + "so it is"


def alone(translator: Translator, **options):
    """The hypotheses of each sentence, translated alone."""
    return translator.translate([text.strip() for text in SENTENCES], **options)


def with_gaps(texts: list[str]) -> str:
    return texts[0] + "".join(gap + text for gap, text in zip(GAPS, texts[1:], strict=True))


@pytest.mark.parametrize(
    ("parts", "gap", "line"),
    [
        (("", "y"), " ", "y"),
        (("x", ""), " ", "x"),
        (("x.", "y."), "\t", "x.\ty."),
        (("x.", "y."), "", "x. y."),  # no space in the source, such as Chinese
        (("\u597d\u3002", "\u597d\u3002"), "", "\u597d\u3002\u597d\u3002"),
        (("\ud559\uc0dd", "\ud559\uc0dd"), "", "\ud559\uc0dd \ud559\uc0dd"),  # Korean has spaces
        (("Hi \U0001f600", "y"), "", "Hi \U0001f600 y"),
    ],
)
def test_the_space_between_sentences(parts, gap, line):
    found = [[Hypothesis(part, [3], 0.0)] for part in parts]
    ((whole,),) = join_lines(1, [(0, ""), (0, gap)], found, found[0][0], LetterVocabulary())
    assert whole.text == line


@pytest.mark.parametrize("options", [{}, {"strategy": "sample", "seed": 3}])
def test_a_line_is_the_translations_of_its_sentences(translator, options):
    found = translator.translate(LINE, **options)
    parts = alone(translator, **options)
    assert len(found) == max(map(len, parts))
    for i, whole in enumerate(found):
        of_each = [part[min(i, len(part) - 1)] for part in parts]
        assert whole.text == with_gaps([one.text for one in of_each])
        assert whole.score == pytest.approx(sum(one.score for one in of_each))
        assert whole.tokens[:-1] == [token for one in of_each for token in one.tokens[:-1]]


def test_details_of_a_line_are_those_of_its_sentences(translator):
    (best, *_), parts = translator.translate(LINE, details=True), alone(translator, details=True)
    details = [part[0].details for part in parts]
    assert best.details
    height, width = len(details[0].target_tokens) - 1, len(details[0].source_tokens) - 1
    np.testing.assert_array_equal(
        best.details.attention[:height, :width], details[0].attention[:-1, :-1]
    )
    assert not best.details.attention[:height, width:-1].any()  # to no other sentence
    for name in ("source_tokens", "target_tokens", "token_log_probs"):
        expected = [item for one in details for item in getattr(one, name)[:-1]]
        assert getattr(best.details, name)[:-1] == expected
    log_prob = sum(sum(one.token_log_probs) for one in details)  # with the EOS of each sentence
    assert best.score == pytest.approx(log_prob, rel=1e-4)


def test_splitting_can_be_switched_off(translator):
    short = "we do. it is"
    whole = translator.translate(short, split_sentences=False)
    assert whole != translator.translate(short)
    assert whole == make_translator(
        dataclasses.replace(CONFIG, length_penalty=0.0, split_sentences=False)
    ).translate(short)


@pytest.mark.parametrize(
    ("demands", "whole"),
    [
        ({}, []),
        ({"prefixes": ["ab", "", None, " "]}, [7]),
        ({"constraints": [None, ["", "cd"], [" "], []]}, [8]),
        ({"prefixes": ["", "", "a", ""], "constraints": [["a"], [], [], []]}, [7, 9]),
    ],
)
def test_lines_with_a_prefix_or_constraints_stay_whole(demands, whole):
    prefixes = as_prefixes(demands.get("prefixes"), 4, 7)
    lines = constrained_lines(prefixes, as_constraints(demands.get("constraints"), 4, 7), 7)
    segments = segments_of(*["we do. it is"] * 4, first_line=7, whole_lines=lines)
    assert [n for n in range(7, 11) if [one.line for one in segments].count(n) == 1] == whole


def test_each_sentence_has_the_tag_of_its_line():
    assert spell(segments_of(">>fr<< a dog. it runs.", tokenizer=TAGGED)) == [
        ">>fr<< a dog.",
        ">>fr<< it runs.",
    ]
    assert spell(segments_of(">>fr<< a dog. it runs.", tokenizer=TAGGED, sentences_of=None)) == [
        ">>fr<< a dog. it runs."
    ]


def test_a_tag_without_text_is_a_blank_line():
    """Marian's vocabulary, as this one, makes a tag and the end of the sentence of it."""
    assert segments_of(">>fr<< ", ">>fr<<", tokenizer=TAGGED) == []


@pytest.mark.parametrize(
    "line", [" a dog runs. ", ">>fr<<  a dog runs.  ", ">>fr<<a dog", "a", "."]
)
def test_the_tokens_of_one_sentence_are_those_of_the_line(line):
    (segment,) = segments_of(line, tokenizer=TAGGED)
    assert segment.inputs.tolist() == TAGGED.source.tokenize(line)


@hypothesis.given(st.text(alphabet="ab.  \t", max_size=60), st.integers(6, 40))
@hypothesis.settings(deadline=None)
def test_segments_and_gaps_are_the_line(line, limit):
    """Sentences that are too long are cut further, and still nothing disappears."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        segments = segments_of(line, limit=limit)
    texts = [segment.gap + text for segment, text in zip(segments, spell(segments), strict=True)]
    read = "".join(texts).replace("<unk>", "\t")  # a tab has no letter in this vocabulary
    assert read.strip() == line.strip()
    assert all(len(segment.inputs) <= limit for segment in segments)
