import dataclasses
import pickle
from pathlib import Path

import pytest

from flaxformer_mt.data.config import DataConfig
from flaxformer_mt.data.prepared.manifest import training_streams
from flaxformer_mt.data.sources import registry
from flaxformer_mt.data.sources.corpora import CorpusConfig, open_streams, read_corpora
from flaxformer_mt.data.sources.demo_text import open_demo
from flaxformer_mt.data.sources.pair import Pair
from flaxformer_mt.data.sources.records import Rows
from flaxformer_mt.data.sources.tfds import open_tfds


def read(config: CorpusConfig, directory: Path, languages=("en", "de")) -> list[list[Pair]]:
    return read_corpora(config, str(directory), languages)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a.en").write_text("one\ntwo\nthree\n")
    (tmp_path / "a.de").write_text("eins\nzwei\ndrei")
    (tmp_path / "b.tsv").write_text("cat\tKatze\ndog\tHund\n")
    (tmp_path / "c.jsonl").write_text('{"en": "tree", "de": "Baum"}\n')
    return tmp_path


def test_files_and_other_sources_in_their_order(folder):
    config = CorpusConfig(
        source=("a.en",),
        target=(str(folder / "a.de"),),
        pairs=("b.tsv", "c.jsonl"),
    )
    assert read(config, folder) == [
        [Pair("one", "eins"), Pair("two", "zwei"), Pair("three", "drei")],
        [Pair("cat", "Katze"), Pair("dog", "Hund")],
        [Pair("tree", "Baum")],
    ]
    assert config.names == (f"a.en | {folder / 'a.de'}", "b.tsv", "c.jsonl")
    assert read(CorpusConfig(), folder) == []


def test_limit_takes_the_first_pairs_of_each_corpus(folder):
    config = CorpusConfig(source=("a.en",), target=("a.de",), pairs=("c.jsonl",), limit=2)
    assert read(config, folder) == [[("one", "eins"), ("two", "zwei")], [("tree", "Baum")]]


def test_a_corpus_can_go_to_a_worker_process(folder):
    config = CorpusConfig(source=("a.en",), target=("a.de",), limit=1)
    (stream,) = open_streams(config, str(folder), ("en", "de"))
    for again in (stream, pickle.loads(pickle.dumps(stream))):
        (block,) = pickle.loads(pickle.dumps(list(again.blocks(2))))
        assert block.load() == [("one", "eins")]


def test_files_of_unequal_length_are_reported_with_counts_and_names(folder):
    (folder / "short.de").write_text("eins\nzwei\n")
    config = CorpusConfig(source=("a.en",), target=("short.de",))
    with pytest.raises(ValueError, match=r"a\.en has 3 lines but .*short\.de has 2"):
        read(config, folder)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"source": ("",), "target": ("",)}, "a name in source, target or pairs is empty"),
        ({"source": ("a", "b"), "target": ("c",)}, r"2 source files \(a, b\) and 1 target files"),
        ({"pairs": ("a.tsv",), "weights": (1.0, 2.0)}, "1 other sources, but 2 weights"),
        ({"pairs": ("a.tsv",), "weights": (0.0,)}, "weights must be positive"),
        ({"pairs": ("a.tsv",), "weights": (float("nan"),)}, "weights must be positive"),
        ({"limit": -1}, "limit must be 0"),
        ({"pairs": ("a.csv",)}, "'a.csv' is not a source of sentence pairs; expected one of"),
        ({"pairs": ("demo:dev",)}, 'demo:dev.* is not .*"demo:train", "demo:everyday"'),
        ({"pairs": ("demo:train:0",)}, "not a source of sentence pairs"),
        ({"pairs": ("tfds:wmt14_translate/de-en",)}, '"tfds:NAME:SPLIT"'),
    ],
)
def test_a_bad_configuration_is_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        CorpusConfig(**fields)


def test_the_demo_text(tmp_path):
    corpora = read(CorpusConfig(pairs=("demo:train:50", "demo:validation")), tmp_path)
    assert [len(pairs) for pairs in corpora] == [50, 500]
    assert corpora[0] == open_demo("train")[:50]
    with pytest.raises(ValueError, match="from en to de, but the languages are de to en"):
        read(CorpusConfig(pairs=("demo:train",)), tmp_path, ("de", "en"))
    with pytest.raises(ValueError, match="has 500 pairs for validation, got 501; use 'demo:valid"):
        read(CorpusConfig(pairs=("demo:validation:501",)), tmp_path)


def test_the_former_name_of_the_demo_text_is_answered_with_the_new_one(tmp_path):
    config = CorpusConfig(pairs=("grammar:train:100000",))  # as in an old workdir, which must load
    with pytest.raises(ValueError, match="Use 'demo:train'"):
        read(config, tmp_path)


def test_a_new_kind_of_source_needs_one_entry(tmp_path, monkeypatch):
    kind = registry.SourceKind(
        pattern=r"count:(?P<size>\d+)",
        form='"count:SIZE"',
        open=lambda request: [Pair(str(i), str(i)) for i in range(int(request.match["size"]))],
    )
    monkeypatch.setattr(registry, "SOURCE_KINDS", (*registry.SOURCE_KINDS, kind))
    assert read(CorpusConfig(pairs=("count:3",)), tmp_path)[0][2] == Pair("2", "2")
    with pytest.raises(ValueError, match="count:SIZE"):
        CorpusConfig(pairs=("count:",))


def test_changes_of_the_file_of_a_new_kind_are_noticed(tmp_path, monkeypatch):
    kind = registry.SourceKind(
        pattern=r".*\.count",
        form='"file.count"',
        is_file=True,
        open=lambda request: [Pair(x, x) for x in Path(request.file).read_text().split()],
    )
    monkeypatch.setattr(registry, "SOURCE_KINDS", (*registry.SOURCE_KINDS, kind))
    (tmp_path / "a.count").write_text("1 2")
    train = CorpusConfig(pairs=("a.count",))
    (stream,) = training_streams(DataConfig(directory=str(tmp_path), train=train))
    assert list(stream.files) == [tmp_path / "a.count"]


def test_a_pattern_is_one_corpus_of_its_files_in_order(tmp_path):
    for name, lines in (("1", "a\n"), ("2", "b\nc\n"), ("3", "d\n")):
        (tmp_path / f"{name}.en").write_text(lines)
        (tmp_path / f"{name}.de").write_text(lines.upper())
        (tmp_path / f"{name}.tsv").write_text("".join(f"{x}\t{x}\n" for x in lines.split()))
    config = CorpusConfig(
        source=("*.en",), target=("?.de",), pairs=("[12].tsv",), weights=(2.0, 1.0)
    )
    corpora = read(config, tmp_path)
    assert [[pair.source for pair in pairs] for pairs in corpora] == [
        ["a", "b", "c", "d"],
        ["a", "b", "c"],
    ]
    assert corpora[0][2] == Pair("c", "C")
    assert config.names == ("*.en | ?.de", "[12].tsv")
    limited = read(dataclasses.replace(config, limit=2), tmp_path)
    assert [[pair.source for pair in pairs] for pairs in limited] == [["a", "b"]] * 2
    (tmp_path / "3.de").unlink()
    with pytest.raises(ValueError, match="matches 3 files but .* matches 2"):
        read(config, tmp_path)
    with pytest.raises(FileNotFoundError, match="no file matches .*x-"):
        read(CorpusConfig(pairs=("x-*.tsv",)), tmp_path)


@pytest.fixture(scope="module")
def tfds_directory(tmp_path_factory):
    tfds = pytest.importorskip("tensorflow_datasets")
    import tensorflow_datasets.translate  # noqa: F401

    class TinyTranslate(tfds.core.GeneratorBasedBuilder):
        """Five pairs, as TFDS keeps them."""

        VERSION = tfds.core.Version("1.0.0")

        def _info(self):
            features = tfds.features.Translation(languages=("de", "en"))
            return tfds.core.DatasetInfo(builder=self, features=features)

        def _split_generators(self, dl_manager):
            return {"train": self._generate_examples()}

        def _generate_examples(self):
            for number in range(5):
                yield number, {"de": f"für {number}\nDanke", "en": f"for {number}\nthanks"}

    directory = tmp_path_factory.mktemp("tfds")
    TinyTranslate(data_dir=directory, file_format="array_record").download_and_prepare()
    return directory


def tfds_pairs(directory, name="tiny_translate", split="train", languages=("en", "de")) -> Rows:
    return open_tfds(name, split, languages, data_dir=str(directory))


def test_tfds_in_either_direction(tfds_directory):
    forth = tfds_pairs(tfds_directory)
    back = tfds_pairs(tfds_directory, languages=("de", "en"))
    expected = {Pair(f"for {number} thanks", f"für {number} Danke") for number in range(5)}
    assert {forth[index] for index in range(len(forth))} == expected
    assert [Pair(*reversed(back[index])) for index in range(5)] == [forth[i] for i in range(5)]
    assert len(tfds_pairs(tfds_directory, split="train[:40%]")) == 2


def test_a_tfds_spec_names_data_set_and_split(tfds_directory, monkeypatch):
    seen = []

    def fake_data_source(name, *, split, data_dir):
        seen.append((name, split, data_dir))
        return [{"en": b"hello", "de": b"hallo"}]

    monkeypatch.setattr("tensorflow_datasets.data_source", fake_data_source)
    specs = ("tfds:wmt14_translate/de-en:train", "tfds:wmt14_translate/de-en:1.0.0:test[:1%]")
    assert read(CorpusConfig(pairs=specs), tfds_directory)[1] == [("hello", "hallo")]
    assert seen == [
        ("wmt14_translate/de-en", "train", None),
        ("wmt14_translate/de-en:1.0.0", "test[:1%]", None),
    ]


def test_wrong_tfds_names_are_explained(tfds_directory):
    with pytest.raises(ValueError, match=r"the features fr \(source\) .* lacks fr; it has: de, en"):
        tfds_pairs(tfds_directory, languages=("fr", "de"))
    with pytest.raises(ValueError, match="Unknown split 'valid'. Should be one of .'train'"):
        tfds_pairs(tfds_directory, split="valid")
    with pytest.raises(ValueError, match="cannot be read: Dataset no_such_data not found.$"):
        tfds_pairs(tfds_directory, name="no_such_data")


def test_tfds_data_without_random_access_is_explained(tfds_directory, monkeypatch):
    def refuse(*_, **__):
        raise NotImplementedError("tfrecord")

    monkeypatch.setattr("tensorflow_datasets.data_source", refuse)
    with pytest.raises(ValueError, match="without random access. Point TFDS_DATA_DIR"):
        tfds_pairs(tfds_directory)


def test_real_text(shared_data):
    config = CorpusConfig(
        source=("news-zh-en/en.txt", "multi30k/val.en"),  # the first ends without a newline
        target=("news-zh-en/cn.txt", "multi30k/val.de"),
    )
    assert [len(pairs) for pairs in read(config, shared_data)] == [6_834, 1_014]
