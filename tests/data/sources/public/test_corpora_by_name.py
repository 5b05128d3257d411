"""Public corpora by name: OPUS, WMT, sacreBLEU, Multi30k, mtdata."""

import functools
import gzip
import subprocess
import sys
from pathlib import Path

import pytest
from public_web import STATMT, lines, public_archives, sgm, tar, zipped

from flaxformer_mt.data.sources.corpora import CorpusConfig, read_corpora
from flaxformer_mt.data.sources.pair import Pair
from flaxformer_mt.data.sources.public.downloads import corpora_home
from flaxformer_mt.data.sources.tfds import open_tfds

OPUS = "https://object.pouta.csc.fi/OPUS-Europarl/v8/moses/de-en.txt.zip"
MOSES = zipped(
    {
        "README": b"about",
        "Europarl.de-en.de": lines("Europarl", "de"),
        "Europarl.de-en.en": lines("Europarl", "en"),
    }
)


def pairs(spec: str, directory=".", languages=("en", "de")) -> list[Pair]:
    return read_corpora(CorpusConfig(pairs=(spec,)), str(directory), languages)[0]


def kept_texts() -> list[Path]:
    """Returns the finished text files; those that are being written are in hidden folders."""
    texts = (corpora_home() / "text").rglob("*.txt*")
    return [text for text in texts if not text.parent.name.startswith(".")]


def expected(name: str) -> list[Pair]:
    return [Pair(f"{name} en für {i}", f"{name} de für {i}") for i in range(3)]


def test_opus_by_name_in_both_directions(web):
    web.serve({OPUS: MOSES})
    assert pairs("opus:Europarl/v8") == expected("Europarl")
    back = pairs("opus:Europarl/v8", languages=("de", "en"))
    assert [Pair(*reversed(pair)) for pair in back] == expected("Europarl")
    assert web.count(OPUS) == 1


def test_a_zip_file_of_opus(web, tmp_path):
    (tmp_path / "my.zip").write_bytes(MOSES)
    assert pairs("my.zip", tmp_path) == expected("Europarl")
    changed = {"a.en": lines("new", "en"), "a.de": lines("new", "de")}
    (tmp_path / "my.zip").write_bytes(zipped(changed))
    assert pairs("my.zip", tmp_path) == expected("new")
    with pytest.raises(FileNotFoundError, match=r"no file .*your\.zip; .* holds: .*my\.zip"):
        pairs("your.zip", tmp_path)
    assert not web.requests


def test_a_start_that_was_interrupted_leaves_no_half_text(web):
    damaged = zipped({"a.en": lines("x", "en")})  # the German text is missing
    web.serve({OPUS: damaged})
    for _ in range(2):
        with pytest.raises(ValueError, match=r"no member '\*\.de'"):
            pairs("opus:Europarl/v8")
    assert not kept_texts()


KILLED = """
import os
from flaxformer_mt.data.sources.public.text_pair import kept_text

def write(folder):
    (folder / "en.txt").write_text("half")
    os._exit(137)

kept_text("opus/Europarl/v8", ("en", "de"), write)
"""


def test_a_start_that_was_killed_leaves_no_half_text(web):
    assert subprocess.run([sys.executable, "-c", KILLED]).returncode == 137
    assert not kept_texts()
    web.serve({OPUS: MOSES})
    assert pairs("opus:Europarl/v8") == expected("Europarl")
    (folder,) = {text.parent for text in kept_texts()}
    assert list(folder.parent.glob(f".{folder.name}.*")) == []  # the unfinished one is deleted


def test_a_text_that_lost_a_file_is_made_again(web):
    web.serve({OPUS: MOSES})
    assert pairs("opus:Europarl/v8") == expected("Europarl")
    kept_texts()[0].unlink()
    assert pairs("opus:Europarl/v8") == expected("Europarl")


@pytest.mark.parametrize(
    ("spec", "languages", "message"),
    [
        (
            "wmt:europarl_v6",
            ("en", "de"),
            "Did you mean europarl_v7 .* there are: commoncrawl, eur",
        ),
        ("wmt:gigafren", ("en", "de"), "no WMT set 'gigafren' from en to de"),
        ("wmt:newstest2014", ("en", "de"), "'sacrebleu:wmt14/full'"),
        ("wmt:europarl_v7", ("en", "xx"), "For this pair there are: none"),
        ("sacrebleu:wmt14/ful", ("en", "de"), "from en to de. Did you mean wmt14/full or"),
        ("sacrebleu:wmt14", ("en", "xx"), "it has: none"),
        ("multi30k:valid", ("en", "de"), "no valid from en to de; .* val.de, val.en"),
        ("multi30k:train", ("en", "zh"), "no train from en to zh"),
        ("opus:Europarl/v8", ("en", "../de"), "a code such as 'de'"),
    ],
)
def test_an_unknown_name_is_answered_with_those_there_are(web, spec, languages, message):
    with pytest.raises(ValueError, match=message):
        pairs(spec, languages=languages)
    assert not web.requests


def test_an_unreachable_test_set_is_still_missing(web):
    with pytest.raises(ConnectionError, match="statmt.org/wmt13/test.tgz: the server answers 404"):
        pairs("sacrebleu:wmt13")
    assert not kept_texts()


def test_an_unknown_corpus_of_opus(web):
    with pytest.raises(ConnectionError, match="OPUS-Nonsense/v1/.*: the server answers 404"):
        pairs("opus:Nonsense/v1")


def test_wmt_has_the_pairs_of_tensorflow_datasets(web, tmp_path, monkeypatch):
    """TFDS prepares the same archives; it drops pairs with an empty side, as tokenization does."""
    import tensorflow_datasets
    from tensorflow_datasets.core import dataset_builder
    from tensorflow_datasets.core.download import checksums

    odd = "training/europarl-v7.de-en"
    development = {f"dev/newstest2013.{one}": lines("newstest2013", one) for one in ("de", "en")}
    for side, language in (("src", "de"), ("ref", "en")):
        file = f"dev/newstest2014-deen-{side}.{language}.sgm"
        development[file] = sgm("newstest2014", language)
    archives = public_archives() | {
        f"{STATMT}/wmt13/training-parallel-europarl-v7.tgz": tar(
            {
                f"{odd}.de": "eins\u2028zwei\n\nvier\x85\n fünf\n".encode(),
                f"{odd}.en": "one\u2028two\nthree\nfour\x85\nfive \n".encode(),
            }
        ),
        "http://data.statmt.org/wmt19/translation-task/dev.tgz": tar(development),
    }
    web.serve(archives)
    read = [
        pair
        for name in ("europarl_v7", "commoncrawl", "newscommentary_v9")
        for pair in pairs(f"wmt:{name}")
    ]
    options = ("wmt14_translate/de-en", "train", ("en", "de"))
    with pytest.raises(ValueError, match="cannot be prepared: .* has wrong checksum"):
        open_tfds(*options, data_dir=str(tmp_path))
    monkeypatch.setattr(checksums, "get_all_url_infos", dict)
    monkeypatch.setattr(dataset_builder.DatasetBuilder, "url_infos", {})
    kind = {"file_format": "array_record"}  # the default for TFDS_DATA_DIR, not for `data_dir`
    open_set = functools.partial(tensorflow_datasets.data_source, builder_kwargs=kind)
    monkeypatch.setattr(tensorflow_datasets, "data_source", open_set)
    prepared = open_tfds(*options, data_dir=str(tmp_path))
    theirs = [prepared[index] for index in range(len(prepared))]
    assert sorted(theirs) == sorted(pair for pair in read if all(pair))


def test_without_mtdata_the_extra_is_named(web, monkeypatch):
    monkeypatch.setitem(sys.modules, "mtdata", None)
    with pytest.raises(ValueError, match=r"pip install 'flaxformer-mt\[corpora\]'"):
        pairs("mtdata:Statmt-europarl-10-deu-eng")


@pytest.mark.slow
def test_mtdata(web, tmp_path, monkeypatch):
    pytest.importorskip("mtdata")
    monkeypatch.setenv("MTDATA", str(tmp_path / "index"))
    table = "".join(f"v10 de für {i}\tv10 en für {i}\tmore\n" for i in range(3)).encode()
    v10 = f"{STATMT}/europarl/v10/training/europarl-v10.de-en.tsv.gz"
    web.serve(public_archives() | {v10: gzip.compress(table)})
    web.cut[v10] = 50
    assert pairs("mtdata:Statmt-europarl-10-deu-eng") == expected("v10")
    assert pairs("mtdata:Statmt-commoncrawl_wmt13-1-deu-eng") == expected("commoncrawl.de-en")
    with pytest.raises(ValueError, match="Did you mean .*Statmt-europarl-10-deu-eng.* from eng"):
        pairs("mtdata:Statmt-europarl-11-deu-eng")
    with pytest.raises(ValueError, match="languages are deu and eng, but .* from eng to fra"):
        pairs("mtdata:Statmt-europarl-10-deu-eng", languages=("en", "fr"))
