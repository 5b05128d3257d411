import json
from pathlib import Path
from typing import NamedTuple

import pytest

from flaxformer_mt import calibrate
from flaxformer_mt.config import Config, save_config
from flaxformer_mt.data.pipeline import DataConfig
from flaxformer_mt.data.sources.corpora import CorpusConfig
from flaxformer_mt.evaluation.confidence import Calibration
from flaxformer_mt.translation.hypotheses import Hypothesis
from flaxformer_mt.translation.translator import Translator


class Pair(NamedTuple):
    token_log_probs: list[float]


class Mumbler:
    """Stands for a Translator: of a source "abc 3" it says the first 3 letters, that sure."""

    checkpoint = "averaged"

    def load(self, workdir: str, *, which: str) -> "Mumbler":
        self.loaded = (workdir, which)
        return self

    def translate(self, sentences: list[str], *, num_hypotheses: int) -> list[list[Hypothesis]]:
        assert num_hypotheses == 1
        self.sentences = sentences
        counts = [int(sentence.split()[1]) for sentence in sentences]
        texts = [sentence[:n] for sentence, n in zip(sentences, counts, strict=True)]
        return [[Hypothesis(t, [n, 0], 0.0)] for t, n in zip(texts, counts, strict=True)]

    def score(self, sources: list[str], targets: list[list[int]]) -> list[Pair]:
        assert sources == self.sentences
        return [Pair([0.1 * tokens[0] - 2, 0.1 * tokens[0] - 1]) for tokens in targets]


@pytest.fixture
def mumbler(monkeypatch: pytest.MonkeyPatch) -> Mumbler:
    mumbler = Mumbler()
    monkeypatch.setattr(Translator, "load", mumbler.load)
    return mumbler


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With a validation set of 48 pairs, two of them half blank, and a model that is trained."""
    monkeypatch.chdir(tmp_path)
    counts = [i % 9 + 1 for i in range(46)]
    (tmp_path / "val.en").write_text("".join(f"abcdefghi {n}\n" for n in counts) + "\nabc 3\n")
    (tmp_path / "val.de").write_text("abcdefghi\n" * 46 + "abc\n \n")
    validation = CorpusConfig(source=("val.en",), target=("val.de",))
    save_config(Config(data=DataConfig(directory=str(tmp_path), validation=validation)), "w")
    return tmp_path


def test_learns_from_the_validation_set(
    work: Path, mumbler: Mumbler, capsys: pytest.CaptureFixture[str]
) -> None:
    assert calibrate.main(["--workdir=w", "--checkpoint=last"]) == 0
    assert mumbler.loaded == ("w", "last")
    calibration = Calibration.from_json((work / "w" / "calibration.json").read_text())
    assert calibration.checkpoint == "averaged"
    assert calibration([-1.1, -0.1]) == pytest.approx(1)  # all of the reference
    assert calibration([-1.9, -0.9]) < calibration([-1.5, -0.5]) < 0.7
    text = capsys.readouterr().out
    assert "calibration.json: 46 pairs, checkpoint: averaged" in text
    assert "correlation         1.000\n" in text
    assert "calibration error   0.000\n" in text
    assert "mean absolute error 0.000 (of a constant 0." in text
    assert "(of a constant 0.000)" not in text


def test_given_files_and_no_more_than_wanted(
    work: Path, mumbler: Mumbler, capsys: pytest.CaptureFixture[str]
) -> None:
    save_config(Config(), "w")  # whose validation set is none
    files = ["--source=val.en", "--target=val.de"]
    assert calibrate.main(["--workdir=w", *files, "--max-pairs=41"]) == 0
    assert "41 pairs" in capsys.readouterr().out
    assert len(mumbler.sentences) == 41
    assert calibrate.main(["--workdir=w"]) == 2
    assert "names no validation set" in capsys.readouterr().err


def test_too_few_pairs_leave_the_earlier_file(
    work: Path, mumbler: Mumbler, capsys: pytest.CaptureFixture[str]
) -> None:
    (work / "w" / "calibration.json").write_text(json.dumps("precious"))
    assert calibrate.main(["--workdir=w", "--max-pairs=39"]) == 2
    assert "39 pairs are too few" in capsys.readouterr().err
    assert json.loads((work / "w" / "calibration.json").read_text()) == "precious"
    assert {path.name for path in (work / "w").iterdir()} == {"calibration.json", "config.json"}


@pytest.mark.parametrize(
    ("args", "message"),
    [(["--source=val.en"], "give both"), (["--max-pairs=0"], "at least 1")],
)
def test_bad_arguments(
    work: Path, args: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        calibrate.main(["--workdir=w", *args])
    assert stop.value.code == 2
    assert message in capsys.readouterr().err
