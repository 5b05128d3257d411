"""Faults made by hand, and correct translations that look odd."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flaxformer_mt.evaluation.quality_flags import Flag, FlagLimits, check

SOURCE = "The old man reads his newspaper in the park every morning ."
TARGET = "Der alte Mann liest jeden Morgen seine Zeitung im Park ."
EOS = "</s>"


def flags(
    source: str,
    target: str,
    *,
    coverage: np.ndarray | None = None,
    at_limit: bool = False,
    **config: float,
) -> dict[str, str]:
    """Returns the flags if each word is a token; one target token has all the attention."""
    source_tokens, target_tokens = ([*text.split(), EOS] for text in (source, target))
    found = check(
        source,
        source_tokens,
        target,
        target_tokens,
        attention=None if coverage is None else coverage[None],
        at_limit=at_limit,
        config=FlagLimits(**config),
    )
    assert all(isinstance(flag, Flag) for flag in found)
    return dict(found)


def test_good_translation_has_no_flags() -> None:
    assert flags(SOURCE, TARGET) == {}
    assert flags(SOURCE, TARGET, coverage=np.full(13, 0.9)) == {}
    assert flags(TARGET, SOURCE) == {}


@given(st.text(max_size=30), st.text(max_size=30), st.booleans())
def test_any_text_goes_through(source: str, target: str, at_limit: bool) -> None:
    found = flags(source, target, at_limit=at_limit)
    assert all(found.values())
    assert source.strip() or not found  # blank lines give nothing


def test_empty_translation_is_an_omission() -> None:
    assert flags("Hello .", "") == {"omission": "the translation is empty, the source is not"}
    assert set(flags("42", " ")) == {"omission"}
    assert flags("...", "") == {}


@pytest.mark.parametrize(
    "test_set",
    ["multi30k/val", pytest.param("newstest-en-de/newstest2014", marks=pytest.mark.slow)],
)
def test_references_get_no_flags_and_faults_do(shared_data: Path, test_set: str) -> None:
    paths = [shared_data / f"{test_set}.{language}" for language in ("en", "de")]
    sides = [path.read_text(encoding="utf-8").split("\n") for path in paths]
    pairs = [pair for pair in zip(*sides, strict=True) if len(pair[0].split()) >= 8]
    rate = {
        "right": np.mean([bool(flags(source, target)) for source, target in pairs]),
        "copied": np.mean(["copy" in flags(source, source) for source, _ in pairs]),
        "looped": np.mean(["loop" in flags(s, t + " und dann" * 3) for s, t in pairs]),
        "cut": np.mean([bool(flags(s, " ".join(t.split()[:2]))) for s, t in pairs]),
    }
    assert rate["right"] < 0.01
    assert min(rate["copied"], rate["looped"], rate["cut"]) > 0.95, rate


class TestLoop:
    @pytest.mark.parametrize("phrase", ["a", "the cat", "a b c d e f g h i j k l"])
    @pytest.mark.parametrize("end", ["", "x ."])
    def test_is_found_wherever_it_ends(self, phrase: str, end: str) -> None:
        target = " ".join(["Once upon", *[phrase] * 5, end])
        found = flags("Once upon a time there was a cat that sat upon the mat and it was", target)
        assert found["loop"] == f"{phrase!r} is repeated 5 times in a row"

    def test_shortest_stretch_is_named(self) -> None:
        assert flags("x", "ah " * 9) == {"loop": "'ah' is repeated 9 times in a row"}

    def test_pieces_of_words_are_quoted_as_text(self) -> None:
        source, target = ["▁Hel", "lo", EOS], ["▁x", "y", "▁z"] * 3 + [EOS]
        (flag,) = check("Hello", source, "xy z xy z xy z", target)
        assert flag.reason == "'xy z' is repeated 3 times in a row"

    def test_a_single_token_may_be_repeated_once_more(self) -> None:
        assert flags("Ever so long", "sehr sehr sehr lang") == {}
        assert set(flags("Ever so long", "sehr sehr sehr sehr lang")) == {"loop"}
        assert set(flags("Ever so long", "so sehr so sehr so sehr lang")) == {"loop"}
        assert flags("Ever so long", "so sehr so sehr lang") == {}

    def test_repetitions_of_the_source_are_allowed(self) -> None:
        assert flags("ha ha ha ha ha !", "hi hi hi hi hi !") == {}
        assert "loop" in flags("ha ha ha ha !", "hi hi hi hi hi !")
        # The source is one token here, so its characters are compared.
        assert flags("hahahahaha !", "ha ha ha ha ha !") == {}
        # A stretch of many characters is compared by tokens.
        verse = "I would like to dance . "
        assert flags(verse * 4, "Ich will tanzen . " * 4) == {}


class TestCopy:
    def test_unchanged_source_whatever_its_words(self) -> None:
        assert flags(SOURCE, SOURCE)["copy"] == "the translation is the source, unchanged"
        assert set(flags("he is in it and so am I", "he is in it and so am I")) == {"copy"}
        assert set(flags("STOP THE CAR NOW", "STOP THE CAR NOW")) == {"copy"}
        assert set(flags("我们明天要去北京开会3次", "我们明天要去北京开会3次")) == {"copy"}

    def test_share_of_the_longer_words(self) -> None:
        half = "Der alte Mann reads jeden Tag seine newspaper in the park every morning ."
        assert flags(SOURCE, half) == {
            "copy": "5 of the 5 longer words of the source are left unchanged"
        }
        assert flags(SOURCE, TARGET.replace("Zeitung", "newspaper")) == {}

    @pytest.mark.parametrize(
        "text",
        [
            "42",
            "1 000 000 + 3,5 %",
            "https://example.org/some/long/path?with=words",
            "Angela Merkel",
            "{first_name} %(count)s <b> $HOME/bin user@example.org",
            "radio",
            "A - B .",
        ],
    )
    def test_untranslatable_text_may_be_copied(self, text: str) -> None:
        assert flags(text, text) == {}


class TestOmission:
    def coverage(self, num_left_out: int, size: int = 12) -> np.ndarray:
        return np.where(np.arange(size + 1) < num_left_out, 0.05, 1.1)

    def test_share_of_uncovered_tokens(self) -> None:
        assert flags(SOURCE, TARGET, coverage=self.coverage(3)) == {}
        assert flags(SOURCE, TARGET, coverage=self.coverage(4)) == {
            "omission": "4 of the 12 source tokens received hardly any attention (less than 0.2)"
        }

    def test_eos_is_no_word(self) -> None:
        coverage = np.where(np.arange(13) >= 9, 0.0, 1.0)  # EOS and three words
        assert flags(SOURCE, TARGET, coverage=coverage) == {}

    def test_short_sentences_are_not_judged(self) -> None:
        assert flags("A dog .", "Ein Hund .", coverage=np.zeros(4)) == {}

    def test_coverage_of_another_sentence_is_refused(self) -> None:
        with pytest.raises(ValueError, match="9 for 13 tokens"):
            flags(SOURCE, TARGET, coverage=np.ones(9))


class TestLength:
    def test_too_short_and_too_long(self) -> None:
        assert flags(SOURCE, "Alt .")["length"] == (
            "2 tokens for a source of 12: fewer than 0.3 for each source token"
        )
        long = " ".join(f"w{i}" for i in range(12))
        assert flags("Hello there my", long)["length"] == (
            "12 tokens for a source of 3: more than 3 for each source token"
        )
        assert flags(SOURCE, "Alt .", min_length_ratio=0.1) == {}
        assert flags("Hello there my", long, max_length_ratio=4.0) == {}

    def test_short_sentences_have_no_ratio(self) -> None:
        assert flags("Yes", "Ja das ist doch ganz gewiss so") == {}


class TestTruncation:
    def test_search_that_stopped_at_its_limit(self) -> None:
        assert flags(SOURCE, TARGET, at_limit=True) == {
            "truncation": "the search ended the translation at its limit of 12 tokens"
        }

    @pytest.mark.parametrize(
        ("source", "target"),
        [
            (SOURCE, "Der alte Mann liest"),
            ('He said : " The old man reads . "', "Er sagte , dass der alte"),
            (SOURCE, "Der alte Mann liest ,"),
            (SOURCE, "Der alte Mann liest „die"),
            (SOURCE, "Der alte Mann liest „die“"),
            ("老人每天早上在公园看报纸。", "Every morning the old"),
        ],
    )
    def test_end_within_a_sentence(self, source: str, target: str) -> None:
        found = flags(source, target)
        assert set(found) == {"truncation"}
        assert found["truncation"].endswith(f"but the translation with {target.split()[-1]!r}")
        assert flags(source, target, final_punctuation=False) == {}

    @pytest.mark.parametrize(
        "target", ["Er liest !", "Er liest …", "他看报。」", "Er sagt : „ja.“"]
    )
    def test_other_ends_are_accepted(self, target: str) -> None:
        assert flags("He reads his paper .", target) == {}

    def test_headline_has_no_end(self) -> None:
        assert flags("Old man reads", "Alter Mann liest") == {}


@pytest.mark.parametrize(
    ("config", "name"),
    [
        ({"min_length_ratio": -0.1}, "guard.min_length_ratio"),
        ({"min_length_ratio": 3.0}, "guard.min_length_ratio"),
        ({"max_length_ratio": float("nan")}, "guard.max_length_ratio"),
    ],
)
def test_bad_config_names_the_field(config: dict[str, float], name: str) -> None:
    with pytest.raises(ValueError, match=name):
        FlagLimits(**config)
