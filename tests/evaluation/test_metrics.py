import math
import random
from typing import Any

import pytest
import sacrebleu

from flaxformer_mt.evaluation.metrics import CorpusScores, MetricScore, default_tokenize


def bleu(hypotheses: list[str], references: list[str], **options: Any) -> MetricScore:
    return CorpusScores(**options).add(hypotheses, references).scores()[0]


def chrf(hypotheses: list[str], references: list[str], **options: Any) -> MetricScore:
    return CorpusScores(**options).add(hypotheses, references).scores()[1]


def test_bleu_of_a_short_translation_by_hand() -> None:
    # All n-grams are right, so BLEU is the brevity penalty alone: exp(1 - 6/5).
    score = bleu(["a b c d e"], ["a b c d e f"])
    assert score.value == pytest.approx(100 * math.exp(1 - 6 / 5))


def test_scores_and_signatures_are_those_of_sacrebleu() -> None:
    hypotheses = ["The dog runs, quickly.", "A man sleeps on a big green sofa ."]
    references = ["The dog runs quickly.", "A man is sleeping on a green sofa ."]
    assert bleu(hypotheses, references).value == pytest.approx(
        sacrebleu.corpus_bleu(hypotheses, [references]).score
    )
    assert chrf(hypotheses, references).value == pytest.approx(
        sacrebleu.corpus_chrf(hypotheses, [references]).score
    )
    assert f"tok:13a|smooth:exp|version:{sacrebleu.__version__}" in bleu(["a"], ["a"]).signature
    assert "nc:6|nw:0" in chrf(["a"], ["a"]).signature


def test_lowercase_is_in_the_signature() -> None:
    hypothesis, reference = ["a dog runs in the park"], ["A Dog Runs In The Park"]
    assert bleu(hypothesis, reference, lowercase=True).value == pytest.approx(100)
    assert bleu(hypothesis, reference).value < 50
    assert chrf(hypothesis, reference, lowercase=True).value == pytest.approx(100)
    assert "case:lc" in bleu(hypothesis, reference, lowercase=True).signature
    assert "case:mixed" in bleu(hypothesis, reference).signature


def test_zh_counts_characters_and_none_splits_at_spaces() -> None:
    hypothesis, reference = ["我们应该保护环境。"], ["我们必须保护环境。"]
    assert bleu(hypothesis, reference, tokenize="zh").value > 20
    assert bleu(hypothesis, reference, tokenize="none").value == 0  # one "word", and it differs
    assert "tok:zh" in bleu(hypothesis, reference, tokenize="zh").signature


def test_unequal_or_empty_sides_are_refused() -> None:
    with pytest.raises(ValueError, match="2 translations but 1 references"):
        bleu(["a", "b"], ["a"])
    with pytest.raises(ValueError, match="2 translations but 1 references"):
        chrf(["a", "b"], ["a"])
    with pytest.raises(ValueError, match="no lines"):
        bleu([], [])


@pytest.mark.parametrize(
    ("reference", "hypothesis"),
    [
        ("我们必须保护环境。", "我们应该保护环境。"),
        ("ผมอ่านหนังสือเล่มนี้ทุกวัน", "ผมอ่านหนังสือเล่มนั้นทุกวัน"),
        ("ကျွန်တော်စာအုပ်ဖတ်သည်", "ကျွန်တော်စာအုပ်ရေးသည်"),
        ("ខ្ញុំអានសៀវភៅនេះ", "ខ្ញុំអានសៀវភៅនោះ"),
        ("ຂ້ອຍອ່ານປຶ້ມຫົວນີ້", "ຂ້ອຍອ່ານປຶ້ມຫົວນັ້ນ"),
    ],
)
def test_a_nearly_right_sentence_without_spaces_scores(reference, hypothesis) -> None:
    assert bleu([hypothesis], [reference], tokenize=default_tokenize([reference])).value > 30
    assert bleu([hypothesis], [reference]).value == 0


@pytest.mark.parametrize(
    ("text", "tokenize"),
    [
        ("我们必须保护环境。", "zh"),
        ("我々は環境を守らなければならない。", "char"),
        ("ꪎꪴ ผมอ่านหนังสือเล่มนี้ทุกวัน", "char"),
        ("Wir lesen 人民日报 jeden Tag.", "13a"),
        ("환경을 보호해야 한다. 1 2 3", "13a"),
        ("", "13a"),
    ],
)
def test_letters_decide_how_bleu_splits_text(text, tokenize) -> None:
    assert default_tokenize([text]) == tokenize


def test_one_tokenizer_suits_all_languages_of_a_text() -> None:
    german, chinese, thai = "Wir schützen die Umwelt.", "我们必须保护环境。", "ผมอ่านหนังสือ"
    assert default_tokenize([*[german] * 9, chinese]) == "zh"
    assert default_tokenize([*[german] * 9, chinese, thai]) == "char"
    assert default_tokenize([*[german] * 40, chinese, ""]) == "13a"
    assert default_tokenize([]) == "13a"


@pytest.mark.parametrize("lowercase", [False, True])
def test_scores_of_parts_are_those_of_the_whole(lowercase):
    rng = random.Random(0)
    words = ["Der", "Hund", "läuft", "über", "die", "Straße", ".", ""]
    hypotheses, references = (
        [" ".join(rng.choices(words, k=rng.randint(0, 9))) for _ in range(50)] for _ in range(2)
    )
    hypotheses[10:30] = references[10:30]
    scores = CorpusScores(lowercase=lowercase)
    for start, end in ((0, 1), (1, 17), (17, 50)):
        scores.add(hypotheses[start:end], references[start:end])
    assert scores.num_lines == 50
    assert scores.scores() == (
        bleu(hypotheses, references, lowercase=lowercase),
        chrf(hypotheses, references, lowercase=lowercase),
    )
    by_sacrebleu = [
        metric(lowercase=lowercase).corpus_score(hypotheses, [references]).score
        for metric in (sacrebleu.BLEU, sacrebleu.CHRF)
    ]
    assert [score.value for score in scores.scores()] == by_sacrebleu


def test_effective_order_ignores_ngrams_that_are_longer_than_every_line() -> None:
    lines = ["two words", "one"]
    assert bleu(lines, lines).value == 0
    score = bleu(lines, lines, effective_order=True)
    assert score.value == pytest.approx(100) and "eff:yes" in score.signature
