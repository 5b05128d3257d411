"""A sweep trains each variant once, writes a table, resumes, and refuses unknown names."""

import re
import shutil
from pathlib import Path

import pytest

from flaxformer_mt import sweep

pytestmark = pytest.mark.slow

CONFIG = """
import dataclasses
from flaxformer_mt.config import Config
from flaxformer_mt.data.config import DataConfig
from flaxformer_mt.data.sources.corpora import CorpusConfig
from flaxformer_mt.data.tokenization.config import TokenizerConfig
from flaxformer_mt.model.config import TransformerConfig
from flaxformer_mt.training.config import TrainingConfig

config = Config(
    data=DataConfig(
        train=CorpusConfig(pairs=("demo:train:200",)),
        validation=CorpusConfig(pairs=("demo:validation:4",)),
        tokenizer=TokenizerConfig(vocab_size=400),
        tokens_per_batch=1024,
        num_buckets=1,
    ),
    model=TransformerConfig(
        d_model=8, d_ff=8, num_heads=2, num_encoder_layers=1, num_decoder_layers=1
    ),
    training=TrainingConfig(num_steps=2, checkpoint_every=2, validate_every=0, log_every=1),
)
wide = dataclasses.replace(config, model=dataclasses.replace(config.model, d_ff=16))
variants = {"base": config, "C d_ff/16": wide}
wrong = {"base": 3}
twice = {"a/b": config, "a b": wide}
blind = {"base": dataclasses.replace(
    config, data=dataclasses.replace(config.data, validation=CorpusConfig())
)}
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "variants.py"
    path.write_text(CONFIG, encoding="utf-8")
    return path


def test_trains_each_variant_once_and_compares_them(file, tmp_path, monkeypatch, capsys):
    workdir = tmp_path / "sweep"
    args = ["--config", str(file), "--workdir", str(workdir)]
    assert sweep.main([*args, "--only", "base"]) == 0
    assert "C d_ff/16" not in (workdir / "table.md").read_text()

    def never(config: object, workdir: str, **options: bool) -> str:
        raise AssertionError(f"{workdir} was finished")

    first = (workdir / "base" / "metrics.jsonl").read_text()
    assert sweep.main(args) == 0  # base is finished: only the other variant is trained
    assert (workdir / "base" / "metrics.jsonl").read_text() == first
    monkeypatch.setattr("flaxformer_mt.train.train", never)
    assert sweep.main([*args, "--only", "base"]) == 0  # the table has all finished variants
    *_, base, wide = (workdir / "table.md").read_text().splitlines()
    base, wide = ([cell.strip() for cell in row.strip("|").split("|")] for row in (base, wide))
    assert (base[0], wide[0]) == ("base", "C d_ff/16")
    assert (base[-1], wide[-1]) == ("", "model.d_ff: 8 -> 16")
    numbers = [[float(cell.replace(",", "")) for cell in row[1:-1]] for row in (base, wide)]
    # Encoder and decoder have one feed-forward network each, of two matrices and two biases.
    assert numbers[1][0] - numbers[0][0] == 2 * (8 * (8 + 8) + 8)
    assert all(perplexity > 1 and speed > 0 for _, perplexity, _, speed in numbers)
    assert "| base | " in capsys.readouterr().out
    table = (workdir / "table.md").read_text()
    shutil.rmtree(workdir / "base" / "checkpoints")  # to free the disk
    assert sweep.main([*args, "--only", "base"]) == 0
    assert (workdir / "table.md").read_text() == table


def test_a_changed_variant_is_refused(file, tmp_path, capsys):
    """This also holds if all variants change alike, so that their differences are the same."""
    args = ["--config", str(file), "--workdir", str(tmp_path / "sweep"), "--only", "base"]
    assert sweep.main(args) == 0
    file.write_text(CONFIG.replace("num_steps=2", "num_steps=3"), encoding="utf-8")
    assert sweep.main(args) == 2
    assert (
        "base was started with another config (training.num_steps: 2 -> 3): choose another "
        "--workdir, or delete it to train it again" in " ".join(capsys.readouterr().err.split())
    )
    (tmp_path / "sweep" / "base" / "finished").unlink()  # as if it was interrupted
    assert sweep.main(args) == 2
    assert "base was started with another config" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--only", "bse"], "no variant 'bse' in .*: base, C d_ff/16"),
        (["--variants", "missing"], "must define `missing`, a dict of name to Config"),
        (["--variants", "wrong"], "must define `wrong`, a dict of name to Config"),
        (["--workdir", ""], '--workdir "" names no file'),
        (["--variants", "twice"], "two variants have the workdir .*x/a_b: change the name"),
        (["--variants", "blind"], "variant 'base': .* the config needs data.validation"),
    ],
)
def test_says_what_is_missing(file, tmp_path, capsys, args, message):
    assert sweep.main(["--config", str(file), "--workdir", str(tmp_path / "x"), *args]) == 2
    error = capsys.readouterr().err
    assert re.search(message, error), error
    assert not Path(tmp_path / "x").exists()


@pytest.mark.parametrize(("ending", "code"), [("preempted", 143), ("interrupted", 130)])
def test_a_signal_ends_the_sweep_with_its_code(file, tmp_path, monkeypatch, ending, code):
    monkeypatch.setattr("flaxformer_mt.train.train", lambda *_, **__: ending)
    assert sweep.main(["--config", str(file), "--workdir", str(tmp_path / "sweep")]) == code
    assert not (tmp_path / "sweep" / "base" / "finished").exists()
