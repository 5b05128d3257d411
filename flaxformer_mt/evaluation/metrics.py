"""BLEU and chrF of a whole test set, computed and signed by sacreBLEU.

A signature records tokeniser, case and version. Two scores can be compared only if their signatures
agree (Post 2018, "A Call for Clarity in Reporting BLEU Scores",
https://aclanthology.org/W18-6319).
"""

import dataclasses
import functools
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal, Self

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

Tokenize = Literal["13a", "intl", "zh", "char", "none"]
"""How sacreBLEU splits both sides into words before it counts n-grams: "13a" for languages with
spaces, "zh" for Chinese (each Chinese character a word, the rest as "13a"), "char" for any writing
without spaces, "none" for text that is split already."""

# First words of the Unicode names of letters without spaces between words, Chinese aside.
_LETTERS_WITHOUT_SPACES = {
    *("HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN", "TAI", "NEW"),
}


@dataclasses.dataclass(frozen=True)
class MetricScore:
    """One score of one test set, from 0 to 100, higher is better."""

    name: str
    value: float
    signature: str

    def __str__(self) -> str:
        return f"{self.name} {self.value:.2f}   {self.signature}"


class CorpusScores:
    """BLEU and chrF of a test set. Lines can be added in parts; only their counts are kept.

    BLEU has one reference a line, as in `sacrebleu [-tok TOKENIZE] [-lc]`. chrF is chrF2, the
    F-score of character n-grams up to 6 (Popović 2015).
    """

    def __init__(
        self,
        *,
        tokenize: Tokenize = "13a",
        lowercase: bool = False,
        effective_order: bool = False,
    ) -> None:
        """With `effective_order`, BLEU ignores n-grams that are longer than every line."""
        # force: no warning about text that looks tokenised. The signature has the tokeniser.
        bleu_metric = BLEU(
            tokenize=tokenize, lowercase=lowercase, force=True, effective_order=effective_order
        )
        self._metrics = {"BLEU": bleu_metric, "chrF2": CHRF(lowercase=lowercase)}
        self._counts: dict[str, list[float]] = {}
        self.num_lines = 0

    def add(self, hypotheses: Sequence[str], references: Sequence[str]) -> Self:
        """Counts more lines, and returns itself.

        Raises ValueError if the two sides have different lengths or no line at all.
        """
        if len(hypotheses) != len(references):
            raise ValueError(
                f"{len(hypotheses)} translations but {len(references)} references: "
                "each line needs exactly one reference"
            )
        if not hypotheses:
            raise ValueError("no lines to score: both sides are empty")
        self.num_lines += len(hypotheses)
        for name, metric in self._metrics.items():
            # The public `corpus_score` calls this too, but needs all lines at once.
            count = metric._extract_corpus_statistics
            rows = count(list(hypotheses), [list(references)])
            earlier = [self._counts[name]] if name in self._counts else []
            self._counts[name] = [sum(column) for column in zip(*earlier, *rows, strict=True)]
        return self

    def scores(self) -> tuple[MetricScore, MetricScore]:
        """Returns BLEU and chrF of all lines."""
        bleu_score, chrf_score = (
            MetricScore(
                name,
                metric._aggregate_and_compute([self._counts[name]]).score,  # pyrefly: ignore
                str(metric.get_signature()),
            )
            for name, metric in self._metrics.items()
        )
        return bleu_score, chrf_score


def default_tokenize(text: Iterable[str]) -> Tokenize:
    """Returns the BLEU tokenizer for the lines of a text, by their letters.

    "zh" is for Chinese. "char" is for Japanese, Thai, Lao, Khmer, Burmese, Tibetan and others
    without spaces, because sacreBLEU's word tokenizers for them need other packages or a download.
    "13a" is for all others. In a text of several languages, more than one line in 20 without
    spaces is enough for "zh" or "char", because these also split words with spaces.
    """
    lines = Counter(map(_tokenize_line, text))
    choices: tuple[Tokenize, ...] = ("char", "zh")
    return next((choice for choice in choices if 20 * lines[choice] > lines.total()), "13a")


def _tokenize_line(line: str) -> Tokenize:
    """Returns "zh" or "char" if most letters of a line have no spaces between words."""
    scripts = Counter(map(_script, filter(str.isalpha, line)))
    others = sum(scripts[name] for name in _LETTERS_WITHOUT_SPACES)
    if 2 * (scripts["CJK"] + others) <= scripts.total():
        return "13a"
    return "char" if 20 * others > scripts["CJK"] else "zh"  # Japanese has Chinese characters too


@functools.cache
def _script(letter: str) -> str:
    return unicodedata.name(letter, "-").split()[0]
