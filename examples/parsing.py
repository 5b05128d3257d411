"""English constituency parsing as translation into bracketed trees (section 6.3).

    python examples/parsing.py                                # a small grammar that writes trees
    python examples/parsing.py --treebank PATH --output data/wsj/train   # text of parsing_wsj.py
    python examples/parsing.py --workdir runs/wsj < words.txt      # trees by a trained model

The target is the tree as a sequence, with the words of the sentence in their places:

    the dog sleeps -> (S (NP the dog ) (VP sleeps ) )

`WellFormed` is a search rule, like those for prefixes and repetitions. It allows only tokens that
can still end in one tree over the given words. So each output is a tree, and its words
are those of the sentence. Training has sentences of up to 20 words, the test longer ones too.
"""

import dataclasses
import itertools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import tyro

from flaxformer_mt.checkpoints.loading import load_model
from flaxformer_mt.cli import exit_code
from flaxformer_mt.data.tokenization.vocabulary import BOS_ID, EOS_ID, PAD_ID
from flaxformer_mt.data.tokenization.word_vocabulary import WordVocabulary
from flaxformer_mt.model.config import TransformerConfig
from flaxformer_mt.model.initialization import init_params
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.search.rules import History
from small_runs import (
    Params,
    Rows,
    fit,
    make_rows,
    mean_loss,
    pair_arguments,
    random_batches,
    show,
    translate,
)
from tree_grammar import draw_trees
from trees import CLOSE, Tree, clean, linearise, read_trees, score, tree_of


@flax.struct.dataclass
class WellFormed:
    """Allows only tokens that can still end in one tree over the given words.

    After a token that this rule allows there is always another one, and the tree ends within the
    length limit T, which must be at least the number of words + 3.
    """

    words: Any
    """Tokens of the sentence, [B W]."""
    lengths: Any
    """Number of words, [B]."""
    opens: Any
    """Whether a token opens a constituent, [1 V]."""
    close_id: int = flax.struct.field(pytree_node=False)
    eos_id: int = flax.struct.field(pytree_node=False)
    max_chain: int = flax.struct.field(pytree_node=False, default=6)
    """The most brackets that open in a row."""

    def __call__(self, scores: Any, chosen: History) -> Any:
        """Returns the scores [B K V]; -inf for a token that must not come next."""
        tokens, step = chosen
        place = jnp.arange(tokens.shape[2])
        written = place < step[:, None, None]  # [B 1 T]
        opens = self.opens[0][tokens] & written  # [B K T]
        closes = (tokens == self.close_id) & written
        depth = opens.sum(-1) - closes.sum(-1)  # [B K]
        used = (written & ~opens & ~closes).sum(-1)  # words so far
        left = self.lengths[:, None] - used
        # The brackets that opened since the last word or closing bracket.
        others = jnp.where(written & ~opens, place + 1, 0).max(-1)
        chain = step[:, None] - others
        room = tokens.shape[2] - step[:, None]
        needed = left + depth + 1  # to the end: words, closing brackets, EOS

        begun = step[:, None] > 0
        may_open = (left > 0) & (chain < self.max_chain) & (needed + 2 <= room)
        may_open &= (depth > 0) | ~begun
        may_word = (depth > 0) & (left > 0)
        may_close = (depth > 0) & (chain == 0) & ((depth > 1) | (left == 0))
        may_end = begun & (depth == 0) & (left == 0)
        vocabulary = jnp.arange(scores.shape[-1])
        index = jnp.minimum(used, self.words.shape[1] - 1)
        word = jnp.take_along_axis(self.words, index, axis=1)  # [B K]
        allowed = (
            (may_open[..., None] & self.opens[0])
            | (may_word[..., None] & (vocabulary == word[..., None]))
            | (may_close[..., None] & (vocabulary == self.close_id))
            | (may_end[..., None] & (vocabulary == self.eos_id))
        )
        return jnp.where(allowed, scores, -jnp.inf)


def make_rule(vocabulary: WordVocabulary, sentences: Sequence[Sequence[str]]) -> WellFormed:
    """Returns the rule for a batch of sentences."""
    tokens = make_rows([vocabulary.tokenize(" ".join(words)) for words in sentences])
    opens = np.array([piece.startswith("(") and len(piece) > 1 for piece in vocabulary.pieces])
    close = vocabulary.pieces.index(CLOSE)
    lengths = jnp.array([len(words) for words in sentences], jnp.int32)
    return WellFormed(jnp.asarray(tokens.tokens), lengths, jnp.asarray(opens[None]), close, EOS_ID)


def parse(
    model: Transformer,
    params: Params,
    vocabulary: WordVocabulary,
    sentences: Sequence[Sequence[str]],
    *,
    max_length: int,
    beam_size: int = 1,
    length_penalty: float = 0.0,
    constrained: bool = True,
) -> list[list[str]]:
    """Returns the best sequence of each sentence; with `constrained` it is a tree over its words.

    Raises:
      ValueError: a sentence is too long for a tree of `max_length` tokens.
    """
    longest = max(map(len, sentences))
    if longest + 3 > max_length:
        raise ValueError(
            f"a tree over {longest} words has at least {longest + 3} tokens, but max_length is "
            f"{max_length}: raise it (in the config of a model: "
            "decoding.max_target_length), or shorten the sentence."
        )
    source = make_rows([vocabulary.tokenize(" ".join(words)) for words in sentences])
    rules = (make_rule(vocabulary, sentences),) if constrained else ()
    found = translate(
        model,
        params,
        source,
        max_length=max_length,
        beam_size=beam_size,
        length_penalty=length_penalty,
        rules=rules,
        never=(PAD_ID, BOS_ID),
    )
    return [vocabulary.detokenize(tokens).split() for tokens in found.tokens[:, 0]]


def train(trees: Sequence[Tree], *, num_steps: int) -> tuple[Transformer, Params, WordVocabulary]:
    """Returns a trained parser.

    Its positions are relative and end at distance 4, so that no word is known by its place in the
    sentence: the test has longer sentences.
    """
    texts = [" ".join(tree.words) for tree in trees]
    targets = [" ".join(linearise(tree)) for tree in trees]
    vocabulary = WordVocabulary.learn(targets, max_size=1000, min_count=1)
    sizes = TransformerConfig(d_model=64, d_ff=128, num_heads=4, norm="pre")
    config = dataclasses.replace(sizes, positions="relative", max_distance=4)
    model = Transformer(config, vocabulary.size, vocabulary.size, bos_id=BOS_ID)
    source, target = (make_rows(list(map(vocabulary.tokenize, side))) for side in (texts, targets))

    def loss(params: Params, batch: tuple[Rows, Rows]) -> jax.Array:
        return mean_loss(model.apply({"params": params}, *pair_arguments(*batch)), batch[1])

    batches = ((source.take(i), target.take(i)) for i in random_batches(len(trees), 32))
    params = jax.jit(lambda: init_params(model, jax.random.key(0)))()
    return model, fit(loss, params, batches, num_steps=num_steps), vocabulary


def is_tree(tokens: Sequence[str], words: Sequence[str]) -> bool:
    """Returns whether the tokens are one tree over these words."""
    try:
        right_words = [t for t in tokens if not t.startswith("(") and t != CLOSE] == list(words)
        return right_words and bool(tree_of(tokens, words))
    except ValueError:
        return False


def demonstrate(num_steps: int = 4000) -> None:
    """Trains on the grammar's trees; prints labelled F1 on longer sentences, and a tree of one."""
    training = draw_trees(40_000, 0, shortest=2, longest=20)
    model, params, vocabulary = train(training, num_steps=num_steps)
    seen = {str(tree) for tree in training}
    rows, shown = [], []
    for shortest, longest in ((2, 20), (21, 22), (23, 24), (25, 28)):
        drawn = draw_trees(300, 1, shortest=shortest, longest=longest)
        gold = [tree for tree in drawn if str(tree) not in seen][:100]
        words = [tree.words for tree in gold]
        free = parse(model, params, vocabulary, words, max_length=128, constrained=False)
        percent = np.mean([is_tree(*pair) for pair in zip(free, words, strict=True)]) * 100
        found = parse(model, params, vocabulary, words, max_length=128)
        trees = [tree_of(*pair) for pair in zip(found, words, strict=True)]
        shown.append(trees[0])
        result = score(gold, trees)
        name = f"{shortest} to {longest} words"
        rows.append((name, float(percent), 100.0, result.recall, result.precision, result.f1))
    header = ("% trees, free", "% trees, rule", "recall", "precision", "F1")
    show(("sentences", *header), rows)
    print(shown[1])


def write_text(treebank: Path, output: Path) -> None:
    """Writes the words and the sequences of all .mrg files of a folder: two parallel text files.

    Raises:
      ValueError: the folder has no .mrg file.
    """
    files = sorted(treebank.rglob("*.mrg"))
    if not files:
        raise ValueError(f"{treebank} has no .mrg files: give the folder of a treebank's sections")
    output.parent.mkdir(parents=True, exist_ok=True)
    with (
        Path(f"{output}.words").open("w", encoding="utf-8") as words,
        Path(f"{output}.trees").open("w", encoding="utf-8") as sequences,
    ):
        for file in files:
            for tree in map(clean, read_trees(file.read_text(encoding="utf-8"))):
                if tree is not None:
                    print(" ".join(tree.words), file=words)
                    print(" ".join(linearise(tree)), file=sequences)


def parse_lines(workdir: str, batch_size: int = 16) -> None:
    """Prints the tree of each line of standard input, by the model of a workdir.

    Beam size, length penalty and length limit are those of its config; the sentences of a batch
    share the limit of the longest one. Brackets in the text become -LRB- and -RRB-, as in the
    treebank. A blank line stays a blank line.
    """
    loaded = load_model(workdir)
    vocabulary = loaded.tokenizer.target
    if not isinstance(vocabulary, WordVocabulary) or loaded.tokenizer.source is not vocabulary:
        raise ValueError(
            f"the model in {workdir} has no shared word vocabulary: it is not a parser"
        )
    decoding = loaded.config.decoding
    while lines := list(itertools.islice(sys.stdin, batch_size)):
        texts = [line.replace("(", "-LRB-").replace(")", "-RRB-").split() for line in lines]
        sentences = [words for words in texts if words]
        longest = max(map(len, sentences), default=0)
        how: dict[str, Any] = {
            "max_length": decoding.length_limit(longest),
            "beam_size": decoding.beam_size,
            "length_penalty": decoding.length_penalty,
        }
        model = loaded.model, loaded.params, vocabulary
        found = iter(parse(*model, sentences, **how) if sentences else ())
        for words in texts:
            print(tree_of(next(found), words) if words else "")


def main(treebank: Path | None = None, output: Path = Path("data/wsj"), workdir: str = "") -> None:
    """Parses with a small grammar, or prepares a treebank, or parses lines.

    Args:
      treebank: a folder of .mrg files to write as text.
      output: where to write it: OUTPUT.words and OUTPUT.trees.
      workdir: a trained parser; it reads sentences, their words separated by spaces.
    """
    if treebank is not None:
        write_text(treebank, output)
    elif workdir:
        parse_lines(workdir)
    else:
        demonstrate()


if __name__ == "__main__":
    sys.exit(exit_code(lambda: tyro.cli(main)))
