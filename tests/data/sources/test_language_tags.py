"""Target-language tags: one token before every source text, from the files to the translator."""

import dataclasses
import json
import pickle
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from flaxformer_mt.data.config import DataConfig
from flaxformer_mt.data.held_out import read_pairs
from flaxformer_mt.data.pipeline import build_data
from flaxformer_mt.data.sources.corpora import CorpusConfig, read_corpora
from flaxformer_mt.data.sources.language_tags import languages_in, split_tag
from flaxformer_mt.data.sources.pair import Pair
from flaxformer_mt.data.tokenization.config import TokenizerConfig
from flaxformer_mt.data.tokenization.tokenizer import LearningText, Tokenizer, build_tokenizer
from flaxformer_mt.inspection.capture import capture
from flaxformer_mt.model.config import TransformerConfig
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.training.checks import check_tags
from flaxformer_mt.translation.config import DecodingConfig
from flaxformer_mt.translation.segments import segment_lines, tag_lines
from flaxformer_mt.translation.setup import suppressed_tokens
from flaxformer_mt.translation.translator import Translator

LANGUAGES = ("fr", "zh-TW")
WORDS = ["the", "small", "Cat", "dog", "house", "sees", "a", "big", "tree", "under", "walked"]
KINDS = {
    "unigram": TokenizerConfig(vocab_size=330, normalization="nmt_nfkc_cf", sampling_alpha=0.2),
    "bpe": TokenizerConfig(vocab_size=330, model_type="bpe", sampling_alpha=0.2),
    "apart": TokenizerConfig(vocab_size=330, shared=False, normalization="identity"),
    "word": TokenizerConfig(kind="word", vocab_size=10),
    "words apart": TokenizerConfig(kind="word", shared=False),
}


@pytest.fixture(scope="module")
def corpus() -> LearningText:
    rng = np.random.default_rng(3)
    texts = [" ".join(rng.choice(WORDS, rng.integers(3, 9))) for _ in range(200)]
    pairs = [
        Pair(f">>{LANGUAGES[index % 2]}<< {text}", text[::-1]) for index, text in enumerate(texts)
    ]
    return LearningText(pairs=lambda: pairs, languages=LANGUAGES)


@pytest.fixture(scope="module", params=KINDS)
def tokenizer(request, corpus, tmp_path_factory) -> Tokenizer:
    directory = tmp_path_factory.mktemp("tokenizer")
    return build_tokenizer(KINDS[request.param], corpus, directory=directory)


@pytest.mark.parametrize(
    ("text", "tag", "rest"),
    [
        (">>fr<< A dog. ", ">>fr<<", "A dog."),
        (">>fr<<A dog.", ">>fr<<", "A dog."),
        (">>zh-TW<<", ">>zh-TW<<", ""),
        (" >>fr<< A", "", " >>fr<< A"),
        (">> fr << A", "", ">> fr << A"),
        ("A >>fr<< dog", "", "A >>fr<< dog"),
    ],
)
def test_a_tag_is_at_the_very_beginning(text, tag, rest):
    assert split_tag(text) == (tag, rest)


def test_each_corpus_is_read_in_its_languages_and_tagged(tmp_path):
    (tmp_path / "a.en").write_text("one\n\n")
    (tmp_path / "a.fr").write_text("un\nrien\n")
    record = {"en": "tree", "de": "Baum", "cs": "strom"}
    (tmp_path / "b.jsonl").write_text(json.dumps(record))
    config = CorpusConfig(
        source=("a.en",),
        target=("a.fr",),
        pairs=("b.jsonl", "b.jsonl"),
        target_languages=("fr", "de", "de"),
        source_languages=("en", "en", "cs"),
    )
    assert read_corpora(config, str(tmp_path), ("xx", "yy")) == [
        [(">>fr<< one", "un"), (">>fr<< ", "rien")],
        [(">>de<< tree", "Baum")],
        [(">>de<< strom", "Baum")],
    ]
    untagged = dataclasses.replace(config, target_languages=())
    assert read_corpora(untagged, str(tmp_path), ("xx", "de"))[2] == [("strom", "Baum")]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"target_languages": ("fr", "de")}, "target_languages needs one language for each corpus"),
        ({"source_languages": ("fr", "de")}, "source_languages needs one language for each corpus"),
        ({"target_languages": ("f r",)}, "must be a code such as 'fr' .* got 'f r'"),
        ({"target_languages": ("",)}, "got ''"),
    ],
)
def test_impossible_languages_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        CorpusConfig(pairs=("a.tsv",), **settings)


@pytest.mark.parametrize("split", ["validation", "test"])
@pytest.mark.parametrize(("train", "held_out"), [(("fr",), ()), ((), ("fr",)), (("fr",), ("de",))])
def test_held_out_text_must_have_the_tags_of_the_training_text(split, train, held_out):
    splits: dict[str, Any] = {
        "train": CorpusConfig(pairs=("a.tsv",), target_languages=train),
        split: CorpusConfig(pairs=("b.tsv",), target_languages=held_out),
    }
    with pytest.raises(ValueError, match=f"data.{split}.target_languages must name"):
        DataConfig(**splits)
    splits[split] = CorpusConfig(pairs=("b.tsv",), target_languages=train)
    DataConfig(**splits)


def test_a_tag_is_one_token_before_those_of_the_text(tokenizer, corpus):
    source = tokenizer.source
    assert tokenizer.languages == LANGUAGES
    for language in LANGUAGES:
        tag = f">>{language}<<"
        for text in ("the small Cat", "walked", "a"):
            first, *rest = source.tokenize(f"{tag} {text}")
            assert source.pieces[first] == tag
            assert rest == source.tokenize(text)
            assert source.tokenize(f"{tag}   {text}") == [first, *rest]
        # A tag without text gives no token, so that blank text stays blank.
        assert source.tokenize(f"{tag} ") == source.tokenize("") == [source.eos_id]
    assert languages_in(source.pieces) == LANGUAGES
    assert languages_in(tokenizer.target.pieces) == (LANGUAGES if tokenizer.shared else ())


def test_tags_are_removed_before_pieces_are_learnt(corpus, tmp_path):
    pairs = corpus.pairs()
    plain = [Pair(split_tag(pair.source)[1], pair.target) for pair in pairs]
    untagged = dataclasses.replace(corpus, pairs=lambda: plain)
    config = dataclasses.replace(KINDS["unigram"], shared=False)
    prints = {
        build_tokenizer(config, one, directory=tmp_path / str(number)).fingerprint
        for number, one in enumerate((corpus, untagged))
    }
    assert len(prints) == 1


def test_many_texts_are_tokenized_as_one_by_one(tokenizer):
    texts = [">>fr<< the dog", "the small", "", ">>zh-TW<< ", ">>fr<<"] * 10
    assert tokenizer.source.tokenize_texts(texts) == list(map(tokenizer.source.tokenize, texts))


def test_sampling_never_cuts_a_tag(tokenizer, rng):
    texts = [">>zh-TW<< the small Cat walked under a green tree"] * 30
    samples = [tokenizer.source.sample(text, rng.random) for text in texts]
    assert {tokenizer.source.pieces[sample[0]] for sample in samples} == {">>zh-TW<<"}
    plain = tokenizer.source.tokenize(texts[0])
    assert {tokenizer.source.detokenize(sample[1:]) for sample in samples} == {
        tokenizer.source.detokenize(plain[1:])
    }
    assert tokenizer.source.sample(">>fr<< ", rng.random) == [tokenizer.source.eos_id]


def test_tags_are_kept_with_the_tokenizer(tokenizer, tmp_path):
    tokenizer.save(tmp_path)
    loaded = Tokenizer.load(tmp_path)
    assert loaded.languages == LANGUAGES and loaded.needs_tag
    text = ">>fr<< the dog"
    assert loaded.source.tokenize(text) == tokenizer.source.tokenize(text)
    again = pickle.loads(pickle.dumps(tokenizer.source))
    assert again.tokenize(text) == tokenizer.source.tokenize(text)


def test_no_translation_contains_a_tag(tokenizer):
    suppressed = suppressed_tokens(tokenizer, DecodingConfig(beam_size=1))
    target = tokenizer.target
    special = {target.pad_id, target.bos_id, target.unk_id}
    tags = {token for token, piece in enumerate(target.pieces) if piece.startswith(">>")}
    assert set(np.flatnonzero(suppressed)) == special | tags
    assert len(tags) == (2 if tokenizer.shared else 0)


def test_a_vocabulary_without_the_tags_is_refused(corpus, tmp_path):
    plain = dataclasses.replace(corpus, languages=())
    build_tokenizer(KINDS["word"], plain, directory=tmp_path / "old")
    message = "has no token for >>fr<<, >>zh-TW<<, which data.train.target_languages needs"
    with pytest.raises(ValueError, match=message):
        build_tokenizer(KINDS["word"], corpus, directory=tmp_path / "old")
    ready = TokenizerConfig(kind="word", source_vocab="ready.tsv")
    words = ["<pad>", "<unk>", "<s>", "</s>", "the"]
    (tmp_path / "ready.tsv").write_text("".join(f"{word}\t1\n" for word in words))
    options = {"directory": tmp_path / "new", "data_directory": tmp_path}
    with pytest.raises(ValueError, match=message):
        build_tokenizer(ready, corpus, **options)
    assert not (tmp_path / "new").exists()
    words += [">>fr<<", ">>zh-TW<<"]
    (tmp_path / "ready.tsv").write_text("".join(f"{word}\t1\n" for word in words))
    assert build_tokenizer(ready, corpus, **options).languages == LANGUAGES


def test_a_held_out_sentence_is_dropped_for_every_target_language(tmp_path):
    (tmp_path / "fr.tsv").write_text("a dog\tun chien\na cat\tun chat\n")
    (tmp_path / "de.tsv").write_text("a dog\tein Hund\na tree\tein Baum\n")
    (tmp_path / "test.tsv").write_text("a dog \tein Hund\n")
    config = DataConfig(
        directory=str(tmp_path),
        train=CorpusConfig(pairs=("fr.tsv", "de.tsv"), target_languages=("fr", "de")),
        test=CorpusConfig(pairs=("test.tsv",), target_languages=("de",)),
        exclude=("test",),
        tokenizer=TokenizerConfig(kind="word"),
    )
    data = build_data(config, tokenizer_directory=str(tmp_path / "tokenizer"), seed=0)
    assert data.report.train.dropped == {"with a test line as source": 2}
    assert data.test == read_pairs(config, config.test) == ((">>de<< a dog ", "ein Hund"),)


def test_a_training_that_forgets_the_tags_is_refused(tokenizer):
    pairs = Pair("", "x"), Pair(">>fr<< the dog", "x"), Pair("the dog", "x")
    check_tags(tokenizer, pairs[:2])
    with pytest.raises(ValueError, match=r"several target languages \(fr, zh-TW\): name the"):
        check_tags(tokenizer, pairs)


def test_a_word_vocabulary_has_room_for_words(corpus, tmp_path):
    small = TokenizerConfig(kind="word", vocab_size=6)
    with pytest.raises(ValueError, match="vocab_size=6 leaves no word beside the 6 special"):
        build_tokenizer(small, corpus, directory=tmp_path)


def test_lines_get_the_tag_of_the_requested_language(tokenizer):
    lines = ["the dog", ">>fr<< a cat", " ", "", ">>zh-TW<< "]
    assert tag_lines(lines, tokenizer, "fr") == [">>fr<< the dog", *lines[1:]]
    tagged = [">>fr<< a cat", ">>zh-TW<< a cat", "", ">>fr<< "]
    assert tag_lines(tagged, tokenizer, None) == tagged


@pytest.mark.parametrize(
    ("line", "language", "message"),
    [
        ("the dog", None, "line 8 begins with no tag .* give one of fr, zh-TW"),
        (">>de<< the dog", None, "line 8 begins with >>de<<, and no .* give one of fr, zh-TW"),
        (">>zh-TW<< the dog", "fr", "line 8 begins with >>zh-TW<<, but the target language is fr"),
        ("the dog", "de", "does not know the target language 'de'; it knows: fr, zh-TW"),
    ],
)
def test_lines_without_a_language_that_is_known_are_refused(tokenizer, line, language, message):
    with pytest.raises(ValueError, match=message):
        tag_lines(["", line], tokenizer, language, first_line=7)


def test_a_model_without_tags_leaves_text_unchanged_and_refuses_a_language(tokenizer):
    plain = dataclasses.replace(tokenizer, languages=())
    lines = ["the dog", ">>fr<< the dog"]
    assert tag_lines(lines, plain, None) == lines
    with pytest.raises(ValueError, match="'fr' was given, but this model translates into one"):
        tag_lines(lines, plain, "fr")


def test_each_piece_of_a_long_line_has_its_tag(tokenizer):
    limits: dict[str, Any] = {"max_source_length": 20, "over_long": "split", "first_line": 1}
    text = "the small Cat walked. " * 12
    with pytest.warns(UserWarning, match="line 1: .* split into"):
        segments = segment_lines([f">>fr<< {text}"], tokenizer, **limits)
    assert len(segments) > 2
    tag = tokenizer.source.tokenize(">>fr<< a")[0]
    assert all(segment.inputs[0] == tag and len(segment.inputs) <= 20 for segment in segments)
    read = [token for segment in segments for token in segment.inputs[1:-1].tolist()]
    assert tokenizer.source.detokenize(read) == tokenizer.source.detokenize(
        tokenizer.source.tokenize(text)
    )
    assert segment_lines([">>fr<< ", ""], tokenizer, **limits) == []


@pytest.fixture(scope="module")
def translator(corpus, tmp_path_factory) -> Translator:
    directory = tmp_path_factory.mktemp("tokenizer")
    tokenizer = build_tokenizer(KINDS["word"], corpus, directory=directory)
    size = tokenizer.source.size
    model = Transformer(
        TransformerConfig(
            d_model=16, d_ff=16, num_heads=2, num_encoder_layers=1, num_decoder_layers=1
        ),
        source_vocab_size=size,
        target_vocab_size=size,
        bos_id=2,
    )
    ids = jnp.zeros((1, 2), jnp.int32)
    params = jax.jit(model.init)(jax.random.key(0), *[ids] * 6)["params"]
    params = jax.tree.map(lambda x: x * 3, params)
    config = DecodingConfig(beam_size=2, max_target_length=12)
    return Translator(model, params, tokenizer, config, max_source_length=16)


def test_a_requested_language_is_the_tag_before_every_sentence(translator):
    texts = ["the dog", "", "a big tree " * 20]
    tagged = [text and f">>zh-TW<< {text}" for text in texts]
    with pytest.warns(UserWarning, match="line 3"):
        asked = translator.translate(texts, target_language="zh-TW")
        assert asked == translator.translate(tagged)
        assert asked != translator.translate(texts, target_language="fr")
    assert asked[1][0].text == ""
    found = [tokens for hypotheses in asked for tokens in hypotheses[0].tokens]
    assert not {token for token in found if translator.tokenizer.target.pieces[token][:2] == ">>"}
    targets = [hypotheses[0].tokens for hypotheses in asked[:1]]
    (scored,) = translator.score(texts[:1], targets, target_language="zh-TW")
    assert scored.score == pytest.approx(asked[0][0].score, abs=1e-5)
    for refused in (translator.translate, translator.check):
        with pytest.raises(ValueError, match="line 1 begins with no tag"):
            refused(texts)
    for target in (None, "big"):
        with pytest.raises(ValueError, match="line 1 begins with no tag"):
            capture(translator, texts[0], target)
    assert capture(translator, tagged[0]).source_tokens[0] == ">>zh-TW<<"
    with pytest.raises(ValueError, match="does not know the target language .de.;"):
        translator.score(texts[:1], targets, target_language="de")


def test_multi30k_in_two_directions(shared_data, tmp_path):
    directory = shared_data / "multi30k"
    sides = {"source": ("{}.en",) * 2, "target": ("{}.de", "{}.fr")}

    def corpus(split: str, limit: int = 0) -> CorpusConfig:
        files = {side: tuple(name.format(split) for name in names) for side, names in sides.items()}
        return CorpusConfig(
            source=files["source"],
            target=files["target"],
            target_languages=("de", "fr"),
            limit=limit,
        )

    config = DataConfig(
        directory=str(directory),
        train=corpus("train", 3000),
        validation=corpus("val"),
        test=corpus("test_2016_flickr"),
        tokenizer=TokenizerConfig(vocab_size=2000),
        batching="pack",
    )
    data = build_data(config, tokenizer_directory=str(tmp_path), seed=0)
    pairs = data.epochs.pairs
    assert len(pairs) == 6000
    pieces = data.tokenizer.source.pieces
    first = [pieces[pairs.example(index).inputs[0]] for index in range(6000)]
    assert first == [">>de<<"] * 3000 + [">>fr<<"] * 3000
    targets = {pieces[token] for token in np.unique(pairs.targets)}
    assert not targets & {">>de<<", ">>fr<<"}
    assert data.report.source.num_unknown == 0
    french = (directory / "val.fr").read_text(encoding="utf-8").split("\n")[0]
    english = (directory / "val.en").read_text(encoding="utf-8").split("\n")[0]
    assert data.validation[1014] == (f">>fr<< {english}", french)
    assert len(data.test) == 2000
    assert data.tokenizer.source.size == 2000
