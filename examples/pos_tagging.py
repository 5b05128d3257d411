"""Part-of-speech tags by an encoder alone: "I saw a saw" needs context.

    python examples/pos_tagging.py

The words of a small grammar have several tags: "saw" is a verb or a noun, "light" is an adjective,
a noun or a verb. A baseline gives each word its most frequent tag. The encoder reads the whole
sentence. Without positions it reads a bag of words: both words "saw" get the same tag.
"""

import dataclasses
import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from flaxformer_mt.model.config import Scheme, TransformerConfig
from single_stack import SingleStack, init
from small_runs import Params, Rows, fit, make_rows, random_batches, show

RULES = {
    "S": ("PRP VBD NP", "PRP VBP NP", "PRP MD VB NP", "NP VBZ NP", "NP MD VB NP", "S IN NP"),
    "NP": ("DT NN", "DT JJ NN", "DT NN IN NP"),
}
LEXICON = {
    "PRP": "I you we they",
    "DT": "a the this",
    "NN": "saw can duck fish light watch fly left dog book man",
    "JJ": "light left old red",
    "VBD": "saw left lit ate watched",
    "VBP": "like duck watch light can fly see",
    "VB": "like duck watch light can saw see",
    "VBZ": "flies likes sees watches",
    "MD": "can will must",
    "IN": "like with near on",
}
TAGS = tuple(LEXICON)
WORDS = tuple(sorted({word for line in LEXICON.values() for word in line.split()}))
Tagged = list[tuple[str, str]]  # (word, tag)


def derive(symbol: str, dice: random.Random) -> Tagged:
    """Returns the tagged words of a random sentence of the grammar."""
    if symbol in LEXICON:
        return [(dice.choice(LEXICON[symbol].split()), symbol)]
    symbols = dice.choice(RULES[symbol]).split()
    return [tagged for symbol in symbols for tagged in derive(symbol, dice)]


def make_sentences(count: int, seed: int) -> list[Tagged]:
    """Returns different sentences of at most 12 words."""
    dice, found = random.Random(seed), {}
    while len(found) < count:
        sentence = derive("S", dice)
        if len(sentence) <= 12:
            found[tuple(sentence)] = sentence
    return list(found.values())


def encode(sentences: Sequence[Sequence[str]]) -> Rows:
    """Returns the words as numbers from 1; 0 is padding."""
    number = {word: index for index, word in enumerate(WORDS, start=1)}
    return make_rows([[number[word] for word in sentence] for sentence in sentences], 12)


def most_frequent_tags(sentences: Sequence[Tagged]) -> dict[str, str]:
    """Returns the baseline without context: each word's most frequent tag."""
    counts = defaultdict(Counter)
    for sentence in sentences:
        for word, tag in sentence:
            counts[word][tag] += 1
    return {word: tags.most_common(1)[0][0] for word, tags in counts.items()}


def train(sentences: Sequence[Tagged], *, positions: Scheme, num_steps: int) -> "Tagger":
    """Returns an encoder that was trained on the sentences."""
    sizes = TransformerConfig(d_model=32, d_ff=64, num_heads=4, num_encoder_layers=2)
    config = dataclasses.replace(sizes, positions=positions)
    model = SingleStack(config, len(WORDS) + 1, num_outputs=len(TAGS))
    text = encode([[word for word, _ in sentence] for sentence in sentences])
    tags = make_rows([[TAGS.index(tag) for _, tag in sentence] for sentence in sentences], 12)

    def loss(params: Params, batch: tuple[Rows, np.ndarray]) -> jax.Array:
        rows, tags = batch
        logits: Any = model.apply({"params": params}, *rows)
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, tags)
        return jnp.mean(losses, where=rows.segment_ids != 0)

    batches = ((text.take(i), tags.tokens[i]) for i in random_batches(len(sentences), 64))
    params = fit(loss, init(model), batches, num_steps=num_steps)
    return Tagger(model, params)


@dataclasses.dataclass(frozen=True)
class Tagger:
    """A trained encoder."""

    model: SingleStack
    params: Params

    def __call__(self, sentences: Sequence[Sequence[str]]) -> list[list[str]]:
        """Returns the most probable tag of every word."""
        logits = jax.jit(self.model.apply)({"params": self.params}, *encode(sentences))
        best = np.asarray(jnp.argmax(jnp.asarray(logits), axis=-1))
        return [
            [TAGS[tag] for tag in row[: len(sentence)]]
            for row, sentence in zip(best, sentences, strict=True)
        ]


def accuracies(found: Sequence[Sequence[str]], truth: Sequence[Tagged]) -> tuple[float, ...]:
    """Returns percentages of right tags: of all words, of ambiguous words; and of sentences."""
    tags_of = Counter(word for line in LEXICON.values() for word in set(line.split()))
    right = [
        [(tag == true, tags_of[word] > 1) for tag, (word, true) in zip(tags, sentence, strict=True)]
        for tags, sentence in zip(found, truth, strict=True)
    ]
    words = [pair for sentence in right for pair in sentence]
    ambiguous = [is_right for is_right, is_ambiguous in words if is_ambiguous]
    whole = [all(is_right for is_right, _ in sentence) for sentence in right]
    return tuple(100 * float(np.mean(x)) for x in ([r for r, _ in words], ambiguous, whole))


def main() -> None:
    """Trains, and prints the accuracies of three taggers."""
    sentences = make_sentences(3000, seed=0)
    training, test = sentences[:2500], sentences[2500:]
    baseline = most_frequent_tags(training)
    taggers = {
        "most frequent tag": lambda texts: [[baseline[word] for word in text] for text in texts],
        "encoder without positions": train(training, positions="none", num_steps=400),
        "encoder": train(training, positions="sinusoidal", num_steps=400),
    }
    texts = [[word for word, _ in sentence] for sentence in test]
    header = ("percentage right", "words", "ambiguous words", "sentences")
    show(header, [(name, *accuracies(tag(texts), test)) for name, tag in taggers.items()])
    print()
    example = ["I", "saw", "a", "saw"]
    show(("", *example), [(name, *tag([example])[0]) for name, tag in taggers.items()])


if __name__ == "__main__":
    main()
