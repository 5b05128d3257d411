"""Words of the target language, with vocabularies that SentencePiece learns in an instant."""

import functools
import unicodedata

import numpy as np
import pytest

from flaxformer_mt.data.tokenization.config import TokenizerConfig
from flaxformer_mt.data.tokenization.sentencepiece_vocabulary import SentencePieceVocabulary
from flaxformer_mt.data.tokenization.word_vocabulary import WordVocabulary
from flaxformer_mt.translation.word_ends import Prefix, TargetWords


@functools.cache
def words_of(*lines: str, **how) -> TargetWords:
    """The words of a vocabulary that has a piece for each word and character of the lines."""
    characters = [" ".join("".join(lines).replace(" ", ""))]
    config = TokenizerConfig(vocab_size=600, **how)
    model = SentencePieceVocabulary.learn([*lines, *characters] * 3, config)
    return TargetWords(model)


GERMAN = (
    "der alte Hund, aber! die (schöne) Katze: schläft... »ja« “so” ‚ 's Größe fi 12 % 東京 . ? ; …"
)


@pytest.mark.parametrize(
    ("letter", "continues"),
    [
        *((letter, True) for letter in "aäßя7_אعक"),
        ("ा", True),  # Mc: a vowel sign of Devanagari
        ("ि", True),
        ("्", True),  # Mn: virama
        ("\u0bbe", True),  # Tamil
        ("\u09be", True),  # Bengali
        ("\u064e", True),  # Arabic fatha
        ("\u05b8", True),  # Hebrew qamats
        ("\u0308", True),  # a diaeresis of its own
        ("\u0e34", True),  # a vowel sign of Thai
        ("\u200d", True),  # zero width joiner
        *((letter, False) for letter in "東の한กမ.,-'▁"),
    ],
)
def test_marks_continue_a_word(letter, continues):
    words = words_of(f"a b c{letter} {letter}", normalization="identity")
    pieces = words.pieces
    tokens = [token for token, piece in enumerate(pieces) if piece[:1] == letter]
    assert tokens and all(words.boundary[token] != continues for token in tokens)


@pytest.mark.parametrize(
    ("phrase", "inside"),
    [("कमला", True), ("कम्", True), ("தமிழ்", True), ("กิ", True), ("Hund", True), ("12", True)]
    + [("東京", False), ("한국", False), ("aber!", False), ("カー", False)],
)
def test_a_phrase_ends_inside_a_word_if_a_letter_or_mark_could_change_it(phrase, inside):
    words = words_of(phrase, "a b")
    assert words.ends_inside_word(words.tokenize_phrase(phrase)) == inside


@pytest.mark.parametrize(
    "text",
    ["schläft", "Größe", "ﬁ", "Ｈｕｎｄ", "schläft\u200b", "\ufeffHund", "e\u200bu", "１２", "①"],
)
def test_phrases_and_prefixes_are_normalised_as_sources_are(text):
    words = words_of(GERMAN + " fi 1 2 e u n d H")
    for form in ("NFC", "NFD"):
        given = unicodedata.normalize(form, text)
        expected = words.vocabulary.tokenize(given)[:-1]
        assert list(words.tokenize_phrase(given)) == list(words._tokenize_prefix(given)) == expected
        written = words.vocabulary.detokenize(expected)
        assert written == words.vocabulary.detokenize(words.vocabulary.tokenize(text))


def test_text_outside_the_vocabulary_is_refused():
    words = words_of("der Hund", byte_fallback=False)
    for text in ("Hünd", "\u0308", "中"):
        with pytest.raises(ValueError, match="cannot be written with the target vocabulary"):
            words.tokenize_phrase(text)


@pytest.mark.parametrize(
    ("phrase", "sentence"),
    [
        (", aber", "Hund, aber"),
        (",aber", "Hund,aber"),
        ("! die", "Hund! die"),
        ("?", "Hund?"),
        (") schläft", "Hund) schläft"),
        ("...", "Hund..."),
        ("» ja", "Hund» ja"),
        ("” so", "Hund” so"),
        ("'s", "Hund's"),
        ("東京", "Hund東京"),
        ("aber", "Hund aber"),
        ("(schöne)", "Hund (schöne)"),
        ("»ja«", "Hund »ja«"),
        ("12", "Hund 12"),
        (".so", "Hund .so"),
    ],
)
@pytest.mark.parametrize("byte_fallback", [True, False])
def test_no_space_before_punctuation_that_follows_a_word(phrase, sentence, byte_fallback):
    words = words_of(GERMAN, byte_fallback=byte_fallback, normalization="identity")
    tokens = words.tokenize_phrase(phrase)
    start = words.vocabulary.tokenize("Hund")[:-1]
    assert words.vocabulary.detokenize([*start, *tokens]) == sentence
    assert words.vocabulary.detokenize(words._tokenize_prefix(phrase)) == phrase


@pytest.mark.parametrize(
    ("phrase", "sentence"), [(":", "Hund:"), (") ja", "Hund) ja"), ("x", "Hund x")]
)
def test_no_space_before_a_sign_that_the_vocabulary_writes_as_a_byte(phrase, sentence):
    words = words_of("der Hund ja", normalization="identity")
    assert not any(phrase[0] in piece for piece in words.pieces if not piece.startswith("<0x"))
    tokens = words.tokenize_phrase(phrase)
    dog = words.vocabulary.tokenize("Hund")[:-1]
    assert words.vocabulary.detokenize([*dog, *tokens]) == sentence
    assert words.boundary[tokens[0]]


@pytest.mark.parametrize(
    ("text", "forced", "word"),
    [
        ("der alte Hun", "der alte", "▁Hun"),
        ("der alte Hund", "der alte", "▁Hund"),
        ("Hund", "", "▁Hund"),
        ("der alte Hund ", "der alte Hund", ""),  # a space ends the word
        ("der alte Hund,", "der alte Hund,", ""),
        ("der alte Hund, ", "der alte Hund,", ""),
        ("der " + "o" * 20, "der oooo", "o" * 16),  # the beginning of a long word is forced
        ("der 🙂a", "der 🙂", "a"),  # bytes too
    ],
)
def test_the_last_word_of_a_prefix_is_open(text, forced, word):
    words = words_of("der alte Hund Hunde", GERMAN)
    prefix = words.make_prefix(text)
    assert words.vocabulary.detokenize(prefix.tokens) == forced
    assert prefix.open_word == word
    assert prefix.ends_word == (text == "der alte Hund ")


def test_the_ways_to_complete_a_word():
    words = words_of(*["Hund Hunde"] * 9, GERMAN)
    suppressed = np.zeros(len(words.pieces), bool)
    table = words.completions
    ways = table.ways("▁Hun", suppressed)
    assert ways
    ranked = sorted(table.token_of)
    longer = [piece for piece in ranked if piece.startswith("▁Hun")]
    assert "▁Hund" in longer == ranked[slice(*ways.ranges[0])]
    parts = {words.pieces[token] for token in ways.parts[0] if token >= 0}
    assert parts == {piece for piece in ("▁", "▁H", "▁Hu") if piece in ranked}
    suppressed[[token for piece, token in table.token_of.items() if piece.startswith("n")]] = True
    ways = table.ways("▁Hun", suppressed)
    assert ways and (ways.parts[2:, :] == -1).all()  # after "▁Hu" no piece would begin with "n"
    suppressed[:] = True
    assert table.ways("▁Hun", suppressed) is None


def test_the_last_word_of_a_prefix_need_not_be_in_a_vocabulary_of_words():
    rows = [
        ("<pad>", 0),
        ("<unk>", 0),
        ("<s>", 0),
        ("</s>", 0),
        ("der", 3),
        ("Hund", 2),
        ("Hunde", 1),
    ]
    words = TargetWords(WordVocabulary(rows))
    assert words.make_prefix("der Hun") == Prefix((4,), "Hun")
    assert words.make_prefix("der Hund") == Prefix((4,), "Hund")
    assert words.make_prefix("der Hund ") == Prefix((4, 5))
    assert words.make_prefix("der") == Prefix((4,))  # no other word begins with it
    ways = words.completions.ways("Hun", np.zeros(7, bool))
    assert ways and ways.ranges[0].tolist() == [0, 2] and (ways.parts == -1).all()
    with pytest.raises(ValueError, match="cannot be written"):
        words.make_prefix("der Hut")
