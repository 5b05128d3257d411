"""One update of the parameters, and the loss of one batch without an update.

A batch has the shape [A B T]: A micro-batches of B rows, whose gradients are summed. The partition
of a batch changes nothing but rounding, because the loss is a mean over all its tokens and the
dropout of a row depends on its number in the whole batch.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, ArrayLike, Float, Int

from flaxformer_mt.data.batching.batch import Batch
from flaxformer_mt.model.initialization import Params
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.training.adapting import TRAIN_ALL, Adaptation
from flaxformer_mt.training.config import TrainingConfig
from flaxformer_mt.training.loss import cross_entropy, symmetric_kl
from flaxformer_mt.training.state import TrainState

T = TypeVar("T")


class Metrics(NamedTuple):
    """Metrics of one global batch, as device scalars: reading one waits for the step.

    Attributes:
      loss: the minimised loss, nats per target token: label-smoothed cross-entropy, plus R-Drop's
        term.
      nll: plain cross-entropy, nats per target token; perplexity is its exponential.
      target_tokens: real (not padding) target tokens, EOS included.
      grad_norm: global norm of the gradient before clipping; 0 without an update.
      skipped: 1 if loss or gradient was not finite and nothing was updated, else 0.
    """

    loss: Float[Array, ""]
    nll: Float[Array, ""]
    target_tokens: Float[Array, ""]
    grad_norm: Float[Array, ""]
    skipped: Float[Array, ""]


class Sums(NamedTuple):
    """Losses of some rows of a batch, in nats, summed over their target tokens."""

    loss: Float[Array, ""]
    nll: Float[Array, ""]


TrainStep = Callable[[TrainState, Batch], tuple[TrainState, Metrics]]
EvalStep = Callable[[Params, Batch], Metrics]
LossOf = Callable[[Params, Batch, Int[Array, " B"], Array | None], Sums]
"""(params, rows of a batch [B T], their numbers in the whole batch, dropout key) -> Sums

There is no dropout without a key.
"""


def make_loss(model: Transformer, *, label_smoothing: float = 0.0, r_drop: float = 0.0) -> LossOf:
    """Returns the loss function of some rows, for training (with a dropout key) or evaluation.

    `r_drop` is the weight alpha of R-Drop (Liang et al. 2021, equations 3 and 4): each batch passes
    the model twice, with two dropout masks, and the loss penalises the difference of the outputs.
    The loss is the mean of the two passes, half of the paper's sum. If `r_drop` is 0, there is one
    pass.
    """

    def logits_of(params: Params, batch: Batch, rows: Array, key: Array | None) -> Array:
        noise: dict[str, Any] = {"dropout_rows": rows, "rngs": {"dropout": key}}
        noise = {} if key is None else noise
        return jnp.asarray(model.apply({"params": params}, *batch, **noise))

    def sums_of(logits: Array, batch: Batch) -> Sums:
        targets, mask = jnp.asarray(batch.targets), _real(batch)
        return Sums(*cross_entropy(logits, targets, mask, label_smoothing=label_smoothing))

    def once(params: Params, batch: Batch, rows: Array, key: Array | None) -> Sums:
        return sums_of(logits_of(params, batch, rows, key), batch)

    def twice(params: Params, batch: Batch, rows: Array, key: Array | None) -> Sums:
        if key is None:
            raise ValueError("R-Drop compares two dropout masks: it needs a dropout key")
        keys = key, jax.random.fold_in(key, 1)
        p, q = (logits_of(params, batch, rows, key) for key in keys)
        one, other = sums_of(p, batch), sums_of(q, batch)
        divergence = symmetric_kl(p, q, _real(batch))
        # Half of equation 4, the sum of both cross-entropies and alpha / 2 * divergence.
        loss = (one.loss + other.loss) / 2 + r_drop / 4 * divergence
        return Sums(loss, (one.nll + other.nll) / 2)

    return twice if r_drop else once


def make_train_step(
    model: Transformer,
    optimizer: optax.GradientTransformation,
    config: TrainingConfig,
    adaptation: Adaptation = TRAIN_ALL,
) -> TrainStep:
    """Returns a jit-compiled update that reuses the old state's memory (donation).

    The shardings of state and batch decide where it runs: XLA adds the necessary communication,
    such as the all-reduce of gradients in data parallelism.
    """
    loss_of = make_loss(model, label_smoothing=config.label_smoothing, r_drop=config.r_drop)

    def train_step(state: TrainState, batch: Batch) -> tuple[TrainState, Metrics]:
        key = jax.random.fold_in(jax.random.wrap_key_data(state.key), state.step)
        mean_of = 1.0 / jnp.maximum(_count(batch.targets_segment_ids), 1.0)

        trained, frozen = adaptation.split(state.params)

        def of_rows(part: Batch, rows: Int[Array, " B"]) -> tuple[Sums, Params]:
            def loss(trained: Params) -> tuple[Float[Array, ""], Sums]:
                params = adaptation.merge(adaptation.join(trained, frozen))
                sums = loss_of(params, part, rows, key)
                return sums.loss * mean_of, sums

            gradients, sums = jax.grad(loss, has_aux=True)(trained)
            return sums, gradients

        sums, gradients = _accumulate(of_rows, batch)
        grad_norm = optax.tree.norm(gradients)
        updates, opt_state = optimizer.update(gradients, state.opt_state, trained)
        trained = optax.apply_updates(trained, updates)
        ema = state.ema
        if ema is not None:
            # A smaller decay in early steps keeps the average from depending on the first value.
            decay = jnp.minimum(config.ema_decay, (1.0 + state.step) / (10.0 + state.step))
            ema = jax.tree.map(lambda old, new: decay * old + (1 - decay) * new, ema, trained)
        params = adaptation.join(trained, frozen)
        new = TrainState(state.step, params, opt_state, state.key, ema)
        finite = jnp.isfinite(sums.loss + grad_norm)

        # The update of a finite gradient can overflow. Each number is checked by itself, because a
        # check of all would need all updates in memory at once.
        def keep_finite(new: Array, old: Array) -> Array:
            if jnp.issubdtype(new.dtype, jnp.integer):
                return new  # counts of the optimiser: the learning rate follows `step`
            return jnp.where(finite & jnp.isfinite(new), new, old)

        kept = jax.tree.map(keep_finite, new, state)
        metrics = _metrics(sums, batch)._replace(grad_norm=grad_norm, skipped=1.0 - finite)
        return dataclasses.replace(kept, step=state.step + 1), metrics

    return jax.jit(train_step, donate_argnums=0)


def make_eval_step(model: Transformer) -> EvalStep:
    """Returns the jit-compiled loss of one batch, without smoothing, dropout or update."""
    loss_of = make_loss(model)

    def eval_step(params: Params, batch: Batch) -> Metrics:
        sums = _accumulate(lambda part, rows: loss_of(params, part, rows, None), batch)
        return _metrics(sums, batch)

    return jax.jit(eval_step)


def _accumulate(of_rows: Callable[[Batch, Int[Array, " B"]], T], batch: Batch) -> T:
    """Returns the sum of `of_rows(micro-batch, its row numbers)` over the A micro-batches."""
    count, size = batch.inputs.shape[:2]
    if count == 1:  # saves the loop and the memory of a sum
        return of_rows(Batch(*(x[0] for x in batch)), jnp.arange(size))
    rows = jnp.arange(count * size).reshape(count, size)

    def add(total: T, part: tuple[Batch, Int[Array, " B"]]) -> tuple[T, None]:
        return jax.tree.map(jnp.add, total, of_rows(*part)), None

    first = jax.tree.map(lambda x: x[0], (batch, rows))
    zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(of_rows, *first))
    return jax.lax.scan(add, zeros, (batch, rows))[0]


def _real(batch: Batch) -> Array:
    """Returns a mask [B T] of the real target tokens."""
    return jnp.asarray(batch.targets_segment_ids) != 0


def _metrics(sums: Sums, batch: Batch) -> Metrics:
    """Returns means per target token of the whole batch."""
    tokens = _count(batch.targets_segment_ids)
    mean_of = 1.0 / jnp.maximum(tokens, 1.0)
    return Metrics(
        loss=sums.loss * mean_of,
        nll=sums.nll * mean_of,
        target_tokens=tokens,
        grad_norm=jnp.zeros(()),
        skipped=jnp.zeros(()),
    )


def _count(segment_ids: ArrayLike) -> Float[Array, ""]:
    return jnp.sum(jnp.asarray(segment_ids) != 0, dtype=jnp.float32)
