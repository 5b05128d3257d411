"""A small English grammar that writes its trees.

The words decide every attachment: "of" attaches to a noun, "in" and "near" to the nearest verb,
"who" to the noun before it. A clause with "that" ends its sentence. So each sentence has one tree.
"""

import math
import random

from trees import Tree

WORDS = {
    "DT": "the a this every",
    "JJ": "old small green happy tired young red tall quiet rich",
    "NN": (
        "dog cat man woman garden car house teacher child book friend park doctor king bird horse "
        "river street baker sailor train table lamp shop bridge letter song queen farmer cook"
    ),
    "NNP": "Anna Peter Mary Paul Emma Hugo",
    "VBZ": "sees likes finds paints follows visits helps hears knows sells",
    "IVB": "sleeps laughs waits sings works cries smiles swims",
    "SAY": "says thinks believes hopes",
    "MD": "can must will",
    "VB": "see like find paint follow visit help hear know sell",
}
TAGS = {"IVB": "VBZ", "SAY": "VBZ"}


class Grammar:
    """Draws trees; `depth` limits the constituents within constituents."""

    def __init__(self, seed: int) -> None:
        """Starts a sequence of random trees."""
        self.dice = random.Random(seed)

    def sentence(self, depth: int = 3) -> Tree:
        """Returns a clause, sometimes with a reason."""
        if depth > 1 and self.dice.random() < 0.2:
            reason = Tree("SBAR", (Tree("IN", ("because",)), self.clause(depth - 1, say=False)))
            return Tree("S", (*self.clause(depth - 1, say=False).children, reason))
        return self.clause(depth)

    def clause(self, depth: int, *, say: bool = True) -> Tree:
        """Returns subject and predicate; with `say` also "Anna says that ..."."""
        return Tree("S", (self.noun_phrase(depth - 1), self.verb_phrase(depth, say=say)))

    def noun_phrase(self, depth: int, *, relative: bool = True) -> Tree:
        """Returns Anna, the dog, the dog of the man, the man who sleeps."""
        kind = self.dice.random()
        if kind < 0.2:
            return Tree("NP", (self.word("NNP"),))
        adjectives = (self.word("JJ"),) if self.dice.random() < 0.4 else ()
        simple = Tree("NP", (self.word("DT"), *adjectives, self.word("NN")))
        if depth > 0 and kind < 0.4:
            of = Tree("IN", ("of",))
            inner = self.noun_phrase(depth - 1, relative=False)
            return Tree("NP", (simple, Tree("PP", (of, inner))))
        if depth > 0 and relative and kind < 0.55:
            who = Tree("WHNP", (Tree("WP", ("who",)),))
            predicate = Tree("S", (self.verb_phrase(depth - 1, say=False),))
            return Tree("NP", (simple, Tree("SBAR", (who, predicate))))
        return simple

    def verb_phrase(self, depth: int, *, say: bool) -> Tree:
        """Returns sleeps, sees the dog in the park, can see the dog, says that Anna sleeps."""
        kind = self.dice.random()
        if say and depth > 1 and kind < 0.2:
            that = Tree("SBAR", (Tree("IN", ("that",)), self.clause(depth - 1)))
            return Tree("VP", (self.word("SAY"), that))
        place = self.place(depth) if self.dice.random() < 0.3 else ()
        if kind < 0.45:
            return Tree("VP", (self.word("IVB"), *place))
        # A place after an object with a relative clause would attach to the verb of that clause.
        found = self.noun_phrase(depth - 1, relative=not place)
        if kind < 0.65:
            inner = Tree("VP", (self.word("VB"), found, *place))
            return Tree("VP", (self.word("MD"), inner))
        return Tree("VP", (self.word("VBZ"), found, *place))

    def place(self, depth: int) -> tuple[Tree, ...]:
        """Returns in the garden, near Anna."""
        preposition = Tree("IN", (self.dice.choice(["in", "near"]),))
        return (Tree("PP", (preposition, self.noun_phrase(depth - 2, relative=False))),)

    def word(self, kind: str) -> Tree:
        """Returns a word with its part of speech."""
        return Tree(TAGS.get(kind, kind), (self.dice.choice(WORDS[kind].split()),))


def draw_trees(count: int, seed: int, *, shortest: int, longest: int) -> list[Tree]:
    """Returns different trees over `shortest` to `longest` words, about as many of each length.

    The grammar alone draws few long sentences. If shorter ones are rare, there are more of the
    longest.
    """
    grammar, found = Grammar(seed), {}
    room = dict.fromkeys(range(shortest, longest), math.ceil(count / (longest - shortest + 1)))
    room[longest] = count
    while len(found) < count:
        tree = grammar.sentence()
        length = len(tree.words)
        if room.get(length) and str(tree) not in found:
            room[length] -= 1
            found[str(tree)] = tree
    return list(found.values())
