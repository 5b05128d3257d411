"""Utilities and ranking against sacreBLEU, pair by pair."""

import logging

import numpy as np
import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st

from flaxformer_mt.evaluation.mbr import Utility, expected_utilities, ranked

UTILITIES: tuple[Utility, ...] = ("chrf", "bleu")
TEXTS = st.lists(
    st.one_of(
        st.lists(st.sampled_from(["the", "cat", "cats", "sat", ",", "a"]), max_size=9).map(
            " ".join
        ),
        st.text(alphabet="ab c.ä猫\u2028", max_size=12),
    ),
    min_size=1,
    max_size=8,
)


def rank(samples: list[str], utility: Utility = "chrf") -> list[int]:
    return [index for index, _ in ranked(samples, utility)]


CAT, CATS, DOG = "the cat sat on the mat .", "the cats sat on a mat .", "a dog runs over the grass"


def pair_by_pair(
    candidates: list[str], samples: list[str], utility: Utility, tokenize: str = "13a"
) -> list[float]:
    """Returns the score by sacreBLEU's functions for one sentence (it logs that the text looks
    tokenised)."""
    logging.getLogger("sacrebleu").setLevel(logging.ERROR)

    def value(candidate: str, sample: str) -> float:
        if utility == "chrf":
            return sacrebleu.sentence_chrf(candidate, [sample]).score
        return sacrebleu.sentence_bleu(
            candidate, [sample], tokenize=tokenize, use_effective_order=True
        ).score

    return [float(np.mean([value(c, s) for s in samples])) for c in candidates]


class TestExpectedUtilities:
    @pytest.mark.parametrize("utility", UTILITIES)
    @given(candidates=TEXTS, samples=TEXTS)
    @settings(max_examples=60, deadline=None)
    def test_is_the_mean_of_sacrebleus_sentence_scores(
        self, utility: Utility, candidates: list[str], samples: list[str]
    ) -> None:
        found = expected_utilities(candidates, samples, utility)
        expected = pair_by_pair(candidates, samples, utility)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)

    def test_bleu_of_chinese_counts_characters(self) -> None:
        candidates, samples = ["猫坐在垫子上。", "狗在跑。"], ["猫坐在垫上。", "一只猫坐着。"]
        found = expected_utilities(candidates, samples, "bleu", tokenize="zh")
        expected = pair_by_pair(candidates, samples, "bleu", tokenize="zh")
        np.testing.assert_allclose(found, expected, rtol=1e-9)
        assert found[0] > expected_utilities(candidates, samples, "bleu")[0]

    @pytest.mark.parametrize("utility", UTILITIES)
    @given(samples=TEXTS, random=st.randoms(use_true_random=False))
    @settings(max_examples=40, deadline=None)
    def test_order_of_the_samples_changes_no_bit(
        self, utility: Utility, samples: list[str], random
    ) -> None:
        shuffled = random.sample(samples, len(samples))
        found = expected_utilities(samples, samples, utility)
        assert found.tolist() == expected_utilities(samples, shuffled, utility).tolist()

    @pytest.mark.parametrize("utility", UTILITIES)
    def test_twice_the_same_samples_are_the_same_mean(self, utility: Utility) -> None:
        samples = [CAT, CATS, DOG, CAT]
        np.testing.assert_allclose(
            expected_utilities(samples, samples * 3, utility),
            expected_utilities(samples, samples, utility),
            rtol=1e-12,
        )

    def test_equal_texts_score_100_and_empty_ones_0(self) -> None:
        for utility in UTILITIES:
            assert expected_utilities([CAT], [CAT, CAT], utility)[0] == pytest.approx(100)
            assert expected_utilities(["", "zzz"], [CAT], utility).tolist() == [0, 0]
            assert expected_utilities([], [CAT], utility).shape == (0,)

    def test_no_samples_are_refused(self) -> None:
        with pytest.raises(ValueError, match="at least one sample"):
            expected_utilities([CAT], [])


class TestRank:
    def test_the_sample_that_agrees_most_wins(self) -> None:
        assert rank([DOG, CAT, CATS]) in ([1, 2, 0], [2, 1, 0])
        assert rank([DOG, CATS, CAT, CAT]) == [2, 1, 0]

    @pytest.mark.parametrize("utility", UTILITIES)
    @given(samples=TEXTS, random=st.randoms(use_true_random=False))
    @settings(max_examples=40, deadline=None)
    def test_the_order_of_samples_does_not_change_the_ranking(
        self, utility: Utility, samples: list[str], random
    ) -> None:
        shuffled = random.sample(samples, len(samples))
        found = rank(samples, utility)
        assert [samples[i] for i in found] == [shuffled[i] for i in rank(shuffled, utility)]
        assert all(samples.index(samples[i]) == i for i in found)  # the first of its kind
        assert {samples[i] for i in found} == set(samples)

    def test_ties_are_ordered_by_count_then_by_text(self) -> None:
        # Nothing in common: each agrees only with its own copies.
        assert rank(["bbb", "ccc", "aaa"]) == [2, 0, 1]
        assert rank(["", "bbb", "bbb", " ", " ", " "]) == [1, 3, 0]  # blank agrees with nothing

    def test_no_samples_are_refused(self) -> None:
        with pytest.raises(ValueError, match="at least one sample"):
            rank([])
