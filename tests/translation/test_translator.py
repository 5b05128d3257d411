"""Translators with a tiny random model: properties that hold for any parameters."""

import concurrent.futures
import dataclasses
import functools
import inspect
import io
import subprocess
import sys
import warnings
from collections import Counter
from typing import Any, ClassVar

import hypothesis
import hypothesis.strategies as st
import jax
import numpy as np
import pytest
import regex
from letter_models import (
    BOS,
    CONFIG,
    EOS,
    LETTERS,
    PAD,
    UNK,
    LetterVocabulary,
    make_translator,
    random_model,
)
from tiers import slow_after

from flaxformer_mt.data.tokenization.tokenizer import Tokenizer
from flaxformer_mt.evaluation import mbr
from flaxformer_mt.evaluation.quality_flags import Flag
from flaxformer_mt.inference.programs import search_batch
from flaxformer_mt.inspection.capture import capture
from flaxformer_mt.model.initialization import init_params
from flaxformer_mt.translation.checks import as_prefixes
from flaxformer_mt.translation.config import DecodingConfig, changed_config
from flaxformer_mt.translation.results import Hypothesis
from flaxformer_mt.translation.setup import suppressed_tokens
from flaxformer_mt.translation.translator import Translator

# Many tests give a prefix or constraints to blank lines too.
pytestmark = pytest.mark.filterwarnings("ignore:line .* is blank:UserWarning")


@pytest.fixture(scope="module")
def translator() -> Translator:
    return make_translator()


SENTENCES = [
    "a dog runs.",
    "two men",
    "a red car stands here.",  # too long for the program of 16
    "",
    "why not",
    "x",
    "the sun shines.",
    "  \t ",
    "we do not see.",
    "\u200b",
    "she reads",
    "yes.",
]


def test_one_result_for_each_sentence_and_blank_for_blank(translator):
    found = translator.translate(SENTENCES)
    assert len(found) == len(SENTENCES)
    for sentence, hypotheses in zip(SENTENCES, found, strict=True):
        if not sentence.strip(" \t\u200b"):
            assert hypotheses == [Hypothesis("", [], 0.0)]
        else:
            assert len(hypotheses) == 3
    assert len({hypotheses[0].text for hypotheses in found}) > 6  # or the tests below are hollow


def test_check_takes_what_translate_takes(translator):
    translator.check("a dog", prefixes="b", constraints=["a"], details=True)
    with pytest.raises(ValueError, match="did you mean details"):
        translator.check("a dog", detail=True)
    with pytest.raises(ValueError, match="did you mean target_language"):
        translator.translate("a dog", target_languag="fr")
    with pytest.raises(ValueError, match="no field 'prefixes': choose from"):
        translator.score("a dog", "b", prefixes=["x"])
    with pytest.raises(ValueError, match="first_line must be a line number"):
        translator.score("a dog", "b", first_line="x")


def test_half_a_surrogate_is_named_anywhere(translator):
    half = "a \ud800"
    for call in (
        lambda: translator.translate(half),
        lambda: translator.translate("a dog", prefixes=half),
        lambda: translator.translate("a dog", constraints=[half]),
        lambda: translator.score("a dog", half),
        lambda: capture(translator, half),
        lambda: capture(translator, "a dog", half),
    ):
        with pytest.raises(ValueError, match="a string without surrogates"):
            call()


def test_prefixes_may_be_the_lines_of_a_file():
    """The line break does not end the last word, as a space does."""
    lines = io.StringIO("Der Hun\n\nDer \n")
    assert as_prefixes(lines, 3, first_line=1) == ["Der Hun", None, "Der "]


def test_a_long_line_is_warned_of_in_each_call(translator):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("default")
        for _ in range(2):
            translator.check("a dog runs " * 20)
            translator.translate("a dog runs " * 20, beam_size=1, num_hypotheses=1)
    assert len(found) == 2 and "line 1: " in str(found[0].message)


def test_hypotheses_are_sorted_distinct_and_end_once(translator):
    for hypotheses in translator.translate([s for s in SENTENCES if s.strip(" \t\u200b")]):
        scores = [one.score for one in hypotheses]
        assert scores == sorted(scores, reverse=True)
        assert len({tuple(one.tokens) for one in hypotheses}) == 3
        for one in hypotheses:
            assert one.tokens[-1] == EOS
            assert not {PAD, UNK, BOS, EOS} & set(one.tokens[:-1])


@pytest.mark.parametrize("beam_size", [1, 3])
def test_other_sentences_order_and_padding_change_nothing(translator, beam_size):
    """Bit for bit, scores included: shuffled, alone and in a larger batch."""
    given = {"beam_size": beam_size, "num_hypotheses": beam_size}
    found = translator.translate(SENTENCES, **given)
    order = np.random.default_rng(0).permutation(len(SENTENCES))
    shuffled = translator.translate([SENTENCES[place] for place in order], **given)
    assert shuffled == [found[place] for place in order]
    alone = [translator.translate([sentence], **given)[0] for sentence in SENTENCES]
    assert alone == found


@pytest.mark.parametrize("beam_size", [1, 3])
@pytest.mark.parametrize("length_penalty", [0.0, 1.2])
def test_score_gives_what_translate_reports(translator, beam_size, length_penalty):
    found = translator.translate(
        SENTENCES, beam_size=beam_size, num_hypotheses=beam_size, length_penalty=length_penalty
    )
    pairs = [(source, best) for source, (best, *_) in zip(SENTENCES, found, strict=True)]
    assert any(not best.tokens for _, best in pairs)  # blank lines too
    scored = translator.score(
        [source for source, _ in pairs],
        [reported.tokens for _, reported in pairs],
        length_penalty=length_penalty,
    )
    for (_, reported), score in zip(pairs, scored, strict=True):
        assert score.score == pytest.approx(reported.score, abs=1e-4)
        penalty = ((5 + len(score.tokens)) / 6) ** length_penalty
        assert score.log_prob / penalty == pytest.approx(score.score, **ROUNDING)
        assert sum(score.token_log_probs) == pytest.approx(score.log_prob, abs=1e-4)
        assert score.tokens == reported.tokens


def test_scores_of_blank_sides(translator):
    """Two blank sides: what `translate` reports. One blank side: it is EOS alone."""
    blank, no_source, no_target = translator.score(["  ", "", "a dog"], ["\u200b", "ein", " "])
    assert blank == (0.0, 0.0, [], [], None, None)
    assert no_source.score < 0 and len(no_source.tokens) == 4
    assert no_target.score < 0 and no_target.tokens == [EOS]


SHORT = [sentence for sentence in SENTENCES if len(sentence) < 16]
ROUNDING: dict[str, Any] = {"rel": 2e-6, "abs": 1e-5}
FLAT = {"temperature": 2.0, "top_k": 20, "top_p": 0.99, "seed": 1}
OPTIONS: dict[str, dict[str, Any]] = {
    "prefix": {"prefixes": ["", "the", "ab", ""] * 2 + ["qq", "z", ""]},
    "constraints": {
        "constraints": [["ab", "za."], [], ["ba", "a", "ab"], ["qqq"], [" "]] * 2 + [[]]
    },
    "rules": {
        "no_repeat_ngram_size": 2,
        "repetition_penalty": 1.5,
        "min_target_length": 8,
        "coverage_penalty": 1.0,
    },
    "sample": {"strategy": "sample", "num_hypotheses": 6, **FLAT},
    "mbr": {"strategy": "mbr", "num_hypotheses": 2, "num_samples": 6, **FLAT},
    "sample_distinct": {"strategy": "sample_distinct", "temperature": 2.0, "seed": 3},
}


def translate_some(
    translator: Translator, options: dict[str, Any], places: list[int]
) -> list[list[Hypothesis]]:
    """Translate some of SHORT, each with its own prefix and constraints."""
    of_each: dict[str, Any] = {
        name: [value[place] for place in places] if name in ("prefixes", "constraints") else value
        for name, value in options.items()
    }
    return translator.translate([SHORT[place] for place in places], **of_each)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(
            options,
            id=name,
            marks=[pytest.mark.slow] if name in ("prefix", "sample", "mbr") else [],
        )
        for name, options in OPTIONS.items()
    ],
)
def test_results_of_any_option_depend_on_the_sentence_alone(translator, options):
    """Bit for bit in one program; up to rounding in a program for batches of another size."""
    places = list(range(len(SHORT)))
    found = translate_some(translator, options, places)
    texts = [[one.text for one in of_line] for of_line in found]
    assert texts != [[one.text for one in of_line] for of_line in translator.translate(SHORT)]
    alone = [translate_some(translator, options, [place])[0] for place in places]
    assert [[one.text for one in of_line] for of_line in alone] == texts
    for mine, theirs in zip(alone, found, strict=True):
        np.testing.assert_allclose([x.score for x in mine], [x.score for x in theirs], rtol=1e-5)
    compiled = num_programs()
    order = np.random.default_rng(0).permutation(len(SHORT)).tolist()
    assert translate_some(translator, options, order) == [found[place] for place in order]
    assert num_programs() == compiled

    smaller = make_translator(dataclasses.replace(CONFIG, max_rows_per_batch=3))
    others = translate_some(smaller, options, places)
    assert [[one.text for one in of_line] for of_line in others] == texts
    for ours, theirs in zip(found, others, strict=True):
        scores = [one.score for one in ours]
        assert [one.score for one in theirs] == pytest.approx(scores, **ROUNDING)

    pairs = [(s, h) for s, of_one in zip(SHORT, found, strict=True) for h in of_one]
    scored = translator.score([source for source, _ in pairs], [one.tokens for _, one in pairs])
    reported = [one.score for _, one in pairs]
    assert [one.score for one in scored] == pytest.approx(reported, **ROUNDING)


@pytest.mark.parametrize("options", [OPTIONS["prefix"], OPTIONS["constraints"]])
def test_every_hypothesis_has_its_prefix_and_constraints(translator, options):
    found = translate_some(translator, options, list(range(len(SHORT))))
    for place, hypotheses in enumerate(found):
        if not SHORT[place].strip(" \t\u200b"):
            continue
        for one in hypotheses:
            assert one.text.startswith(options.get("prefixes", [""] * 11)[place])
            assert all(
                c in one.text for c in options.get("constraints", [[" "]] * 11)[place] if c.strip()
            )


def test_the_rules_hold(translator):
    found = translate_some(translator, OPTIONS["rules"], list(range(len(SHORT))))
    for source, hypotheses in zip(SHORT, found, strict=True):
        for tokens in (one.tokens for one in hypotheses if one.tokens):
            limit = CONFIG.length_limit(len(LetterVocabulary().tokenize(source)))
            assert len(tokens) >= min(8, limit)
            assert len(set(zip(tokens, tokens[1:], strict=False))) == len(tokens) - 1


def test_mbr_chooses_among_the_samples(translator):
    samples = translate_some(translator, OPTIONS["sample"], list(range(len(SHORT))))
    chosen = translate_some(translator, OPTIONS["mbr"], list(range(len(SHORT))))
    for of_sentence, best in zip(samples, chosen, strict=True):
        texts = [one.text for one in of_sentence]
        ranked = [index for index, _ in mbr.ranked(texts)[:2]]
        assert [one.text for one in best] == [texts[place] for place in ranked]
        if texts != [""]:
            assert [one._replace(utility=None) for one in best] == [of_sentence[i] for i in ranked]
            utilities = mbr.expected_utilities([one.text for one in best], texts)
            assert [one.utility for one in best] == pytest.approx(utilities)


def test_another_seed_gives_other_samples(translator):
    one, other = (
        translate_some(translator, {**OPTIONS["sample"], "seed": seed}, [0]) for seed in (1, 2)
    )
    assert one != other


def test_distinct_samples_are_distinct(translator):
    for hypotheses in translate_some(translator, OPTIONS["sample_distinct"], [0, 1, 4]):
        assert len({one.text for one in hypotheses}) == 3


class WordVocabulary(LetterVocabulary):
    """Two letters and a digit, which begin or continue a word, and a full stop: so few that words
    overlap, and that a long text soon repeats them all."""

    suffix: ClassVar[str] = ".words"
    pieces = ("<pad>", "<unk>", "<s>", "</s>", "▁", *"ab1.", *("▁" + letter for letter in "ab1"))
    size = len(pieces)

    def tokenize(self, text: str) -> list[int]:
        pieces: list[str] = []
        for first, *others in text.split():
            pieces += ["▁" + first] if "▁" + first in self.pieces else ["▁", first]
            pieces += others
        known = [self.pieces.index(piece) if piece in self.pieces else UNK for piece in pieces]
        return [*known, EOS]

    def detokenize(self, ids) -> str:
        ids = list(ids)
        ids = ids[: ids.index(EOS)] if EOS in ids else ids
        return "".join(self.pieces[t] for t in ids if t >= 4).replace("▁", " ").strip()

    def to_bytes(self) -> bytes:
        return b"words"


class MarkVocabulary(WordVocabulary):
    """Two letters and two vowel signs of Devanagari (marks, not letters) in place of a, b and 1."""

    suffix: ClassVar[str] = ".marks"
    pieces = ("<pad>", "<unk>", "<s>", "</s>", "▁", *"कमाि.", *("▁" + letter for letter in "कम"))
    size = len(pieces)


def has_words(text: str, phrase: str) -> bool:
    """Whether the text has the phrase as whole words."""
    before = r"(?<!\w)" if phrase[0].isalnum() else ""
    after = "" if phrase[-1] == "." else r"(?!\w)"
    return regex.search(before + regex.escape(phrase) + after, text) is not None


@pytest.mark.parametrize(
    ("vocabulary", "letters", "more"),
    [
        pytest.param(WordVocabulary, "ab1.", {}, marks=pytest.mark.slow),
        pytest.param(
            WordVocabulary,
            "ab1.",
            {"no_repeat_ngram_size": 1, "min_target_length": 10, "beam_size": 2}
            | {"num_hypotheses": 2},
            marks=pytest.mark.slow,
        ),
        (MarkVocabulary, "कमाि", {}),
    ],
)
def test_constraints_always_hold_as_whole_words(rng, vocabulary, letters, more):
    config = dataclasses.replace(CONFIG, target_length_ratio=1.0, max_rows_per_batch=64)
    translator = make_translator(
        dataclasses.replace(config, tokens_per_batch=1024, **more), vocabulary=vocabulary
    )

    def words(most: int) -> str:
        return " ".join("".join(rng.choice([*letters], rng.integers(1, 3))) for _ in range(most))

    sentences = [words(rng.integers(1, 5)) for _ in range(256)]
    constraints = [
        [words(rng.integers(1, 3)) for _ in range(rng.integers(1, 4))] for _ in sentences
    ]
    prefixes = [words(rng.integers(1, 3)) for _ in sentences] if more else [""] * len(sentences)
    found = translator.translate(sentences, constraints=constraints, prefixes=prefixes)
    for hypotheses, phrases, prefix in zip(found, constraints, prefixes, strict=True):
        assert hypotheses
        for one in hypotheses:
            assert one.text.startswith(prefix)
            assert all(has_words(one.text, phrase) for phrase in phrases), (one.text, phrases)


class TwinVocabulary(LetterVocabulary):
    """Two tokens for each letter."""

    suffix: ClassVar[str] = ".twins"
    pieces = (*LetterVocabulary.pieces, *LETTERS)
    size = len(pieces)

    def detokenize(self, ids) -> str:
        return super().detokenize(
            t - len(LETTERS) if t >= LetterVocabulary.size else t for t in ids
        )


@pytest.mark.parametrize("strategy", slow_after(1, ["beam", "sample_distinct"]))
def test_texts_are_distinct_even_if_several_tokens_spell_them(strategy):
    """The two tokens of a letter are equally probable here."""
    made = make_translator(vocabulary=TwinVocabulary)
    letters, twins = slice(4, LetterVocabulary.size), slice(LetterVocabulary.size, None)
    params = jax.tree.map(
        lambda x: x.at[twins].set(x[letters]) if len(x) == TwinVocabulary.size else x, made.params
    )
    config = dataclasses.replace(CONFIG, strategy=strategy)
    translator = Translator(made.model, params, made.tokenizer, config, max_source_length=24)
    _, _, requests = translator._prepare(SHORT, False)
    searched = translator.search(requests, config)
    assert any(len({one.text for one in found}) < 3 for found in searched)  # or this is hollow
    translated = [found for found in translator.translate(SHORT) if found[0].tokens]
    for found, all_ in zip(translated, searched, strict=True):
        best = [next(o for o in all_ if o.text == t) for t in dict.fromkeys(o.text for o in all_)]
        assert found == best


class LongWordVocabulary(WordVocabulary):
    """With a long word as one piece, which the tokens of its beginning do not lead to."""

    suffix: ClassVar[str] = ".long"
    pieces = (*WordVocabulary.pieces, "▁ab1a")
    size = len(pieces)


@pytest.mark.parametrize(
    "search", slow_after(1, [{"beam_size": 3}, {"beam_size": 1, "num_hypotheses": 1}])
)
def test_a_longer_piece_can_complete_the_last_word_of_a_prefix(search):
    translator = make_translator(vocabulary=LongWordVocabulary)
    sentences = [f"{a} {b}" for a in ("a", "b", "1", "ab.") for b in ("b", "1a", "bb")]
    completed = 0
    for prefix in ("b. ab", "b. ab ", "b. ab1"):
        found = translator.translate(sentences, prefixes=[prefix] * 12, **search)
        assert all(one.text.startswith(prefix.rstrip()) for of in found for one in of)
        if prefix.endswith(" "):
            assert not any(one.text[5:6].isalpha() for of in found for one in of)
        seen = sum(LongWordVocabulary.size - 1 in of[0].tokens[2:4] for of in found)
        completed += seen if prefix[-1] != " " else 0
    assert completed


def test_a_split_line_keeps_prefix_and_constraints(translator):
    line, phrases = "the sun shines. we do not see. two men run.", ["not", "zab", "men"]
    with pytest.warns(UserWarning, match="split into 3 pieces"):
        ((with_prefix, *_),) = translator.translate([line], prefixes=["ab"])
        ((best, *_),) = translator.translate([line], constraints=[phrases])
    assert with_prefix.text.startswith("ab")
    pieces = translator.translate(
        ["the sun shines.", "we do not see.", "two men run."],
        constraints=[
            ["zab"],
            ["not"],
            ["men"],
        ],  # in the segment that has the phrase, or in the first
    )
    assert best.text == " ".join(of_piece[0].text for of_piece in pieces)


HUGGING_FACE = {"length_normalization": "average", "forced_end": "free"}


@pytest.mark.parametrize(
    "more", slow_after(1, [{"renormalize": True}, {"early_stopping": "heuristic"}])
)
def test_score_gives_what_translate_reports_with_other_rules_too(translator, more):
    config = dataclasses.replace(CONFIG, num_hypotheses=1, **HUGGING_FACE, **more)
    plain, other = favouring(translator, UNK), favouring(translator, UNK, config)
    pairs = zip(SENTENCES, other.translate(SENTENCES), strict=True)
    found = {source: best[0] for source, best in pairs if best[0].tokens}
    limits = [config.length_limit(len(LetterVocabulary().tokenize(source))) for source in found]
    assert [len(best.tokens) for best in found.values()] == limits  # EOS is free in all of them
    scored = other.score(list(found), [best.tokens for best in found.values()])
    expected = pytest.approx([best.score for best in found.values()], abs=1e-4)
    assert [one.score for one in scored] == expected
    usual = favouring(translator, UNK)
    again = usual.score(
        list(found),
        [best.tokens for best in found.values()],
        max_target_length=config.max_target_length,
        **HUGGING_FACE,
        **more,
    )
    assert [one.score for one in again] == expected
    (short,), (usual,) = other.score(["a dog"], ["ein"]), plain.score(["a dog"], ["ein"])
    assert short.score == pytest.approx(short.log_prob / 4**config.length_penalty, rel=1e-5)
    assert (short.log_prob > usual.log_prob + 0.1) == ("renormalize" in more)


def test_score_takes_text_too(translator):
    as_text, as_tokens = translator.score(
        ["a dog", "a dog"], ["ein hund", LetterVocabulary().tokenize("ein hund")]
    )
    assert as_text == as_tokens


def num_programs() -> int:
    return search_batch._cache_size()


def test_no_program_is_compiled_twice(translator):
    translator.translate(SENTENCES)
    compiled = num_programs()
    translator.translate(["other words", "of the same lengths."] * 5)
    translator.translate(["a dog."], length_penalty=0.1)
    make_translator().translate(["an equal model"])
    assert num_programs() == compiled
    translator.translate(["a dog."], beam_size=2, num_hypotheses=1)
    assert num_programs() == compiled + 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("search", "longest", "programs"),
    [
        ({"beam_size": 1, "num_hypotheses": 1}, 80, 2),
        ({"beam_size": 3, "num_hypotheses": 1}, 80, 2),
        ({"beam_size": 3, "num_hypotheses": 3}, 24, 1),
    ],
    ids=["greedy", "beam", "n-best"],
)
def test_after_a_hundred_sentences_nothing_is_compiled(
    rng, compilations, search, longest, programs
):
    """One program takes sources of up to 64 tokens, another one longer sources.

    Each has a second form with fewer batch slots, for a few sentences.
    """
    # With a limit of its own, this test shares no program with other tests.
    config = dataclasses.replace(CONFIG, target_length_margin=6, max_rows_per_batch=64)
    translator = make_translator(config, max_source_length=longest)
    lengths = rng.integers(0, translator.max_source_length, 300)
    sentences = ["".join(rng.choice(list(LETTERS[:-1]), length)) for length in lengths]
    translator.translate(sentences[:100], **search)
    assert compilations.count("jit(search_batch)") == programs
    for one_of_each in ("a", max(sentences, key=len)):
        translator.translate([one_of_each], **search)
    assert compilations.count("jit(search_batch)") == 2 * programs
    compilations.clear()
    for number in (1, 7, 192):  # whatever the other sentences
        some, sentences = sentences[-number:], sentences[:-number]
        translator.translate(some, **search)
    assert compilations == []


class LargeVocabulary(LetterVocabulary):
    """Has several tokens for each letter."""

    size = 300

    def detokenize(self, ids) -> str:
        letters = [token if token < 4 else 4 + (token - 4) % len(LETTERS) for token in ids]
        return super().detokenize(letters)


KINDS = {
    "sinusoidal": {},
    "bfloat16": {"dtype": "bfloat16", "d_ff": 2560},  # longer sums than 2,048
    "rotary": {"positions": "rotary", "num_kv_heads": 2},
    "relative": {"positions": "relative", "activation": "swiglu"},
    "bucketed": {"positions": "bucketed", "norm": "pre"},
    "of other widths": {"d_model": 300, "num_heads": 6, "d_ff": 1200},  # no multiples of 64
}


@pytest.mark.slow
@pytest.mark.default_compiler
@pytest.mark.parametrize(
    ("beam_size", "kind"),
    [*((4, kind) for kind in KINDS), (1, "sinusoidal"), (1, "bfloat16"), (1, "rotary")],
)
def test_other_sentences_change_nothing_at_the_sizes_of_a_real_model(rng, beam_size, kind):
    """XLA chooses its algorithms by size: tiny models do not prove it for others.

    A single sentence has a program with fewer batch slots than many sentences.
    """
    tiny, _ = random_model(LargeVocabulary.size, 0)
    of_kind = {"d_model": 256, "d_ff": 1024, "num_heads": 4, **KINDS[kind]}
    sizes = dataclasses.replace(tiny.config, **of_kind)
    model = tiny.clone(config=sizes)
    params = init_params(model, jax.random.key(0))
    tokenizer = Tokenizer(LargeVocabulary(), LargeVocabulary())
    config = DecodingConfig(beam_size=beam_size, max_target_length=20)

    def make() -> Translator:
        return Translator(model, params, tokenizer, config, max_source_length=64)

    sentences = ["".join(rng.choice(list(LETTERS[:-1]), n)) for n in rng.integers(1, 60, 90)]
    together, few = make().translate(sentences), make()
    alone = [few.translate([sentence])[0] for sentence in sentences[:6]]
    for (mine,), (theirs,) in zip(alone, together, strict=False):
        assert mine.tokens == theirs.tokens
        assert mine.score == pytest.approx(theirs.score, rel=1e-5 if kind != "bfloat16" else 1e-2)


LONG = "the first ends here, the second one is longer, and ends there."


def test_a_long_line_is_split_with_a_warning(translator):
    message = r"line 2: 63 source tokens, but max_source_length is 24; split into 3 pieces"
    with pytest.warns(UserWarning, match=message):
        found = translator.translate(["a dog", LONG])[1]
    pieces = translator.translate(
        ["the first ends here,", "the second one is", "longer, and ends there."]
    )
    assert found[0].tokens == sum((p[0].tokens[:-1] for p in pieces), []) + [EOS]
    assert found[0].score == pytest.approx(sum(p[0].score for p in pieces))
    assert len(found) == 3


def test_a_long_line_can_be_truncated_with_a_warning(translator):
    truncating = make_translator(dataclasses.replace(CONFIG, over_long="truncate"))
    with pytest.warns(UserWarning, match="line 42: 63 source tokens.*only the first 23 are read"):
        found = truncating.translate([LONG], first_line=42)
    assert found == translator.translate([LONG[:23]])


def test_details_add_up(translator):
    sentences = [LONG, *SENTENCES]
    with pytest.warns(UserWarning, match="split into 3 pieces"):
        found = translator.translate(sentences, details=True)
    with pytest.warns(UserWarning, match="split into 3 pieces"):
        plain = translator.translate(sentences)
    without = [[one._replace(details=None) for one in of_line] for of_line in found]
    assert without == plain
    for source, hypotheses in zip(sentences, found, strict=True):
        for one in hypotheses:
            details = one.details
            assert details
            of_target = " ".join("".join(details.target_tokens[:-1]).splitlines())
            if source == LONG:  # white space between pieces has no token
                assert of_target.replace(" ", "") == one.text.replace(" ", "")
            else:
                assert of_target == one.text
            of_source = "".join(details.source_tokens[:-1]).replace("<unk>", ",")
            spelt = source if source.strip(" \t\u200b") else ""
            assert of_source.replace(" ", "") == spelt.replace(" ", "")  # pieces lose spaces
            assert len(details.token_log_probs) == len(details.target_tokens) == len(one.tokens)
            assert details.attention.shape == (len(one.tokens), len(details.source_tokens))
            np.testing.assert_allclose(details.attention.sum(axis=1), 1, atol=1e-5)
            for looked_at, target in details.alignment:
                words = details.attention[target, :-1]
                assert words[looked_at] == words.max()
            assert len(details.alignment) == max(0, len(one.tokens) - 1)
            if source != LONG:
                penalty = ((5 + len(one.tokens)) / 6) ** CONFIG.length_penalty
                total = sum(details.token_log_probs)
                assert total / penalty == pytest.approx(one.score, **ROUNDING)
    pairs = zip(SENTENCES, found[1:], strict=True)
    source, (best, *_) = next(pairs)
    (scored,) = translator.score([source], [best.tokens], details=True)
    assert scored.details and best.details
    assert scored.details.alignment == best.details.alignment


def test_an_ensemble_of_a_model_with_itself_is_that_model(translator):
    found = translator.translate(SHORT)
    assert Translator.ensemble([translator]) is translator
    other = make_translator(seed=1)
    for twins in (
        Translator.ensemble([translator, translator], [3.0, 1.0]),
        Translator.ensemble([translator, other], [1.0, 1e-30]),
    ):
        for ours, theirs in zip(found, twins.translate(SHORT), strict=True):
            assert [one.tokens for one in theirs] == [one.tokens for one in ours]
            scores = [one.score for one in ours]
            assert [one.score for one in theirs] == pytest.approx(scores, **ROUNDING)


def test_an_ensemble_is_the_mean_of_its_members(translator):
    other = make_translator(seed=1)
    both = Translator.ensemble([translator, other], [3.0, 1.0])
    found = [of_line[0] for of_line in both.translate(SHORT)]
    assert [one.text for one in found] != [one[0].text for one in translator.translate(SHORT)]
    turned = Translator.ensemble([other, translator], [1.0, 3.0])
    assert [one[0].tokens for one in turned.translate(SHORT)] == [one.tokens for one in found]
    of_each = [one.score(SHORT, [h.tokens for h in found]) for one in (both, translator, other)]
    for joint, ours, theirs in zip(*of_each, strict=True):
        mean = 0.75 * np.exp(ours.token_log_probs) + 0.25 * np.exp(theirs.token_log_probs)
        assert joint.token_log_probs == pytest.approx(np.log(mean), abs=1e-4)
    reported = [one.score for one in found]
    assert [one.score for one in of_each[0]] == pytest.approx(reported, **ROUNDING)


def test_impossible_ensembles_are_refused(translator):
    words = make_translator(vocabulary=WordVocabulary)
    for members, weights, message in (
        ([], [], "at least one model"),
        ([translator, words], [], "source vocabularies of models 1 and 2 differ"),
        ([translator, translator], [1.0], "one weight above 0 for each of its 2 models"),
        ([translator, translator], [1.0, 0.0], "one weight above 0"),
    ):
        with pytest.raises(ValueError, match=message):
            Translator.ensemble(members, weights)
        with pytest.raises(ValueError, match=message):
            Translator.ensemble(members, np.array(weights))


def test_faults_are_flagged(translator):
    sentences = [*SHORT, "abcdefgh."]
    plain = translator.translate(sentences)
    flagged = translator.translate(sentences, flag_faults=True)
    assert all(one.flags is None for of_line in plain for one in of_line)
    assert [[one._replace(flags=None) for one in of_line] for of_line in flagged] == plain
    assert all(one.flags is not None for of_line in flagged for one in of_line)
    assert 0 < sum(bool(best.flags) for best, *_ in flagged) < len(sentences)


def favouring(translator: Translator, token: int, config: DecodingConfig = CONFIG) -> Translator:
    """A model that often chooses `token`: embedded like a frequent letter, but further out."""
    found = translator.translate(SENTENCES)
    letters = [letter for hypotheses in found for letter in hypotheses[0].tokens[:-1]]
    favourite = Counter(letters).most_common(1)[0][0]
    params = jax.tree.map(  # the shared embedding is the only matrix with a row for each token
        lambda x: x.at[token].set(1.5 * x[favourite]) if len(x) == LetterVocabulary.size else x,
        translator.params,
    )
    return Translator(translator.model, params, translator.tokenizer, config, max_source_length=24)


@pytest.mark.parametrize("allow_unknown", [False, True])
def test_the_unknown_word_appears_only_if_allowed(translator, allow_unknown):
    config = dataclasses.replace(CONFIG, allow_unknown=allow_unknown)
    found = favouring(translator, UNK, config).translate(SENTENCES)
    assert any(UNK in hypotheses[0].tokens for hypotheses in found) == allow_unknown


def test_a_translation_is_one_line_even_if_its_tokens_spell_line_breaks(translator):
    line_break = LetterVocabulary().tokenize("\n")[0]
    found = favouring(translator, line_break).translate(SENTENCES)
    assert any(line_break in hypotheses[0].tokens for hypotheses in found)
    assert not any("\n" in hypotheses[0].text for hypotheses in found)


LINES = st.text(alphabet="ab. \t\r\x0b\u2028\u3000\u200bé。中🙂", max_size=60)


@hypothesis.given(lines=st.lists(LINES, max_size=9))
@hypothesis.settings(deadline=None, max_examples=25)
def test_odd_lines_keep_count_and_order(translator, lines):
    with warnings.catch_warnings(action="ignore"):
        found = translator.translate(lines)
        assert len(found) == len(lines)
        for line, hypotheses in zip(lines, found, strict=True):
            assert hypotheses
            assert all(len(h.text.splitlines()) <= 1 for h in hypotheses)
            blank = not line.strip() or LetterVocabulary().tokenize(line) == [EOS]
            assert (hypotheses[0] == Hypothesis("", [], 0.0)) == blank
    # Same line, same result, wherever it stands.
    assert len({(line, tuple(h[0].tokens)) for line, h in zip(lines, found, strict=True)}) == len(
        set(lines)
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"beam_size": 0}, "beam_size must be at least 1"),
        ({"num_hypotheses": 4}, "widen the beam"),
        ({"beam_size": 31}, "only 30 tokens to choose from"),
        ({"length_penalty": -0.5}, "length_penalty must be at least 0"),
        ({"length_penalty": float("nan")}, "length_penalty must be at least 0"),
    ],
)
def test_impossible_requests_are_refused(translator, given, message):
    with pytest.raises(ValueError, match=message):
        translator.translate(["a"], **given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"max_target_length": 0}, "max_target_length must be at least 1"),
        ({"length_penalty": 30.0}, "at most 10, got 30"),
        ({"strategy": "sample", "temperature": 0.0}, "temperature must be at least 0.001"),
        ({"strategy": "sample", "temperature": 1e-40}, "at least 0.001"),
        ({"temperature": 0.5}, "temperature would change nothing: .* choose strategy 'sample'"),
        ({"strategy": "sample", "coverage_penalty": 0.2}, "set coverage_penalty to 0"),
        ({"strategy": "mbr", "num_hypotheses": 40}, "must not be above num_samples"),
        ({"strategy": "sample", "num_hypotheses": 0}, "num_hypotheses must be at least 1, got 0"),
        ({"beam_size": 0, "num_hypotheses": 0}, "beam_size must be at least 1"),
        ({"min_target_length": 300}, "must not be above max_target_length"),
        ({"repetition_penalty": -1.0}, "repetition_penalty must be at least 0.001"),
        ({"top_p": 0.0}, "top_p must be at least 1e-06 and at most 1"),
        ({"top_k": -1}, "top_k must be at least 0"),
        ({"tokens_per_batch": 0}, "tokens_per_batch must be at least 1"),
        ({"target_length_margin": 0}, "EOS needs one token"),
    ],
)
def test_impossible_configs_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        DecodingConfig(**given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"prefixes": ["", "abc" * 9]},
            r"line 8: .* take 28 tokens, .* no .* more than 16: shorten",
        ),
        ({"constraints": [[], ["abc" * 3, "de" * 4]]}, r"line 8: .* take 18 tokens"),
        ({"prefixes": ["", "ü"]}, "line 8: the prefix 'ü' cannot be written"),
        ({"constraints": [["a"], ["b", "ü"]]}, "line 8: the constraint 'ü' cannot be written"),
        ({"prefixes": ["", "b"], "forbidden": (5,)}, r"line 8: .* needs token 5 \('b'\)"),
        ({"constraints": [[], ["b"]], "forbidden": (5,)}, r"line 8: .* needs token 5 \('b'\)"),
        ({"constraints": [[], ["b"]], "strategy": "sample"}, "line 8: constraints need .* 'beam'"),
        ({"constraints": [[], "ab"]}, r"line 8: .* list of phrases, .* but it is 'ab' \(str\)"),
        ({"constraints": "ab"}, r"put it into a list: \['ab'\]"),
        ({"prefixes": "ab"}, r"put it into a list: \['ab'\]"),
        ({"prefixes": ["a"]}, "2 sources and 1 prefixes"),
        ({"constraints": [["a"]] * 3}, "2 sources and 3 constraint lists"),
        ({"beem_size": 3}, "no field 'beem_size': did you mean beam_size?"),
        ({"prefix": ["a", "b"]}, "no field 'prefix': did you mean prefixes?"),
        ({"quiet": True}, "no field 'quiet'"),
    ],
)
def test_impossible_prefixes_and_constraints_are_refused(translator, given, message):
    with pytest.raises(ValueError, match=message):
        translator.translate(["a dog", "two"], first_line=7, **given)


def test_demands_on_a_blank_line_have_no_effect_and_say_so(translator):
    given = {"prefixes": ["a", "b", ""], "constraints": [[], [], ["a"]], "first_line": 7}
    with pytest.warns(UserWarning) as shown:
        found = translator.translate(["dog", " ", ""], **given)
    assert found[1] == found[2] == [Hypothesis("", [], 0.0)]
    expected = "line {} is blank, so its prefix and constraints have no effect."
    assert [str(one.message) for one in shown] == [expected.format(line) for line in (8, 9)]


def test_an_infinite_ratio_and_empty_constraints_are_accepted(translator):
    endless = dataclasses.replace(CONFIG, target_length_ratio=float("inf"), min_target_ratio=1e10)
    assert endless.length_limit(3) == endless.min_length(3) == CONFIG.max_target_length
    nothing = {"prefixes": [None, ""], "constraints": [None, []]}
    assert translator.translate(["two", "x"], **nothing) == translator.translate(["two", "x"])


def test_all_requests_are_checked_before_the_search(translator, monkeypatch):
    monkeypatch.setattr("flaxformer_mt.translation.translator.search", None)
    options = {"prefixes": ["a", "b"], "constraints": [["c"], ["d"]]}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        translator.check(["a dog", "x" * 99], **options)
    with pytest.raises(ValueError, match="line 2: the constraint 'ü' cannot be written"):
        translator.check(["a dog", "two"], constraints=[["c"], ["ü"]])
    with pytest.raises(ValueError, match="first_line must be a line number"):
        translator.check(["a dog"], first_line="one")


def test_truncated_sources_are_flagged(translator):
    with pytest.warns(UserWarning, match="only the first 23 are read"):
        (found,) = translator.translate(["ab" * 20], over_long="truncate", flag_faults=True)
    reasons = [flag.reason for flag in found[0].flags if flag.kind == "truncation"]
    assert "the last 17 tokens of the source were not read" in reasons
    with pytest.warns(UserWarning, match="only the first 23 are read"):
        score = translator.score("ab" * 20, "b", flag_faults=True)
    assert Flag("truncation", reasons[-1]) in score.flags


def test_warnings_show_no_line_of_code(translator):
    with pytest.warns(UserWarning) as caught:
        translator.translate(["ab" * 20], over_long="truncate")
    shown = warnings.formatwarning(caught[0].message, UserWarning, caught[0].filename, 1)
    assert shown.count("\n") == 1


def test_score_finds_faults_too(translator):
    copied, good = translator.score(
        ["why not stand here"] * 2, ["why not stand here", "b"], flag_faults=True
    )
    assert "copy" in [flag.kind for flag in copied.flags] and copied.details is None
    assert "copy" not in [flag.kind for flag in good.flags]


def test_greedy_search_tracks_no_coverage_and_samples_stop_exactly(translator, monkeypatch):
    programs = []

    def dispatched(params, inputs, positions, segments, options, *, program):
        programs.append((options.coverage_penalty, program.early_stopping))
        raise InterruptedError

    monkeypatch.setattr("flaxformer_mt.translation.searching.search_batch", dispatched)
    for given in (
        {"beam_size": 1, "num_hypotheses": 1, "coverage_penalty": 0.2},
        {"strategy": "sample_distinct", "early_stopping": "first"},
    ):
        with pytest.raises(InterruptedError):
            translator.translate(["x"], **given)
    assert programs[0][0] is None and programs[1][1] == "exact"


@pytest.mark.parametrize(
    ("given", "count", "slots", "rows"),
    [
        ({"beam_size": 1}, 33, 64, 2048),
        ({"beam_size": 2}, 33, 64, 2048),
        ({"beam_size": 5}, 33, 32, 2048),
        ({"beam_size": 5, "max_rows_per_batch": 8}, 33, 8, 256),
        ({"beam_size": 5, "strategy": "sample"}, 33, 64, 2048),
        ({"beam_size": 5, "strategy": "sample", "num_hypotheses": 3}, 33, 53, 2067),
        ({"beam_size": 5, "strategy": "mbr", "num_samples": 300}, 33, 1, 2048),
        # A few sentences have few slots.
        ({"beam_size": 1}, 32, 10, 40),
        ({"beam_size": 5}, 32, 2, 32),
        ({"beam_size": 5}, 33, 32, 2048),
        ({"beam_size": 1, "max_rows_per_batch": 8}, 1, 8, 32),
        ({"beam_size": 5, "strategy": "mbr", "num_samples": 300}, 1, 1, 32),
    ],
)
def test_a_cpu_searches_no_more_than_160_hypotheses_at_a_time(
    monkeypatch, given, count, slots, rows
):

    def dispatched(params, inputs, positions, segments, options, *, program):
        live = program.num_hypotheses if options.each.choose else program.beam_size
        assert live * program.batch_slots <= 160 or program.batch_slots == 1
        raise InterruptedError(program.batch_slots, len(inputs))

    monkeypatch.setattr("flaxformer_mt.translation.searching.search_batch", dispatched)
    translator = make_translator(DecodingConfig())
    with pytest.raises(InterruptedError) as seen:
        translator.translate(["x"] * count, **given)
    assert seen.value.args == (slots, rows)


def test_sampling_ignores_the_beam_size(translator):
    config = dataclasses.replace(CONFIG, strategy="sample", beam_size=99)
    assert not suppressed_tokens(translator.tokenizer, config).all()


def test_impossible_pairs_are_refused(translator):
    for sources, targets, message in (
        (["a"], ["b", "c"], "1 sources and 2 targets"),
        (["a"], [[5, EOS, 6]], "must be EOS"),
        (["a"], [[5, 99, EOS]], r"must be in 0\.\.32"),
        (["a"], [None], r"target 1: must be a string or a list of token ids, but it is None"),
        (["a", "b"], ["b", 3], r"target 2: must be a string or a list .* but it is 3 \(int\)"),
    ):
        with pytest.raises(ValueError, match=message):
            translator.score(sources, targets)


def test_one_string_is_one_sentence(translator):
    hypotheses = translator.translate("a dog runs.")
    assert hypotheses == translator.translate(["a dog runs."])[0]
    assert str(hypotheses[0]) == f"{hypotheses[0]}" == hypotheses[0].text != ""
    (expected,) = translator.translate(["two"], prefixes=["ab"], constraints=[["cd", "e"]])
    assert translator.translate("two", prefixes="ab", constraints=["cd", "e"]) == expected
    pair = translator.score("a dog runs.", hypotheses[0].tokens)
    assert pair == translator.score(["a dog runs."], [hypotheses[0].tokens])[0]


def test_sentences_come_from_any_collection(translator, tmp_path):
    sentences = ["two", "", "x"]
    expected = translator.translate(sentences)
    (tmp_path / "file").write_text("two\n\nx\n")
    with open(tmp_path / "file") as file:
        assert translator.translate(file) == expected
    assert translator.translate(one for one in sentences) == expected
    assert translator.translate(np.array(sentences)) == expected
    prefixes = np.array(["a", "", "b"])
    expected = translator.translate(sentences, prefixes=prefixes.tolist())
    assert translator.translate(sentences, prefixes=prefixes) == expected


@pytest.mark.parametrize(
    ("sentences", "given", "message"),
    [
        ([None], {}, r"line 1: .* must be a string, but it is None \(NoneType\)"),
        (["a", b"b"], {}, r"line 2: .* must be a string, but it is b'b' \(bytes\)"),
        (["a", "\ud800"], {}, r"line 2: .* must be a string without surrogates"),
        (b"a", {}, r"must be a list .* but it is b'a' \(bytes\)"),
        (None, {}, r"must be a list .* but it is None"),
        (["a"], {"prefixes": np.array([1.5])}, "line 1: the prefix must be a string or None"),
        (["a"], {"prefixes": np.array("a")}, "must be"),
        (["a"], {"constraints": [[3]]}, r"line 1: the constraints must be a list of phrases"),
        ("a", {"prefixes": ["b"]}, r"line 1: the prefix must be a string or None, but it is \['b'"),
        ("a", {"constraints": "b"}, "line 1: .* must be a list of phrases, .* but it is 'b'"),
    ],
)
def test_wrong_types_are_refused(translator, sentences, given, message):
    with pytest.raises(ValueError, match=message):
        translator.translate(sentences, **given)


def test_config_fields_of_wrong_types_are_refused():
    """In a process without the type checks of the tests."""
    cases = {
        "beam_size: expected int, got '4'": {"beam_size": "4"},
        "length_penalty: expected float, got '1'": {"length_penalty": "1"},
        "strategy: expected 'beam' or 'sample' or": {"strategy": 3},
        "renormalize: expected bool, got 1": {"renormalize": 1},
        "forbidden: expected a tuple, got [3]": {"forbidden": [3]},
        "forbidden[1]: expected int, got '3'": {"forbidden": (2, "3")},
        "guard: expected FlagLimits, got {}": {"guard": {}},
    }
    program = (
        "from flaxformer_mt.translation.config import DecodingConfig\n"
        f"for message, given in {cases!r}.items():\n"
        "    try:\n"
        "        DecodingConfig(**given)\n"
        "    except ValueError as error:\n"
        "        assert message in str(error), error\n"
        "    else:\n"
        "        raise AssertionError(message)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_numbers_of_numpy_are_numbers():
    given: dict[str, Any] = {"beam_size": np.int64(2), "length_penalty": np.float32(0.5)}
    config = changed_config(DecodingConfig(), given | {"renormalize": np.bool_(True)})
    assert config == DecodingConfig(beam_size=2, length_penalty=0.5, renormalize=True)


def test_a_wrong_line_number_is_refused(translator):
    translate = inspect.unwrap(Translator.translate)  # without the type checks of the tests
    with pytest.raises(ValueError, match=r"first_line must be a line number, .* '1' \(str\)"):
        translate(translator, ["a b"], first_line="1")


def test_a_wrong_checkpoint_name_is_refused(tmp_path):
    load = inspect.unwrap(Translator.load.__func__)  # without the type checks of the tests
    for workdir in (None, 5, ""):
        with pytest.raises(ValueError, match=r"workdir must be the path .* but it is"):
            load(Translator, workdir)
    for name in (None, 1.5, True):
        with pytest.raises(ValueError, match=r"checkpoint must be 'auto', .* but it is"):
            load(Translator, tmp_path, checkpoint=name)


def test_threads_find_what_one_thread_finds():
    """Two threads share a translator from its first call on, with and without warnings."""
    config = dataclasses.replace(CONFIG, target_length_margin=5)  # programs of its own
    parts = [SENTENCES, [*reversed(SENTENCES)]] * 2

    def work(translator: Translator, index: int) -> Any:
        more = {"beam_size": 1 + 2 * (index % 2), "num_hypotheses": 1}
        found = translator.translate(parts[index], **more)
        return found, translator.score(parts[index], [best.tokens for best, *_ in found])

    shared, alone = make_translator(config), make_translator(config)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = list(pool.map(functools.partial(work, shared), range(4)))
        assert found == [work(alone, index) for index in range(4)]


def test_parameters_that_are_not_numbers_are_noticed():
    with pytest.raises(ValueError, match="line 7: the model's score is .* earlier checkpoint"):
        make_translator(scale=float("nan")).translate(["a dog"], first_line=7)


def test_a_foreign_tokenizer_is_refused(translator):
    model = translator.model.clone(target_vocab_size=50)
    with pytest.raises(ValueError, match="target vocabulary size is 50 in the model and 33 in"):
        Translator(model, translator.params, translator.tokenizer, max_source_length=24)
