"""Bad records of training text are dropped, counted and listed; too many of them end a run."""

import json
import re

import pytest

from flaxformer_mt.data.config import DataConfig
from flaxformer_mt.data.held_out import read_pairs
from flaxformer_mt.data.pipeline import build_data
from flaxformer_mt.data.sources.corpora import CorpusConfig
from flaxformer_mt.data.sources.quarantine import parse_share
from flaxformer_mt.data.tokenization.config import TokenizerConfig

GOOD = [(f"word {k}", f"Wort {k}") for k in range(40)]
LINES = {
    "train.tsv": [f"{s}\t{t}".encode() for s, t in GOOD],
    "train.jsonl": [json.dumps({"en": s, "de": t}).encode() for s, t in GOOD],
}
BAD = {  # kind: reason, and the line
    "train.tsv": {
        "wrong columns": ("3 columns", b"a\tb\tc"),
        "not UTF-8": ("byte 0xf6 at position 4", b"nice\tsch\xf6n"),
        "empty target": ("the target is empty", b"a\t "),
        "empty source": ("the source is empty", b"\tb"),
    },
    "train.jsonl": {
        "bad JSON": ("Expecting", b"{"),
        "not UTF-8": ("byte 0xf6", b'{"en": "nice", "de": "sch\xf6n"}'),
        "empty target": ("the target is empty", b'{"en": "a", "de": ""}'),
    },
}


def config_of(directory, *, train: CorpusConfig, **fields) -> DataConfig:
    tokenizer = TokenizerConfig(kind="word")
    return DataConfig(directory=str(directory), train=train, tokenizer=tokenizer, **fields)


def build(config: DataConfig, directory):
    return build_data(
        config,
        tokenizer_directory=f"{directory}/tokenizer",
        seed=0,
        quarantine=directory / "quarantine.jsonl",
    )


def listed(directory) -> list[dict]:
    return [json.loads(line) for line in (directory / "quarantine.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("name", LINES)
def test_bad_records_are_dropped_counted_and_listed(tmp_path, name):
    lines = LINES[name].copy()
    lines[7:7] = [line for _, line in BAD[name].values()]
    (tmp_path / name).write_bytes(b"\n".join(lines))
    train = CorpusConfig(pairs=(name,))
    data = build(config_of(tmp_path, train=train, max_bad_share="10%"), tmp_path)
    assert data.report.train.read == 40 + len(BAD[name]) and data.report.train.kept == 40
    assert data.report.train.dropped == dict.fromkeys(BAD[name], 1)
    assert "quarantine.jsonl" in str(data.report) and f"{name}, line 8: " in str(data.report)
    records = listed(tmp_path)
    assert [record["line"] for record in records] == list(range(8, 8 + len(BAD[name])))
    for record in records:
        reason, line = BAD[name][record["kind"]]
        assert reason in record["reason"] and record["file"].endswith(name)
        assert record["text"].strip() in line.decode(errors="replace")

    clean = tmp_path / "clean"
    clean.mkdir()
    (clean / name).write_bytes(b"\n".join(LINES[name]))
    same = build(config_of(clean, train=train), clean)
    assert list(same.fingerprints.values()) == list(data.fingerprints.values())
    assert not (clean / "quarantine.jsonl").exists()


def test_either_file_of_a_pair_can_have_the_bad_line(tmp_path):
    sources, targets = ([side.encode() for side in sides] for sides in zip(*GOOD, strict=True))
    sources[3], targets[5], targets[9] = b"\xff", b"sch\xf6n", b""
    (tmp_path / "train.en").write_bytes(b"\n".join(sources))
    (tmp_path / "train.de").write_bytes(b"\n".join(targets))
    train = CorpusConfig(source=("train.en",), target=("train.de",))
    data = build(config_of(tmp_path, train=train, max_bad_share="0.1"), tmp_path)
    assert data.report.train.kept == 37
    places = [(record["file"].rpartition("/")[2], record["line"]) for record in listed(tmp_path)]
    assert places == [("train.en", 4), ("train.de", 6), ("train.en | train.de", 10)]


def test_too_many_bad_records_end_the_run(tmp_path):
    (tmp_path / "train.tsv").write_bytes(b"\n".join([*LINES["train.tsv"], b"no tab", b"a\tb\tc"]))
    train = CorpusConfig(pairs=("train.tsv",))
    message = (
        "2 of 42 records of train.tsv are bad (4.76%; 2 wrong columns); data.max_bad_share allows "
        f"1%. The first one: {tmp_path}/train.tsv, line 41: a TSV line must be source<TAB>target, "
        f"this one has no tab. All are listed in {tmp_path}/quarantine.jsonl. Correct the text"
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        build(config_of(tmp_path, train=train, max_bad_share="1%"), tmp_path)
    assert len(listed(tmp_path)) == 2
    train_tsv = tmp_path / "train.tsv"
    train_tsv.write_bytes(b"\n".join([*LINES["train.tsv"][:2], b"a\t"]))
    with pytest.raises(ValueError, match=r"the target is empty\. All are listed"):
        build(config_of(tmp_path, train=train, max_bad_share="1%"), tmp_path)
    train_tsv.write_bytes(b"\n".join([*LINES["train.tsv"], b"no tab", b"a\tb\tc"]))
    build(config_of(tmp_path, train=train), tmp_path)  # the default allows 5%
    (tmp_path / "train.tsv").write_bytes(b"\n".join(LINES["train.tsv"]))
    build(config_of(tmp_path, train=train, max_bad_share="0"), tmp_path)
    assert not (tmp_path / "quarantine.jsonl").exists()  # it would be that of the earlier text


def test_a_held_out_set_must_be_whole(tmp_path):
    (tmp_path / "test.tsv").write_bytes(b"\n".join([*LINES["train.tsv"], b"no tab"]))
    test = CorpusConfig(pairs=("test.tsv",))
    with pytest.raises(ValueError, match=r"test\.tsv, line 41: .*has no tab"):
        read_pairs(config_of(tmp_path, train=CorpusConfig()), test)


def test_a_share_is_a_percentage_or_a_fraction():
    assert [parse_share(text) for text in ("1%", "0.01", "0", "100%")] == [0.01, 0.01, 0, 1]
    for text in ("1", "5", "-1%", "101%", "few", "%", "nan"):
        with pytest.raises(ValueError, match="such as 1% or 0.01"):
            parse_share(text)
