"""Constituency trees: bracketed text, sequences of tokens, and labelled F1."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Union

CLOSE = ")"
ANY_TAG = "XX"
"""The tag of every word in a tree that was read from a sequence (as in Vinyals et al. 2015)."""


class Tree(NamedTuple):
    """A constituent; the part of speech of a word is a tree whose only child is the word."""

    label: str
    children: tuple[Union["Tree", str], ...]

    @property
    def words(self) -> list[str]:
        """The words from left to right."""
        below = ([c] if isinstance(c, str) else c.words for c in self.children)
        return [word for words in below for word in words]

    @property
    def is_tag(self) -> bool:
        """Whether this is the part of speech of a word."""
        return isinstance(self.children[0], str)

    def __str__(self) -> str:
        """Returns the bracketed tree on one line."""
        return f"({self.label} {' '.join(map(str, self.children))})"


def read_trees(text: str) -> Iterator[Tree]:
    """Yields the trees of bracketed text, such as a .mrg file of the Penn Treebank.

    The outermost bracket of a .mrg tree has no label; it is dropped.

    Raises:
      ValueError: a bracket is missing or superfluous, or a constituent is empty.
    """
    tokens = re.findall(r"[()]|[^\s()]+", text)
    stack: list[list] = [[]]
    for number, token in enumerate(tokens):
        if token == "(":
            stack.append([])
        elif token != ")":
            stack[-1].append(token)
        elif len(stack) == 1:
            raise ValueError(f"a bracket closes that was never opened: {_near(tokens, number)}")
        else:
            stack[-2].append(_tree(stack.pop(), _near(tokens, number)))
    if len(stack) > 1:
        raise ValueError(f"{len(stack) - 1} brackets are not closed at the end of the text")
    for tree in stack[0]:
        if isinstance(tree, str):
            raise ValueError(f"the word {tree!r} is outside all brackets")
        yield tree


def _tree(parts: list, where: str) -> Tree:
    """Returns the tree with these parts: a label and children, or one tree without a label."""
    if len(parts) == 1 and isinstance(parts[0], Tree):
        return parts[0]
    if len(parts) < 2 or not isinstance(parts[0], str):
        raise ValueError(f"a constituent needs a label and at least one child: {where}")
    return Tree(parts[0], tuple(parts[1:]))


def _near(tokens: Sequence[str], number: int) -> str:
    return "... " + " ".join(tokens[max(0, number - 8) : number + 1])


def clean(tree: Tree) -> Tree | None:
    """Returns the tree as parsers predict it; None if no word is left.

    Traces (-NONE-) and constituents without words are removed, and functions and indices of labels:
    NP-SBJ-1 becomes NP. The tags -LRB- and -RRB- stay.
    """
    if tree.is_tag:
        return None if tree.label == "-NONE-" else tree
    cleaned = [clean(child) for child in tree.children if isinstance(child, Tree)]
    children = tuple(child for child in cleaned if child is not None)
    label = tree.label if tree.label.startswith("-") else re.split(r"[-=|]", tree.label)[0]
    return Tree(label, children) if children else None


def linearise(tree: Tree) -> list[str]:
    """Returns the tree as tokens without parts of speech: (S (NP the dog ) (VP sleeps ) )."""
    if tree.is_tag:
        return [str(tree.children[0])]
    inner = [token for child in tree.children for token in linearise(child)]  # pyrefly: ignore
    return [f"({tree.label}", *inner, CLOSE]


def tree_of(tokens: Iterable[str], words: Sequence[str]) -> Tree:
    """Returns the tree of a sequence, with the given words and the tag XX.

    Raises:
      ValueError: the sequence is no tree over this number of words.
    """
    tokens, left = list(tokens), list(words)
    text = []
    for token in tokens:
        if token.startswith("(") or token == CLOSE:
            text.append(token)
        elif left:
            text.append(f"({ANY_TAG} {left.pop(0)})")
        else:
            raise ValueError(f"more words than the {len(words)} given: {' '.join(tokens)}")
    trees = list(read_trees(" ".join(text)))
    if left or len(trees) != 1:
        raise ValueError(f"no single tree over {len(words)} words: {' '.join(tokens)}")
    return trees[0]


Bracket = tuple[str, int, int]
"""Label, first word, and the word after the last."""


def brackets(tree: Tree, start: int = 0) -> Counter[Bracket]:
    """Returns the labelled spans of all constituents, without parts of speech."""
    found: Counter[Bracket] = Counter()
    if tree.is_tag:
        return found
    position = start
    for child in tree.children:
        if isinstance(child, Tree):
            found += brackets(child, position)
            position += len(child.words)
    found[tree.label, start, position] += 1
    return found


class Scores(NamedTuple):
    """Labelled bracketing scores in per cent, as EVALB reports them."""

    recall: float
    precision: float
    f1: float
    exact: float
    """Sentences whose brackets are all right."""


def score(gold: Sequence[Tree], found: Sequence[Tree]) -> Scores:
    """Returns the scores over all constituents of all sentences."""
    pairs = [(brackets(a), brackets(b)) for a, b in zip(gold, found, strict=True)]
    matched = sum((a & b).total() for a, b in pairs)
    in_gold, in_found = (sum(pair[side].total() for pair in pairs) for side in (0, 1))
    exact = sum(a == b for a, b in pairs) / len(pairs)
    f1 = 2 * matched / (in_gold + in_found)
    return Scores(*(100 * x for x in (matched / in_gold, matched / in_found, f1, exact)))
