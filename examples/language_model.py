"""A decoder-only language model, which also reranks translations (noisy channel).

    python examples/language_model.py

The model is a stack of the package's layers with a causal mask. It reads German text alone, of
which there is ten times as much as parallel text. A translator gives eight candidates y of a source
x. By the rule of Bayes p(y | x) is proportional to p(x | y) p(y): a model in the other direction
(the channel) and the language model score the candidates:

    log p(y | x) + channel * log p(x | y) + language * log p(y)

The two weights are chosen on validation pairs. Yee et al. 2019 divide the terms by the lengths of
the sentences, and give both models one weight.
"""

import dataclasses
import itertools
from collections.abc import Sequence

import jax
import numpy as np
import sacrebleu

from flaxformer_mt.data.tokenization.vocabulary import BOS_ID
from flaxformer_mt.data.tokenization.word_vocabulary import WordVocabulary
from flaxformer_mt.model.config import TransformerConfig
from flaxformer_mt.model.initialization import init_params
from flaxformer_mt.model.transformer import Transformer
from single_stack import SingleStack, fit_language_model, init, next_word_logits
from small_runs import (
    Params,
    Rows,
    demo_pairs,
    fit,
    make_rows,
    mean_loss,
    pair_arguments,
    random_batches,
    sequence_log_probs,
    show,
    translate,
    without,
)

SIZES = TransformerConfig(
    d_model=64, d_ff=128, num_heads=4, num_encoder_layers=1, num_decoder_layers=1
)
LENGTH = 10  # words of a sentence, EOS included
BEAM = 8


def train_language_model(
    vocabulary: WordVocabulary, texts: Sequence[str], *, num_steps: int, seed: int = 0
) -> tuple[SingleStack, Params]:
    """Returns a causal stack that predicts each word from the words before it."""
    model = SingleStack(SIZES, vocabulary.size, causal=True)
    rows = encode(vocabulary, texts)
    params = init(model, seed)
    return model, fit_language_model(model, params, rows, num_steps=num_steps, seed=seed)


def train_translator(
    vocabulary: WordVocabulary, pairs: Sequence[tuple[str, str]], *, num_steps: int
) -> tuple[Transformer, Params]:
    """Returns a Transformer that was trained on (source, target) pairs."""
    model = Transformer(SIZES, vocabulary.size, vocabulary.size, bos_id=BOS_ID)
    source, target = (encode(vocabulary, side) for side in zip(*pairs, strict=True))

    def loss(params: Params, batch: tuple[Rows, Rows]) -> jax.Array:
        return mean_loss(model.apply({"params": params}, *pair_arguments(*batch)), batch[1])

    batches = ((source.take(i), target.take(i)) for i in random_batches(len(pairs), 64))
    return model, fit(
        loss, jax.jit(lambda: init_params(model, jax.random.key(0)))(), batches, num_steps=num_steps
    )


def encode(vocabulary: WordVocabulary, texts: Sequence[str]) -> Rows:
    """Returns the words of the texts as numbers."""
    return make_rows([vocabulary.tokenize(text) for text in texts], LENGTH)


def language_log_probs(model: SingleStack, params: Params, text: Rows) -> np.ndarray:
    """Returns log p(y) of each sentence."""
    score = jax.jit(lambda params, text: next_word_logits(model, params, text))
    return np.asarray(sequence_log_probs(score(params, text), text.tokens, text.segment_ids))


def translation_log_probs(
    model: Transformer, params: Params, source: Rows, target: Rows
) -> np.ndarray:
    """Returns log p(target | source) of each pair."""
    logits = jax.jit(model.apply)({"params": params}, *pair_arguments(source, target))
    return np.asarray(sequence_log_probs(logits, target.tokens, target.segment_ids))


@dataclasses.dataclass(frozen=True)
class Candidates:
    """The best translations of n sources, and their log-probabilities: each array is [n K]."""

    texts: list[list[str]]
    direct: np.ndarray
    """log p(y | x)"""
    channel: np.ndarray
    """log p(x | y)"""
    language: np.ndarray
    """log p(y)"""

    def choose(self, channel: float, language: float) -> list[str]:
        """Returns the best candidate of each source with these weights."""
        total = self.direct + channel * self.channel + language * self.language
        return [row[best] for row, best in zip(self.texts, total.argmax(1), strict=True)]


def percent_right(found: Sequence[str], truth: Sequence[str]) -> float:
    """Returns the percentage of sentences that are right word for word."""
    return 100 * float(np.mean([a == b for a, b in zip(found, truth, strict=True)]))


def main(num_parallel: int = 2000, num_monolingual: int = 20_000) -> None:
    """Trains three models, and prints the quality with and without reranking."""
    pairs = [pair for pair in demo_pairs(40_000, 40_000) if is_short(pair)]
    held_out = pairs[:600]
    others = without(pairs[600:], held_out)
    parallel = others[:num_parallel]
    german = [text for _, text in others[:num_monolingual]]
    everything = [text for pair in parallel for text in pair] + german
    vocabulary = WordVocabulary.learn(everything, max_size=5000, min_count=1)
    direct, direct_params = train_translator(vocabulary, parallel, num_steps=300)
    swapped = [(target, source) for source, target in parallel]
    channel, channel_params = train_translator(vocabulary, swapped, num_steps=300)
    language, language_params = train_language_model(vocabulary, german, num_steps=600)

    english, truth = zip(*held_out, strict=True)
    source = encode(vocabulary, english)
    found = translate(direct, direct_params, source, max_length=LENGTH, beam_size=BEAM)
    flat = [vocabulary.detokenize(tokens) for row in found.tokens for tokens in row]
    target, repeated = encode(vocabulary, flat), source.take(np.repeat(range(len(source[0])), BEAM))
    candidates = Candidates(
        [flat[i : i + BEAM] for i in range(0, len(flat), BEAM)],
        np.asarray(found.scores),
        translation_log_probs(channel, channel_params, target, repeated).reshape(-1, BEAM),
        language_log_probs(language, language_params, target).reshape(-1, BEAM),
    )
    steps = (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0)

    def tune(channels: Sequence[float], languages: Sequence[float]) -> tuple[float, float]:
        return max(
            itertools.product(channels, languages),
            key=lambda weights: percent_right(candidates.choose(*weights)[:200], truth[:200]),
        )

    ways = {
        "the translator alone": (0.0, 0.0),
        "with the language model": tune((0.0,), steps),
        "with the channel": tune(steps, (0.0,)),
        "with both (noisy channel)": tune(steps, steps),
    }
    table = []
    for name, weights in ways.items():
        best = candidates.choose(*weights)[200:]
        bleu = sacrebleu.corpus_bleu(best, [truth[200:]], tokenize="none", force=True)
        table.append((name, *weights, percent_right(best, truth[200:]), bleu.score))
    show(("", "channel", "language", "% right", "BLEU"), table)
    among = [best in row for row, best in zip(candidates.texts, truth, strict=True)][200:]
    print(f"the right translation is among the {BEAM} candidates: {100 * np.mean(among):.1f} %")


def is_short(pair: tuple[str, str]) -> bool:
    """Returns whether both sides fit into `LENGTH` tokens."""
    return all(len(side.split()) < LENGTH for side in pair)


if __name__ == "__main__":
    main()
