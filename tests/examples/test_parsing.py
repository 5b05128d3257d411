"""The constraint of the parser, and its files."""

import dataclasses
import io
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toy_models import TableCache, random_tables, table_step

import parsing
from flaxformer_mt.config import Config, load_config
from flaxformer_mt.data.sources.corpora import CorpusConfig
from flaxformer_mt.data.tokenization.vocabulary import BOS_ID, EOS_ID
from flaxformer_mt.data.tokenization.word_vocabulary import WordVocabulary
from flaxformer_mt.model.config import TransformerConfig
from flaxformer_mt.search.rules import History
from flaxformer_mt.train import train
from flaxformer_mt.training.config import TrainingConfig
from small_runs import search
from trees import linearise, read_trees

VOCABULARY = WordVocabulary.learn(["(S (NP a ) b )"], max_size=20, min_count=1)
SENTENCES = [["a", "b"], ["a"], ["b", "a", "b"]]


def allowed(rule, tokens, row, length):
    """Returns the words that the rule allows after `tokens` in row `row`."""
    ids = [VOCABULARY.pieces.index(token) for token in tokens]
    written = np.full((len(SENTENCES), 1, length), BOS_ID, np.int32)
    written[:, 0, : len(ids)] = ids
    step = jnp.full(len(SENTENCES), len(ids), jnp.int32)
    scores = rule(
        jnp.zeros((len(SENTENCES), 1, VOCABULARY.size)), History(jnp.asarray(written), step)
    )
    return {VOCABULARY.pieces[i] for i in np.flatnonzero(np.asarray(scores)[row, 0] == 0)}


def all_trees(words, length, max_chain):
    """Returns all sequences of at most `length` tokens that are trees over the words, by trying."""
    symbols = ["(S", "(NP", ")", *sorted(set(words))]
    found = set()
    for size in range(3, length + 1):
        for tokens in itertools.product(symbols, repeat=size):
            runs = itertools.groupby(tokens, lambda token: token.startswith("("))
            chain = max((len(list(run)) for opens, run in runs if opens), default=0)
            if chain <= max_chain and parsing.is_tree(tokens, words):
                found.add(tokens)
    return found


def reachable(rule, row, length):
    """Returns all sequences that end by the rule, without the end."""
    done, open_ = set(), [()]
    while open_:
        tokens = open_.pop()
        for token in allowed(rule, tokens, row, length):
            if token == "</s>":
                done.add(tokens)
            else:
                open_.append((*tokens, token))
    return done


@pytest.mark.parametrize("row", [0, 1])
def test_exactly_the_trees_that_fit_can_be_written(row):
    rule = parsing.make_rule(VOCABULARY, SENTENCES).replace(max_chain=2)
    rule = jax.jit(rule.__call__)
    assert reachable(rule, row, 7) == all_trees(SENTENCES[row], 6, 2)


@pytest.mark.parametrize("beam_size", [1, 3])
def test_every_output_of_a_search_is_a_tree_over_the_words(beam_size):
    # A model of random numbers, which would never write a tree by itself.
    tables = random_tables(0, len(SENTENCES), VOCABULARY.size)
    cache = TableCache(jnp.asarray(tables), jnp.zeros((len(SENTENCES), beam_size), jnp.int32))
    found = search(
        table_step,
        cache,
        rows=len(SENTENCES),
        vocab_size=VOCABULARY.size,
        max_length=12,
        beam_size=beam_size,
        rules=(parsing.make_rule(VOCABULARY, SENTENCES),),
    )
    for words, row, lengths in zip(SENTENCES, found.tokens, found.lengths, strict=True):
        for tokens, length in zip(np.asarray(row), np.asarray(lengths), strict=True):
            assert tokens[length - 1] == EOS_ID
            assert parsing.is_tree(VOCABULARY.detokenize(tokens).split(), words)


def test_a_treebank_becomes_two_text_files(tmp_path):
    (tmp_path / "00").mkdir()
    (tmp_path / "00" / "a.mrg").write_text("( (S (NP-SBJ (DT a)) (VP (B b) (NP (-NONE- *)))) )\n")
    (tmp_path / "00" / "b.mrg").write_text("( (S (A a)) )\n( (S (B b)) )\n")
    parsing.write_text(tmp_path, tmp_path / "out" / "train")
    assert (tmp_path / "out" / "train.words").read_text() == "a b\na\nb\n"
    expected = "(S (NP a ) (VP b ) )\n(S a )\n(S b )\n"
    assert (tmp_path / "out" / "train.trees").read_text() == expected
    with pytest.raises(ValueError, match="no .mrg files"):
        parsing.write_text(tmp_path / "out", tmp_path / "x")


@pytest.mark.slow
def test_a_trained_parser_prints_a_tree_for_each_line(tmp_path, monkeypatch, capsys):
    """A blank line stays one, and brackets are words."""
    (tmp_path / "train.words").write_text("a b\nb a b\n" * 20)
    (tmp_path / "train.trees").write_text("(S a b )\n(S (NP b ) a b )\n" * 20)
    model = TransformerConfig(d_model=8, d_ff=8, num_encoder_layers=1, num_decoder_layers=1)
    config = load_config("parsing_wsj")
    data = dataclasses.replace(
        config.data,
        directory=str(tmp_path),
        validation=CorpusConfig(),
        test=CorpusConfig(),
        max_source_length=16,
        max_target_length=16,
        tokens_per_batch=64,
    )
    training = TrainingConfig(num_steps=1, warmup_steps=1, validate_every=0)
    decoding = dataclasses.replace(config.decoding, beam_size=2, max_target_length=16)
    config = Config(data=data, model=model, training=training, decoding=decoding)
    train(config, str(tmp_path / "run"), quiet=True)
    capsys.readouterr()
    monkeypatch.setattr("sys.stdin", io.StringIO("a b\n\nb (\n"))
    parsing.parse_lines(str(tmp_path / "run"), batch_size=2)
    first, second, third = capsys.readouterr().out.splitlines()
    for line, words in ((first, ["a", "b"]), (third, ["b", "-LRB-"])):
        (tree,) = read_trees(line)
        assert list(tree.words) == words
    assert second == ""


@pytest.mark.slow
@pytest.mark.default_compiler
def test_learns_the_trees_of_the_grammar():
    trees = parsing.draw_trees(200, 0, shortest=2, longest=4)
    model, params, vocabulary = parsing.train(trees, num_steps=150)
    words = [tree.words for tree in trees]
    found = parsing.parse(model, params, vocabulary, words, max_length=32)
    right = [a == linearise(b) for a, b in zip(found, trees, strict=True)]
    assert np.mean(right) > 0.9
    with pytest.raises(ValueError, match="max_length is 6"):
        parsing.parse(model, params, vocabulary, words, max_length=6)


def test_trees_of_the_grammar_can_be_read():
    for tree in parsing.draw_trees(20, 0, shortest=2, longest=6):
        assert parsing.is_tree(linearise(tree), tree.words)
        assert not parsing.is_tree(linearise(tree)[:-1], tree.words)
        assert list(read_trees(str(tree))) == [tree]
