"""Words that a model does not know are found in the source and copied into the translation."""

import dataclasses
import json
from collections.abc import Sequence

import numpy as np
import pytest
from letter_models import CONFIG, LetterVocabulary, TagVocabulary, make_translator

from flaxformer_mt import translate
from flaxformer_mt.data.sources.pair import Pair
from flaxformer_mt.data.tokenization import known_words
from flaxformer_mt.data.tokenization.config import TokenizerConfig
from flaxformer_mt.data.tokenization.known_words import UNKNOWN_WORD
from flaxformer_mt.data.tokenization.tokenizer import LearningText, Tokenizer, build_tokenizer
from flaxformer_mt.translation import unknown_words
from flaxformer_mt.translation.segments import segment_lines
from flaxformer_mt.translation.translator import Translator
from flaxformer_mt.translation.unknown_words import (
    MarkKind,
    UnknownWord,
    can_mask,
    copy_unknown_words,
    find_unknown_words,
    hide_unknown_marks,
    is_in_upper_case,
    mask_unknown_words,
)

TRAINING = ["The small dog sees 2 cats.", "Don't walk, she said!", "Anna's cat walks at 5:30."]
BYTES = TokenizerConfig(vocab_size=330)


def tokenizer_of(directory, config: TokenizerConfig, lines: list[str] = TRAINING) -> Tokenizer:
    pairs = [Pair(line, line) for line in lines * 5]
    return build_tokenizer(config, LearningText(pairs=lambda: pairs), directory=directory)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory) -> Tokenizer:
    return tokenizer_of(tmp_path_factory.mktemp("bytes"), BYTES)


def unknown_in(text: str, tokenizer: Tokenizer, limit: int | None = None) -> list[str]:
    inputs = np.asarray(tokenizer.source.tokenize(text)[:limit], np.int32)
    return [word.text for word in find_unknown_words(text, inputs, tokenizer)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (TRAINING[0], []),
        (" ".join(TRAINING), []),
        ("the Dog: she said (\u201cdon't!\u201d) \u2014 walk; cats?", []),  # case, marks
        ("the DON dog, dOg", ["DON", "dOg"]),  # known as other tokens only
        ("the zebra sees cats", ["zebra"]),
        ("The Zebra, the zebra.", ["Zebra", "zebra"]),
        ("she sees 2 dogs", ["dogs"]),
        ("she sees 17 cats at 6:45.", ["17", "6:45"]),
        ("the dog walks $3.50", ["$3.50"]),
        ("the cat \U0001f600 walks", ["\U0001f600"]),
        ("the well-known New-York cat", ["well-known", "New-York"]),
        ("see www.example.com/a-b_c!", ["see", "www.example.com/a-b_c"]),
        ("see https://example.com/a?b=1, she said!", ["see", "https://example.com/a?b=1"]),
        ("Anna's cat sees (a.b@example.com).", ["a.b@example.com"]),
        ("the cat sees Dr. Dog", ["Dr."]),
        ("the dog sees J. Dog and Fido.", ["J.", "and", "Fido"]),
        ("the \u732b sees", ["\u732b"]),
        ("the \uff44\uff4f\uff47 walks", []),  # a known word in full width
        ("the foo\x1cbar walks", ["foo", "bar"]),  # str.splitlines would split there
        ("John Smith walks", ["John", "Smith"]),
        ("", []),
    ],
)
def test_words_that_the_training_text_lacks_are_unknown(tokenizer, text, words):
    assert unknown_in(text, tokenizer) == words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("THE SMALL DOG!", True),
        ("DOG", True),
        ("THE ZEBRA", True),
        ("THE dog", False),
        ("NASA", False),  # not known in lower case either
        ("A 2", False),
        ("2 !", False),
        ("", False),
    ],
)
def test_text_in_upper_case(tokenizer, text, expected):
    assert is_in_upper_case(text, tokenizer) == expected
    assert not is_in_upper_case(text, dataclasses.replace(tokenizer, known_words=None))


def test_the_length_of_a_sentence_in_upper_case_is_that_in_lower_case(with_unknown_word):
    tokenize = with_unknown_word.source.tokenize
    lower, upper = "the small dog sees 2 cats.", "THE SMALL DOG SEES 2 CATS."
    limit = len(tokenize(lower))
    assert len(tokenize(upper)) > limit  # letters instead of words
    how = {"max_source_length": limit, "over_long": "split", "mask_unknown": True}
    (request,) = segment_lines([upper], with_unknown_word, first_line=1, **how)
    assert request.inputs.tolist() == tokenize(lower)
    assert request.in_upper_case


def test_tokens_of_an_unknown_word_are_its_own(tokenizer):
    text = "the small zebra sees Xerxes"
    inputs = np.asarray(tokenizer.source.tokenize(text), np.int32)
    for word in find_unknown_words(text, inputs, tokenizer):
        assert tokenizer.source.detokenize(inputs[word.start : word.end].tolist()) == word.text


def test_after_a_tag_too(tokenizer):
    """The tag here is a word; its tokens come before those of the text."""
    inputs = np.asarray(tokenizer.source.tokenize("small zebra"), np.int32)
    (word,) = find_unknown_words("zebra", inputs, tokenizer, tag="small ")
    assert tokenizer.source.detokenize(inputs[word.start : word.end].tolist()) == "zebra"


class TagWithText(TagVocabulary):
    """A tag without text has no token, as in SentencePiece."""

    def tokenize(self, text: str) -> list[int]:
        return [self.eos_id] if text == ">>fr<<" else super().tokenize(text)


def test_a_tag_has_a_token_of_its_own(tokenizer):
    source = TagWithText()
    tagged = dataclasses.replace(tokenizer, source=source, known_words=frozenset())
    inputs = np.asarray(source.tokenize(">>fr<<zebra"), np.int32)
    (word,) = find_unknown_words("zebra", inputs, tagged, tag=">>fr<<")
    assert (word.start, word.end) == (1, 6)


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    "text", ["a." * 50_000, "a" * 100_000, "a.b-" * 25_000 + "@", "(a@b.de) " * 12_000]
)
def test_a_long_text_without_spaces_takes_little_time(tokenizer, text):
    assert len(list(known_words.words_in(text))) <= 50_000
    assert hide_unknown_marks(text, tokenizer).text


def test_words_beyond_the_limit_are_not_read(tokenizer):
    """Otherwise a very long line would take very long."""
    limit = len(tokenizer.source.tokenize("the zebra sees"))
    assert unknown_in("the zebra sees" + " xerxes" * 20_000, tokenizer, limit) == ["zebra"]


def test_a_run_without_known_words_marks_unseen_characters_only(tokenizer, tmp_path):
    """So does a run of many words, and a workdir that an older version made."""
    tokenizer.save(tmp_path)
    (tmp_path / "source.words.txt").unlink()
    old = Tokenizer.load(tmp_path)
    assert old.known_words is None
    assert unknown_in("The swan sees 22 cats, she said.", old) == []
    assert unknown_in("the cat \U0001f600 walks \u732b\u732b!", old) == [
        "\U0001f600",
        "\u732b\u732b",
    ]
    rare = dataclasses.replace(
        old, settings={**old.settings, "character_coverage": 0.9995}
    )  # then training text has bytes too
    assert unknown_in("the cat \U0001f600 walks", rare) == []
    pretrained = dataclasses.replace(old, settings={**old.settings, "source_model": "big.model"})
    assert unknown_in("the cat \U0001f600 walks", pretrained) == []


@pytest.mark.parametrize(
    "config",
    [
        dataclasses.replace(BYTES, vocab_size=60, byte_fallback=False),
        TokenizerConfig(kind="word", shared=False, vocab_size=1000),
    ],
)
def test_the_unknown_token_marks_words_too(tmp_path, config):
    lines = [line.replace(".", " .").replace("!", " !") for line in TRAINING]
    made = dataclasses.replace(tokenizer_of(tmp_path, config, lines), known_words=None)
    assert unknown_in(lines[0], made) == []
    assert unknown_in("The small \u017bubr sees \u732b !", made) == ["\u017bubr", "\u732b"]
    assert unknown_in('The "\u017bubr" \u2014 sees', made) == ["\u017bubr"]


def test_known_words_are_saved(tokenizer, tmp_path):
    tokenizer.save(tmp_path)
    assert Tokenizer.load(tmp_path).known_words == tokenizer.known_words
    assert tokenizer.known_words and {"anna's", "don't", "5", "the"} <= tokenizer.known_words
    assert tokenizer.known_marks == {".", ",", "!", "'", ":"} < tokenizer.known_words


def test_a_mark_of_the_target_alone_is_hidden(tmp_path):
    """A shared vocabulary has a token for it, but the model never read it."""
    pairs = [Pair(line, f"{line} U-Bahn") for line in TRAINING * 5]
    made = build_tokenizer(BYTES, LearningText(pairs=lambda: pairs), directory=tmp_path)
    assert made.unseen_tokens.isdisjoint(made.source.tokenize("-"))
    assert hide_unknown_marks("- the dog sees, she said…", made).before == "- "
    assert hide_unknown_marks("the dog sees, she said…", made).text == "the dog sees, she said…"
    old = dataclasses.replace(made, known_words=made.known_words - made.known_marks)
    assert hide_unknown_marks("- the dog sees.", old).text == "- the dog sees."


def test_many_words_or_text_without_spaces_have_no_list(monkeypatch):
    assert known_words.few_words(["a b", "b Cd…", "AB"]) == {"a", "b", "cd", "aB", "."}
    assert known_words.few_words(["a b", "我喜欢狗"]) is None
    monkeypatch.setattr(known_words, "MAX_KNOWN_WORDS", 2)
    assert known_words.few_words(["a b", "b A"]) == {"a", "b"}
    assert known_words.few_words(["a b", "b c"]) is None


def test_a_vocabulary_from_elsewhere_has_no_list(tokenizer, tmp_path):
    (tmp_path / "big.model").write_bytes(tokenizer.source.to_bytes())
    config = dataclasses.replace(BYTES, source_model=str(tmp_path / "big.model"))
    assert tokenizer_of(tmp_path / "new", config).known_words is None


# ------------------------------------------------------------------ one word for all of them


@pytest.fixture(scope="module")
def with_unknown_word(tmp_path_factory) -> Tokenizer:
    """Of a training text that has `UNKNOWN_WORD`."""
    lines = [*TRAINING, f"The {UNKNOWN_WORD} walks."]
    return tokenizer_of(tmp_path_factory.mktemp("unknown"), BYTES, lines)


def masked(text: str, tokenizer: Tokenizer, tag: str = "") -> tuple[str, list[tuple[str, str]]]:
    """Returns the text of the tokens; and each unknown word, and the text of its tokens."""
    inputs = np.asarray(tokenizer.source.tokenize(tag + text), np.int32)
    words = find_unknown_words(text, inputs, tokenizer, tag=tag)
    if can_mask(tokenizer):
        inputs, words = mask_unknown_words(text, inputs, words, tokenizer, tag=tag)
    read = tokenizer.source.detokenize
    return read(inputs), [(one.text, read(inputs[one.start : one.end])) for one in words]


def test_unknown_words_are_masked(with_unknown_word):
    text, words = masked("the zebra, 17 cats see Xerxes!", with_unknown_word)
    assert text == "the □, □ cats □!"
    assert words == [("zebra", "□"), ("17", "□"), ("see Xerxes", "□")]
    assert masked("the □ walks", with_unknown_word) == ("the □ walks", [("□", "□")])
    text, words = masked("the walks or walk ra", with_unknown_word)  # "or", "ra": not in words
    assert (text, words) == ("the walks □ walk □", [("or", "□"), ("ra", "□")])
    text, words = masked("zebra walks", with_unknown_word, tag="small ")
    assert (text, words) == ("small □ walks", [("zebra", "□")])


def test_what_is_not_masked(tokenizer, with_unknown_word):
    """Nothing if the training text lacks the word, or if the tokens become more."""
    words = [("zebra", "zebra")]
    assert masked("the zebra walks", tokenizer) == ("the zebra walks", words)
    text = "the zebra walks"
    inputs = np.asarray(with_unknown_word.source.tokenize(text)[:3], np.int32)  # truncated
    found = [UnknownWord("zebra", 1, 3, 4)]
    result = mask_unknown_words(text, inputs, found, with_unknown_word)
    assert result == (inputs, tuple(found)) and len(inputs) == 3


@pytest.mark.parametrize(
    ("text", "before", "inner", "after", "marks"),
    [
        ("the dog, she said!", "", "the dog, she said!", "", []),
        ('"The dog walks."', '"', "The dog walks.", '"', []),
        (" - **the dog** ;", " - **", "the dog", "** ;", []),
        (
            "see *the* dog (a cat) / cats*.",
            "",
            "see  the  dog  a cat    cats .",
            "",
            [
                ("*", 4, "opening"),
                ("*", 8, "closing"),
                ("(", 14, "opening"),
                (")", 20, "closing"),
                ("/", 22, "separate"),
                ("*", 28, "closing"),
            ],
        ),
        ("she said,*cat*!", "", "she said, cat !", "", [("*", 9, "opening"), ("*", 13, "closing")]),
        ("zebra/cat \u2026", "", "zebra cat \u2026", "", [("/", 5, "joining")]),  # NFKC: stops
        ("a; b \u2014 c - d", "", "a, b,  c,  d", "", []),  # clauses
        ("don\u2019t walk\u2014the dog", "", "don't walk the dog", "", [("\u2014", 10, "joining")]),
        ("1. the dog", "1. ", "the dog", "", []),
        (" 2) *the dog", " 2) *", "the dog", "", []),
        ("2 cats", "", "2 cats", "", []),
        ("1. ***", "", "1. ***", "", [("1. ***", 0, "")]),
        ("a-b", "", "a b", "", [("-", 1, "joining")]),
        (" *** ", "", " *** ", "", [("***", 1, "")]),
        ("  ", "", "  ", "", []),
    ],
)
def test_marks_that_the_training_text_lacks_are_hidden(
    with_unknown_word, text, before, inner, after, marks
):
    found = hide_unknown_marks(text, with_unknown_word)
    assert (found.before, found.text, found.after) == (before, inner, after)
    assert [(one.text, one.first_character, one.mark) for one in found.marks] == marks
    assert len(found.before + found.text + found.after) == len(text)


def test_marks_beside_unknown_words_are_part_of_them(with_unknown_word):
    tokenizer = with_unknown_word
    text_of = tokenizer.source.detokenize

    def read(text: str) -> tuple[str, list[tuple[str, str]]]:
        """Returns what the model reads; and each word, or marks, with the text before."""
        hidden = hide_unknown_marks(text, tokenizer)
        inputs = np.asarray(tokenizer.source.tokenize(hidden.text), np.int32)
        words = (*find_unknown_words(hidden.text, inputs, tokenizer), *hidden.marks)
        inputs, words = mask_unknown_words(hidden.text, inputs, words, tokenizer)
        return text_of(inputs), [(one.text, text_of(inputs[: one.start])) for one in words]

    assert read("walks (the dog") == ("walks the dog", [("(", "walks")])
    assert read("the dog-cat walks") == ("the dog cat walks", [])
    assert read("the ice-cream walks") == ("the □ walks", [("ice-cream", "the")])
    assert read("the cat) walks") == ("the cat walks", [(")", "the")])
    assert read("the zebra/okapi (a cat)") == (
        "the □ □ cat",
        [("zebra/okapi", "the"), ("(a", "the □")],
    )
    assert read("***") == ("□", [("***", "")])


def test_a_model_that_reads_no_unknown_word_does_not_read_unknown_marks_either(tokenizer):
    text = "- the zebra (sees a/b) *"
    hidden = hide_unknown_marks(text, tokenizer)
    assert (hidden.before, hidden.text, hidden.after) == ("- ", "the zebra  sees a b", ") *")
    inputs = np.asarray(tokenizer.source.tokenize(hidden.text), np.int32)
    words = (*find_unknown_words(hidden.text, inputs, tokenizer), *hidden.marks)
    text_of = tokenizer.source.detokenize

    def read(limit: int) -> list[tuple[str, str]]:
        """Returns the marks in the first tokens, and the text before each."""
        tokens, found = mask_unknown_words(hidden.text, inputs[:limit], words, tokenizer)
        np.testing.assert_array_equal(tokens, inputs[:limit])
        return [(one.text, text_of(inputs[: one.start])) for one in found if one.mark]

    both = [("(", "the zebra"), ("/", "the zebra sees a")]
    assert read(len(inputs)) == both
    assert read(len(tokenizer.source.tokenize("the zebra sees"))) == both[:1]  # truncated
    assert hide_unknown_marks("***", tokenizer).text == "***"
    assert hide_unknown_marks("***", tokenizer).marks == ()


@pytest.mark.parametrize(
    ("text", "words", "result"),
    [
        ("der q rennt.", [("Rex", 4)], "der Rex rennt."),
        ("q q rennt.", [("Rex", 2), ("Tom", 0)], "Tom Rex rennt."),
        ("q q rennt.", [("Rex", 0)], "Rex Rex rennt."),  # repeated
        ("q rennt.", [("Rex", 0), ("Tom", 8)], "Rex rennt Tom."),  # one is missing
    ],
)
def test_copies_replace_the_unknown_word(monkeypatch, text, words, result):
    monkeypatch.setattr(unknown_words, "UNKNOWN_WORD", "q")
    assert copied(text, words) == result


# ------------------------------------------------------------------ copies


def copied(text: str, words: list[tuple[str, int]], kinds: Sequence[MarkKind] = ()) -> str:
    """Copies words or marks, each of which gets the attention of one letter of `text`."""
    tokens = LetterVocabulary().tokenize(text)
    attention = np.zeros((len(tokens), len(words)), np.float32)
    for source, (_, letter) in enumerate(words):
        attention[letter, source] = 1
    unknown = [UnknownWord(word, i, i + 1) for i, (word, _) in enumerate(words)]
    for i, kind in enumerate(kinds):
        unknown[i] = unknown[i]._replace(mark=kind)
    return copy_unknown_words(text, tokens, attention, unknown, LetterVocabulary())


@pytest.mark.parametrize(
    ("text", "words", "result"),
    [
        ("der hund rennt.", [("Rex", 4)], "der Rex hund rennt."),
        ("der hund rennt.", [("Rex", 6)], "der Rex hund rennt."),  # never within a word
        ("der hund rennt.", [("Rex", 15)], "der hund rennt Rex."),  # EOS: before the full stop
        ("der hund rennt.", [("Rex", 0)], "Rex der hund rennt."),
        ("der hund rennt.", [("John", 4), ("Smith", 12)], "der John Smith hund rennt."),
        ("der hund rennt.", [("$5", 15), ("\U0001f600", 0)], "der hund rennt $5 \U0001f600."),
        ("der hund rennt.", [("Hund", 4)], "der hund rennt."),  # already there
        ("die hunde rennen", [("Hund", 4)], "die hunde rennen"),  # with an ending
        ("der hund", [("und", 4)], "der und hund"),  # only within a word
        ("x.y rennt", [("x.y", 4)], "x.y rennt"),
        ("xzy rennt", [("x.y", 4)], "xzy x.y rennt"),
        ("", [("Rex", 0)], "Rex"),
        ("Jos\u00e9 rennt", [("Jose\u0301", 0)], "Jos\u00e9 rennt"),  # the same, decomposed
    ],
)
def test_missing_words_are_copied_to_the_place_of_most_attention(text, words, result):
    assert copied(text, words) == result


@pytest.mark.parametrize(
    ("text", "marks", "result"),
    [
        ("der hund rennt.", [("(", 4, "opening"), (")", 6, "closing")], "der (hund) rennt."),
        ("der hund rennt.", [("(", 0, "opening"), (")", 14, "closing")], "(der hund rennt)."),
        # A mark opens before it closes, whatever the attention.
        ("der hund rennt.", [("(", 14, "opening"), (")", 6, "closing")], "der (hund) rennt."),
        ("der hund rennt.", [("/", 4, "joining")], "der/hund rennt."),
        ("der hund rennt.", [("/", 4, "separate")], "der / hund rennt."),
        ("der hund", [("(", 8, "opening")], "der hund ("),
        ("", [("(", 0, "opening")], "("),
        ("", [(")", 0, "closing")], ")"),
    ],
)
def test_marks_stand_beside_the_word_of_most_attention(text, marks, result):
    words = [(mark, letter) for mark, letter, _ in marks]
    assert copied(text, words, [kind for *_, kind in marks]) == result


@pytest.fixture(scope="module")
def translator() -> Translator:
    """A random model that knows two words."""
    made = make_translator()
    tokenizer = dataclasses.replace(made.tokenizer, known_words=frozenset({"dog", "a"}))
    return Translator(made.model, made.params, tokenizer, CONFIG, max_source_length=24)


@pytest.fixture
def masking_translator(monkeypatch, translator) -> Translator:
    """The same model; "q" stands for any unknown word."""
    monkeypatch.setattr(unknown_words, "UNKNOWN_WORD", "q")
    tokenizer = dataclasses.replace(translator.tokenizer, known_words=frozenset({"dog", "a", "q"}))
    model, params = translator.model, translator.params
    return Translator(model, params, tokenizer, CONFIG, max_source_length=24)


def test_a_translation_has_the_unknown_words_once(translator):
    known, two = "a dog.", "a dog. the dog 7."
    found = translator.translate([known, two, "a 7"])
    plain = translator.translate([known, two, "a 7"], copy_unknown=False)
    assert found[0] == plain[0]
    assert not found[0][0].unknown
    for line, words in ((1, ("the", "7")), (2, ("7",))):
        for one, without in zip(found[line], plain[line], strict=True):
            assert one.unknown == without.unknown == words
            assert (one.tokens, one.score) == (without.tokens, without.score)
            assert all(word in one.text for word in words)
            assert "7" not in without.text and one.text.count("7") == 1


def test_the_model_reads_the_unknown_word(masking_translator, translator):
    """Instead of each word that it does not know."""
    trained = masking_translator
    (one, *_), (known, *_) = trained.translate(["a dog zz dog 7.", "a dog q dog q."])
    assert one.tokens == known.tokens and one.score == known.score
    assert one.unknown == ("zz", "7") and "zz" in one.text and "7" in one.text
    plain = translator.translate("a dog zz.", copy_unknown=False)
    assert trained.translate("a dog zz.", copy_unknown=False) == plain
    flagged = trained.translate("a dog zzzz.", flag_faults=True)
    assert all("not read" not in flag.reason for one in flagged for flag in one.flags or ())


def test_a_sentence_in_upper_case_is_translated_in_lower_case(masking_translator):
    trained = masking_translator
    lower, upper, single = trained.translate(["a dog zz.", "A DOG ZZ.", "ZZ"])
    assert [(one.tokens, one.score) for one in upper] == [(x.tokens, x.score) for x in lower]
    assert [one.text for one in upper] == [one.text.upper() for one in lower]
    assert {one.unknown for one in (*upper, *single)} == {("ZZ",)}
    as_it_is = trained.translate("A DOG ZZ.", copy_unknown=False)
    assert [one.tokens for one in as_it_is] != [one.tokens for one in lower]


def test_marks_around_a_sentence_stay_around_its_translation(masking_translator, translator):
    trained = masking_translator
    plain, quoted, inner = trained.translate(["a dog.", '- "a dog."', "a #dog."])
    assert [one.text for one in quoted] == [f'- "{one.text}"' for one in plain]
    assert [(one.tokens, one.score) for one in quoted] == [(x.tokens, x.score) for x in plain]
    assert all(one.unknown == ("#",) and "#" in one.text for one in inner)
    as_they_are = trained.translate('"a dog."', copy_unknown=False)
    assert as_they_are == translator.translate('"a dog."', copy_unknown=False)


def test_a_translation_with_a_prefix_or_constraints_has_no_copies(translator):
    for demands in ({"prefixes": "b"}, {"constraints": ["bc"]}):
        plain = translator.translate("a 7", copy_unknown=False, **demands)
        assert translator.translate("a 7", **demands) == plain
        assert plain[0].unknown == ("7",)


def test_no_piece_of_a_line_with_a_prefix_has_copies(translator):
    line = "a dog " * 12 + "a 7 dog"
    with pytest.warns(UserWarning, match="split into"):
        (one, *_) = translator.translate(line, prefixes="b", over_long="split")
    assert one.unknown == ("7",) and "7" not in one.text


def test_details_do_not_change_copies(translator):
    found = translator.translate(["a 7", "a dog"], details=True, flag_faults=True)
    plain = translator.translate(["a 7", "a dog"])
    assert [[one.text for one in of] for of in found] == [[one.text for one in of] for of in plain]
    assert all(one.details and one.flags is not None for of in found for one in of)
    assert all(one.details is None and one.flags is None for of in plain for one in of)
    without = translator.translate("a 7", details=True, copy_unknown=False)
    assert without[0].details and "7" not in without[0].text


def test_results_depend_on_known_words_so_the_fingerprint_does(translator):
    assert translator.fingerprint != make_translator().fingerprint
    assert make_translator().fingerprint == make_translator().fingerprint


def test_results_depend_on_the_longest_source_so_the_fingerprint_does():
    made = make_translator()
    parts = made.model, made.params, made.tokenizer, CONFIG
    one, other = (Translator(*parts, max_source_length=length) for length in (20, 24))
    assert one.fingerprint != other.fingerprint


def test_results_depend_on_the_weights_of_an_ensemble_so_the_fingerprint_does(translator):
    both = [translator, make_translator(seed=1)]
    one, other = (Translator.ensemble(both, weights) for weights in ([9, 1], [1, 9]))
    assert one.fingerprint != other.fingerprint


COMMAND = [
    *("--decoding.beam-size", "3", "--decoding.num-hypotheses", "3"),
    *("--decoding.target-length-ratio", "0.5", "--decoding.target-length-margin", "4"),
    *("--decoding.tokens-per-batch", "96", "--decoding.max-rows-per-batch", "4"),
]


@pytest.fixture
def run_command(translator, tmp_path, monkeypatch, capfd):
    """Runs the command `translate` with this model; returns output and message."""

    def run(text: str, *more: str) -> tuple[str, str]:
        monkeypatch.setattr(Translator, "load", lambda workdir, **_: translator)
        (tmp_path / "text").write_text(text, encoding="utf-8")
        given = ["--workdir", str(tmp_path), "--input", str(tmp_path / "text"), *COMMAND, *more]
        capfd.readouterr()
        assert translate.main(given) == 0
        written, message = capfd.readouterr()
        return written, "".join(line for line in message.splitlines() if "does not know" in line)

    yield run
    translator.config = CONFIG


def test_the_command_counts_the_lines_with_unknown_words(run_command):
    text = "a dog.\na 7. the dog\n\na 7\n"
    written, message = run_command(text, "--json")
    assert message == (
        "2 of 4 lines had words that the model does not know: copies of them are in the "
        "translation; --json names them"
    )
    found = [json.loads(line)["hypotheses"] for line in written.splitlines()]
    assert [line[0].get("unknown") for line in found] == [None, ["7", "the"], None, ["7"]]
    assert all("7" in one["text"] for line in (1, 3) for one in found[line])
    plain, message = run_command(text, "--json", "--decoding.copy-unknown", "false")
    assert "2 of 4 lines" in message and "they are not in the translation" in message
    assert "7" not in "".join(
        one["text"] for line in plain.splitlines() for one in json.loads(line)["hypotheses"]
    )
    assert run_command("a dog\n")[1] == ""


def test_the_command_splits_lines_unless_told_not_to(run_command):
    sentences, _ = run_command("a dog.\na dog\n", "--json")
    line, _ = run_command("a dog.  a dog\n", "--json")
    first, second = (json.loads(one)["hypotheses"][0]["text"] for one in sentences.splitlines())
    assert json.loads(line)["hypotheses"][0]["text"] == f"{first}  {second}"
    whole, _ = run_command("a dog.  a dog\n", "--json", "--decoding.split-sentences", "false")
    assert whole != line
