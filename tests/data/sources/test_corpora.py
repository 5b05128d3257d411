import pickle
from pathlib import Path

import pytest

from flaxformer_mt.data.sources.corpora import Corpus, CorpusConfig, TfdsPairs, open_corpus
from flaxformer_mt.data.sources.pair import Pair


def opened(config: CorpusConfig, directory: Path, languages=("en", "de")) -> Corpus:
    return open_corpus(
        config,
        directory=str(directory),
        source_language=languages[0],
        target_language=languages[1],
    )


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
        weights=(1.0, 0.5, 2.0),
    )
    corpus = opened(config, folder)
    assert [list(source) for source in corpus.sources] == [  # pyright: ignore[reportArgumentType]
        [Pair("one", "eins"), Pair("two", "zwei"), Pair("three", "drei")],
        [Pair("cat", "Katze"), Pair("dog", "Hund")],
        [Pair("tree", "Baum")],
    ]
    assert len(corpus) == 6
    assert corpus.weights == (1, 0.5, 2)
    assert corpus.names == (f"a.en | {folder / 'a.de'}", "b.tsv", "c.jsonl")


def test_without_weights_every_corpus_is_seen_once(folder):
    config = CorpusConfig(source=("a.en",), target=("a.de",), pairs=("b.tsv",))
    assert opened(config, folder).weights == (1.0, 1.0)
    assert len(opened(CorpusConfig(), folder)) == 0


def test_limit_takes_the_first_pairs_of_each_corpus(folder):
    config = CorpusConfig(source=("a.en",), target=("a.de",), pairs=("c.jsonl",), limit=2)
    first, second = opened(config, folder).sources
    assert [len(first), len(second)] == [2, 1]
    assert first[1] == ("two", "zwei")
    with pytest.raises(IndexError):
        first[2]


def test_a_corpus_can_go_to_a_worker_process(folder):
    config = CorpusConfig(source=("a.en",), target=("a.de",), limit=1)
    corpus = pickle.loads(pickle.dumps(opened(config, folder)))
    assert corpus.sources[0][0] == ("one", "eins")


def test_files_of_unequal_length_are_reported_with_counts_and_names(folder):
    (folder / "short.de").write_text("eins\nzwei\n")
    config = CorpusConfig(source=("a.en",), target=("short.de",))
    with pytest.raises(ValueError, match=r"a\.en has 3 lines but .*short\.de has 2"):
        opened(config, folder)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"source": ("a", "b"), "target": ("c",)}, r"2 of the one \(a, b\) and 1 of the other"),
        ({"pairs": ("a.tsv",), "weights": (1.0, 2.0)}, "1 other sources, but 2 weights"),
        ({"pairs": ("a.tsv",), "weights": (0.0,)}, "weights must be positive"),
        ({"pairs": ("a.tsv",), "weights": (float("nan"),)}, "weights must be positive"),
        ({"limit": -1}, "limit must be 0"),
        ({"pairs": ("a.csv",)}, "'a.csv' is; expected one of"),
        ({"pairs": ("grammar:dev",)}, "splits are train, validation and test"),
        ({"pairs": ("grammar:train:0",)}, "cannot tell what source"),
        ({"pairs": ("tfds:wmt14_translate/de-en",)}, "needs a split"),
    ],
)
def test_a_bad_configuration_is_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        CorpusConfig(**fields)


def test_the_built_in_grammar(tmp_path):
    corpus = opened(CorpusConfig(pairs=("grammar:train:50", "grammar:validation")), tmp_path)
    assert len(corpus.sources[0]) == 50
    assert len(corpus.sources[1]) > 50
    assert isinstance(corpus.sources[0][49], Pair)
    with pytest.raises(ValueError, match="from en to de, but the languages are de to en"):
        opened(CorpusConfig(pairs=("grammar:train",)), tmp_path, ("de", "en"))


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


def tfds_pairs(directory: Path, name="tiny_translate", split="train", languages=("en", "de")):
    return TfdsPairs(
        name,
        split,
        source_language=languages[0],
        target_language=languages[1],
        data_dir=str(directory),
    )


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
    corpus = opened(CorpusConfig(pairs=specs), tfds_directory)
    assert corpus.sources[1][0] == ("hello", "hallo")
    assert seen == [
        ("wmt14_translate/de-en", "train", None),
        ("wmt14_translate/de-en:1.0.0", "test[:1%]", None),
    ]


def test_wrong_tfds_names_are_explained(tfds_directory):
    with pytest.raises(ValueError, match="no feature fr to be the source .* it has: de, en"):
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
    assert [len(source) for source in opened(config, shared_data).sources] == [6_834, 1_014]
