"""BLEU and chrF of a whole test set, computed and signed by sacreBLEU.

A signature records tokeniser, case and version. Two scores can be compared only if their signatures
agree (Post 2018, "A Call for Clarity in Reporting BLEU Scores",
https://aclanthology.org/W18-6319).
"""

import dataclasses
import itertools
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

# Codes of ISO 639 (languages) and ISO 15924 (scripts).
_CHINESE = {
    *("zh", "zho", "chi", "cmn", "yue", "wuu", "nan", "hak", "gan", "hsn", "cjy", "cdo", "cpx"),
    *("czo", "czh", "mnp", "lzh", "hans", "hant", "hani"),
}
_WITHOUT_SPACES = {
    *("ja", "jpn", "jpan", "hira", "kana"),
    *("th", "tha", "thai", "lo", "lao", "laoo", "km", "khm", "khmr", "my", "mya", "bur", "mymr"),
    *("shn", "ksw", "mnw", "nod", "tts", "khb", "lana", "talu", "bo", "bod", "tib", "dz", "dzo"),
    "tibt",
}
# First words of the Unicode names of letters without spaces between words, Chinese aside.
_LETTERS_WITHOUT_SPACES = {
    *("HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN", "TAI", "NEW"),
}
_NUM_LETTERS = 10_000  # the most letters that are counted


@dataclasses.dataclass(frozen=True)
class MetricScore:
    """One score of one test set, from 0 to 100, higher is better."""

    name: str
    value: float
    signature: str

    def __str__(self) -> str:
        return f"{self.name} {self.value:.2f}   {self.signature}"


class CorpusScores:
    """BLEU and chrF of a test set, whose lines may come in parts. It keeps their counts only.

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
            # As `corpus_score` does, which takes all lines at once.
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


def default_tokenize(*languages: str, text: Iterable[str] = ()) -> Tokenize:
    """Returns the BLEU tokenizer for text in some languages.

    "zh" is for Chinese (alone, or with languages that have spaces). "char" is for Japanese, Thai,
    Lao, Khmer, Burmese, Tibetan and others without spaces: sacreBLEU's tokenizers for their words
    need other packages or a download. "13a" is for all others.

    Args:
      languages: codes such as "de", "zh", "zh-TW", "cmn_Hans" or "yue". A script such as Latn
        decides before the language.
      text: some of the text. Its letters decide if the codes say "13a": a code may be unknown here,
        or not be that of the text.
    """
    chosen = {_tokenize_one(language) for language in languages}
    named = "char" if "char" in chosen else "zh" if "zh" in chosen else "13a"
    return _tokenize_letters(text) if named == "13a" else named


def _tokenize_one(language: str) -> Tokenize:
    code, *subtags = language.lower().replace("_", "-").split("-")
    script = next((tag for tag in subtags if len(tag) == 4 and tag.isalpha()), "")
    for decisive in filter(None, (script, code)):
        if decisive in _CHINESE:
            return "zh"
        if decisive in _WITHOUT_SPACES:
            return "char"
        if decisive in ("latn", "cyrl"):
            return "13a"
    return "13a"


def _tokenize_letters(text: Iterable[str]) -> Tokenize:
    """Returns "zh" or "char" if most letters of a text have no spaces between words."""
    letters = filter(str.isalpha, itertools.chain.from_iterable(text))
    names = (unicodedata.name(letter, "-") for letter in itertools.islice(letters, _NUM_LETTERS))
    counts = Counter(name.split()[0] for name in names)
    others = sum(counts[name] for name in _LETTERS_WITHOUT_SPACES)
    if 2 * (counts["CJK"] + others) <= counts.total():
        return "13a"
    return "char" if 20 * others > counts["CJK"] else "zh"  # Japanese has Chinese characters too
