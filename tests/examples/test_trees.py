"""Reading, cleaning, writing and scoring of trees, on hand-written text."""

from collections import Counter

import pytest

import trees
from tree_grammar import WORDS, draw_trees
from trees import Tree, brackets, clean, linearise, read_trees, score, tree_of

# As a .mrg file of the Penn Treebank: no label outside, functions, indices, traces, brackets.
MRG = """
( (S
    (NP-SBJ-1 (DT The) (NN dog) )
    (VP (VBZ wants)
      (S
        (NP-SBJ (-NONE- *-1) )
        (VP (TO to)
          (VP (VB sleep)))))
    (. .) ))

( (FRAG (-LRB- -LRB-) (NP=2 (NN end)) (-RRB- -RRB-)))
"""


def test_reads_and_cleans_an_mrg_file():
    sentence, fragment = map(clean, read_trees(MRG))
    assert str(sentence) == (
        "(S (NP (DT The) (NN dog)) (VP (VBZ wants) (S (VP (TO to) (VP (VB sleep))))) (. .))"
    )
    assert str(fragment) == "(FRAG (-LRB- -LRB-) (NP (NN end)) (-RRB- -RRB-))"
    assert sentence.words == ["The", "dog", "wants", "to", "sleep", "."]


def test_a_tree_of_traces_alone_disappears():
    (tree,) = read_trees("(NP (-NONE- *))")
    assert clean(tree) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(S (NP (NN dog))", "1 brackets are not closed"),
        ("(S (NN dog)) )", "never opened"),
        ("(S )", "needs a label and at least one child: ... ( S )"),
        ("((DT the) (NN dog))", "needs a label"),
        ("dog", "outside all brackets"),
    ],
)
def test_broken_trees_are_refused(text, message):
    with pytest.raises(ValueError, match=message.replace("(", r"\(").replace(")", r"\)")):
        list(read_trees(text))


def test_a_sequence_and_its_tree():
    (tree,) = read_trees("(S (NP (DT the) (NN dog)) (VP (VBZ sleeps)))")
    tokens = linearise(tree)
    assert tokens == ["(S", "(NP", "the", "dog", ")", "(VP", "sleeps", ")", ")"]
    again = tree_of(tokens, tree.words)
    assert brackets(again) == brackets(tree)
    assert again.words == tree.words
    assert again.children[0].children[0].label == "XX"


@pytest.mark.parametrize(
    "tokens", ["(S the ) )", "(S the", "(S the dog cat )", "(S the ) (S dog )"]
)
def test_a_sequence_that_is_no_tree_is_refused(tokens):
    with pytest.raises(ValueError):
        tree_of(tokens.split(), ["the", "dog"])


def test_brackets_have_label_and_span():
    (tree,) = read_trees("(S (NP (NP (NN a)) (PP (IN of) (NP (NN b)))) (VP (VBZ c)))")
    expected = {("S", 0, 4), ("NP", 0, 3), ("NP", 0, 1), ("PP", 1, 3), ("NP", 2, 3), ("VP", 3, 4)}
    assert set(brackets(tree)) == expected


def test_f1_by_hand():
    gold, found = read_trees("(S (NP (A a) (B b)) (VP (C c))) (S (NP (A a)) (VP (B b) (C c)))")
    # Only S of three brackets is right.
    assert score([gold], [found]) == pytest.approx((100 / 3, 100 / 3, 100 / 3, 0))
    assert score([gold, gold], [gold, found]).f1 == pytest.approx(100 * 4 / 6)
    assert score([gold], [gold]) == (100, 100, 100, 100)


@pytest.mark.slow
def test_scores_are_those_of_evalb():
    scorer = pytest.importorskip("PYEVALB.scorer", reason="needs the extra parity")
    parser = pytest.importorskip("PYEVALB.parser")
    gold = draw_trees(30, 0, shortest=6, longest=6)
    # Trees over the same words, with labels and spans of others.
    words = [tree.words for tree in gold]
    found = [tree_of(linearise(gold[i - 1]), words[i]) for i in range(len(gold))]
    gold = [tree_of(linearise(tree), tree.words) for tree in gold]
    matched = in_gold = in_found = 0
    for a, b in zip(gold, found, strict=True):
        trees_of_evalb = [parser.create_from_bracket_string(str(tree)) for tree in (a, b)]
        result = scorer.Scorer().score_trees(*trees_of_evalb)
        matched += result.matched_brackets
        in_gold += result.gold_brackets
        in_found += result.test_brackets
    ours = score(gold, found)
    assert 0 < ours.f1 < 100
    assert ours.recall == pytest.approx(100 * matched / in_gold)
    assert ours.precision == pytest.approx(100 * matched / in_found)


def test_the_grammar_gives_each_sentence_one_tree():
    kinds = {word: kind for kind, words in WORDS.items() for word in words.split()}
    kinds["near"] = "in"

    def pattern(node):  # words of one kind can stand for each other, so that sentences repeat
        if isinstance(node, Tree):
            return (node.label, *map(pattern, node.children))
        return kinds.get(node, node)

    drawn, by_words = draw_trees(500, 2, shortest=2, longest=14), {}
    for tree in drawn:
        key = tuple(map(pattern, tree.words))
        assert by_words.setdefault(key, pattern(tree)) == pattern(tree)
        assert list(read_trees(str(tree))) == [tree]
        assert all(isinstance(child, Tree) for child in tree.children)
    assert len(by_words) < 400
    assert trees.CLOSE not in {word for tree in drawn for word in tree.words}


def test_trees_have_all_lengths_about_equally_often():
    counts = Counter(len(tree.words) for tree in draw_trees(100, 0, shortest=5, longest=14))
    assert all(5 <= counts[length] <= 10 for length in range(5, 14)), counts
    assert 10 <= counts[14] <= 30
