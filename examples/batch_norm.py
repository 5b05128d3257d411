"""BatchNorm in place of LayerNorm, and why a translator cannot use it: measured.

    python examples/batch_norm.py

BatchNorm subtracts the mean of a feature over all positions of all sentences of the batch. So the
output at a position depends on other sentences, on padding, and on later words, which a causal mask
hides. In training the model can use that. In translation there is no later word, so the statistics
must be those of training text, and these differ from batch to batch (Shen et al. 2020, PowerNorm).
"""

import functools
from collections.abc import Mapping
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from flax.traverse_util import flatten_dict

from flaxformer_mt.data.tokenization.vocabulary import BOS_ID
from flaxformer_mt.model.layers import Dropout, Residual, parameter
from flaxformer_mt.model.transformer import shift_right
from single_stack import SingleStack, next_word_logits
from small_runs import Params, Rows, mean_loss, random_batches, show
from variants import Texts, Variant, make_variant, train_language_model


class BatchNorm(nn.Module):
    """Batch normalisation (Ioffe and Szegedy 2015) over the axes B and T.

    Attributes:
      stored: use the statistics of the collection "batch_stats", not those of this batch.
    """

    stored: bool = False
    epsilon: float = 1e-6

    @nn.compact
    def __call__(self, x: Any) -> Any:
        """Returns (x - mean) / deviation * scale + bias, for each feature."""
        scale = parameter(self, "scale", nn.initializers.ones, x.shape[-1:], ("embed",))
        bias = parameter(self, "bias", nn.initializers.zeros, x.shape[-1:], ("embed",))
        if self.stored:
            (mean,) = self.get_variable("batch_stats", "mean")
            (variance,) = self.get_variable("batch_stats", "variance")
        else:
            mean, variance = x.mean((0, 1)), x.var((0, 1))  # [D]
            self.sow("batch_stats", "mean", mean)
            self.sow("batch_stats", "variance", variance)
        return (x - mean) * jax.lax.rsqrt(variance + self.epsilon) * scale + bias


class BatchNormResidual(Residual):
    """The wrapper around every sub-layer with BatchNorm in place of LayerNorm."""

    stored: bool = False

    def setup(self) -> None:
        """Makes the norm and the dropout."""
        self.layer_norm = BatchNorm(self.stored)
        self.drop = Dropout(self.config.dropout, self.kernels)


def make_models(vocab_size: int) -> tuple[SingleStack, SingleStack, SingleStack]:
    """Returns a model with LayerNorm, with BatchNorm, and with BatchNorm of stored statistics."""
    stored = functools.partial(BatchNormResidual, stored=True)
    changes = (Variant(), Variant(make_residual=BatchNormResidual), Variant(make_residual=stored))
    layer, batch, stored = (make_variant(change, vocab_size) for change in changes)
    return layer, batch, stored


def statistics(model: SingleStack, params: Params, text: Rows, *, count: int = 20) -> list[Any]:
    """Returns the means and variances of all norms for `count` batches of 64 sentences."""

    @jax.jit
    def of_batch(batch: Rows) -> Any:
        tokens, positions = jnp.asarray(batch.tokens), jnp.asarray(batch.positions)
        shifted = shift_right(tokens, positions, BOS_ID)
        arguments = shifted, positions, batch.segment_ids
        return model.apply({"params": params}, *arguments, mutable=["batch_stats"])[1]

    batches = zip(range(count), random_batches(len(text.tokens), 64), strict=False)
    return [of_batch(text.take(rows)) for _, rows in batches]


def averaged(states: list[Any]) -> Any:
    """Returns the mean of the statistics of several batches."""
    return jax.tree.map(lambda *xs: jnp.stack(xs).mean(0), *states)


def fluctuation(states: list[Any]) -> float:
    """Returns how much a feature's mean differs between batches, in its deviations within one."""
    flat: list[Any] = [flatten_dict(state) for state in states]
    ratios = []
    for path in flat[0]:
        if path[-1] == "mean":
            means = np.stack([state[path][0] for state in flat])  # [batches D]
            variance = flat[0][*path[:-1], "variance"][0]
            ratios.append(means.std(0) / np.sqrt(variance))
    return float(np.mean(ratios))


def dependence(
    model: SingleStack, params: Params, text: Rows, state: Mapping[str, Any]
) -> tuple[float, float]:
    """Returns the largest change of logits if later words change, and if other sentences change.

    Both are 0 in a causal model that reads each sentence by itself.
    """
    score = jax.jit(lambda text: next_word_logits(model, params, text, state))
    tokens = text.tokens[:64].copy()
    rows = text.take(slice(0, 64))._replace(tokens=tokens)
    before = np.asarray(score(rows))
    later = tokens.copy()
    later[0, 3:] = later[1, 3:]
    of_later = np.abs(np.asarray(score(rows._replace(tokens=later)))[0, :4] - before[0, :4])
    others = tokens.copy()
    others[1:] = tokens[1]
    of_others = np.abs(np.asarray(score(rows._replace(tokens=others)))[0] - before[0])
    return float(of_later.max()), float(of_others.max())


def main(num_steps: int = 150) -> None:
    """Trains with both norms, and prints perplexities and dependences."""
    texts, table = Texts(), []
    layer, batch, stored = make_models(texts.vocabulary.size)
    layer_params = train_language_model(layer, texts.training, num_steps=num_steps)
    batch_params = train_language_model(batch, texts.training, num_steps=num_steps)
    states = statistics(batch, batch_params, texts.training)
    cases = (
        ("LayerNorm", layer, layer_params, {}),
        ("BatchNorm, statistics of the test batch", batch, batch_params, {}),
        ("BatchNorm, statistics of training", stored, batch_params, averaged(states)),
    )
    for name, model, params, state in cases:
        losses = [
            mean_loss(next_word_logits(model, params, text, state), text)
            for text in (texts.training.take(slice(0, 300)), texts.near, texts.far)
        ]
        changes = dependence(model, params, texts.near, state)
        table.append((name, *(float(np.exp(loss)) for loss in losses), *changes))
    header = ("perplexity", "training", "4-8 words", "9-16 words", "later words", "other sentences")
    show(header, table)
    print(f"BatchNorm: the means of 20 batches differ by {fluctuation(states):.3f} deviations")


if __name__ == "__main__":
    main()
