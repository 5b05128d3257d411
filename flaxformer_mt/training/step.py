"""One update of the parameters, and the loss of one batch without an update.

A batch comes as [A B T]: A micro-batches of B rows, whose gradients are added up. How a batch is
divided changes nothing but rounding: the loss is a mean over all its tokens, and the dropout of a
row depends on the row's number in the whole batch.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, ArrayLike, Float, Int

from flaxformer_mt.data.batching.batch import Batch
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.training.adapting import TRAIN_ALL, Adaptation
from flaxformer_mt.training.config import TrainingConfig
from flaxformer_mt.training.loss import cross_entropy, symmetric_kl
from flaxformer_mt.training.state import Params, TrainState

T = TypeVar("T")


class Metrics(NamedTuple):
    """Of one global batch, as device scalars: reading one waits for the step to finish.

    Attributes:
      loss: what is minimised, nats per target token: label-smoothed cross-entropy, and what R-Drop
        adds.
      nll: plain cross-entropy, nats per target token; perplexity is its exponential.
      target_tokens: real (not padding) target tokens, EOS included.
      source_tokens: real source tokens, EOS included.
      grad_norm: global norm of the gradient before clipping; 0 without an update.
      skipped: 1 where loss or gradient were not finite and nothing was updated, else 0.
    """

    loss: Float[Array, ""]
    nll: Float[Array, ""]
    target_tokens: Float[Array, ""]
    source_tokens: Float[Array, ""]
    grad_norm: Float[Array, ""]
    skipped: Float[Array, ""]


class Sums(NamedTuple):
    """Of some rows of a batch, in nats, summed over their target tokens."""

    loss: Float[Array, ""]
    nll: Float[Array, ""]


TrainStep = Callable[[TrainState, Batch], tuple[TrainState, Metrics]]
EvalStep = Callable[[Params, Batch], Metrics]
LossOf = Callable[[Params, Batch, Int[Array, " B"], Array | None], Sums]
"""(params, rows of a batch [B T], their numbers in the whole batch, dropout key) -> Sums

Without a key there is no dropout.
"""


def make_loss(model: Transformer, *, label_smoothing: float = 0.0, r_drop: float = 0.0) -> LossOf:
    """The loss of some rows, as it is trained (with a dropout key) or measured (without).

    Args:
      label_smoothing: share of the target probability that is spread over the vocabulary.
      r_drop: weight alpha of R-Drop (Liang et al. 2021, equations 3 and 4): each batch goes through
        the model twice, under two dropout masks, and the two outputs are drawn together. The loss
        here is the mean of the two passes, half of the paper's; 0 = one pass.
    """

    def logits_of(params: Params, batch: Batch, rows: Array, key: Array | None) -> Array:
        noise: dict[str, Any] = (
            {} if key is None else {"dropout_rows": rows, "rngs": {"dropout": key}}
        )
        return jnp.asarray(model.apply({"params": params}, *batch, **noise))

    def sums_of(logits: Array, batch: Batch) -> Sums:
        targets, mask = jnp.asarray(batch.targets), _real(batch)
        loss, nll = cross_entropy(logits, targets, mask, label_smoothing=label_smoothing)
        return Sums(loss, nll)

    def once(params: Params, batch: Batch, rows: Array, key: Array | None) -> Sums:
        return sums_of(logits_of(params, batch, rows, key), batch)

    def twice(params: Params, batch: Batch, rows: Array, key: Array | None) -> Sums:
        if key is None:
            raise ValueError("R-Drop compares two dropout masks: it needs a dropout key")
        keys = key, jax.random.fold_in(key, 1)
        p, q = (logits_of(params, batch, rows, key) for key in keys)
        one, other = sums_of(p, batch), sums_of(q, batch)
        apart = symmetric_kl(p, q, _real(batch))
        # Equation 4 adds alpha / 2 of it to the sum of both cross-entropies; this is their mean.
        loss = (one.loss + other.loss) / 2 + r_drop / 4 * apart
        return Sums(loss, (one.nll + other.nll) / 2)

    return twice if r_drop else once


def batch_loss(
    model: Transformer,
    params: Params,
    batch: Batch,
    *,
    label_smoothing: float,
    dropout_key: Array | None,
) -> tuple[Float[Array, ""], Metrics]:
    """Mean loss per target token of a batch [B T]; dropout only when there is a key for it."""
    rows = jnp.arange(batch.inputs.shape[0])
    sums = make_loss(model, label_smoothing=label_smoothing)(params, batch, rows, dropout_key)
    metrics = _metrics(sums, batch)
    return metrics.loss, metrics


def make_train_step(
    model: Transformer,
    optimizer: optax.GradientTransformation,
    *,
    label_smoothing: float,
    r_drop: float = 0.0,
    ema_decay: float = 0.0,
    adaptation: Adaptation = TRAIN_ALL,
) -> TrainStep:
    """A jit-compiled update that takes the old state's memory for the new one.

    Where state and batch lie decides where it runs: XLA adds the communication that the shardings
    need, such as the all-reduce of gradients in data parallelism.
    """
    loss_of = make_loss(model, label_smoothing=label_smoothing, r_drop=r_drop)

    def train_step(state: TrainState, batch: Batch) -> tuple[TrainState, Metrics]:
        key = jax.random.fold_in(jax.random.wrap_key_data(state.key), state.step)
        mean_of = 1.0 / jnp.maximum(_count(batch.targets_segment_ids), 1.0)

        trained, frozen = adaptation.divide(state.params)

        def of_rows(part: Batch, rows: Int[Array, " B"]) -> tuple[Sums, Params]:
            def loss(trained: Params) -> tuple[Float[Array, ""], Sums]:
                params = adaptation.merge(adaptation.join(trained, frozen))
                sums = loss_of(params, part, rows, key)
                return sums.loss * mean_of, sums

            gradients, sums = jax.grad(loss, has_aux=True)(trained)
            return sums, gradients

        sums, gradients = _add_up(of_rows, batch)
        grad_norm = optax.tree.norm(gradients)
        updates, opt_state = optimizer.update(gradients, state.opt_state, trained)
        trained = optax.apply_updates(trained, updates)
        ema = state.ema
        if ema is not None:
            # As in Adam's early steps: an average of few values must not hang on to the first.
            decay = jnp.minimum(ema_decay, (1.0 + state.step) / (10.0 + state.step))
            ema = jax.tree.map(lambda old, new: decay * old + (1 - decay) * new, ema, trained)
        params = adaptation.join(trained, frozen)
        new = TrainState(state.step, params, opt_state, state.key, ema)
        finite = jnp.isfinite(sums.loss + grad_norm)
        # The update of a finite gradient can be too large. It is kept out number by number: to
        # know it of all, all updates would have to be in memory before the first is added.
        kept = jax.tree.map(
            lambda new, old: jnp.where(finite & jnp.isfinite(new), new, old), new, state
        )
        metrics = _metrics(sums, batch)._replace(grad_norm=grad_norm, skipped=1.0 - finite)
        return dataclasses.replace(kept, step=state.step + 1), metrics

    return jax.jit(train_step, donate_argnums=0)


def train_step_of(
    config: TrainingConfig,
    model: Transformer,
    optimizer: optax.GradientTransformation,
    adaptation: Adaptation,
) -> TrainStep:
    """`make_train_step` with the settings of a config."""
    return make_train_step(
        model,
        optimizer,
        label_smoothing=config.label_smoothing,
        r_drop=config.r_drop,
        ema_decay=config.ema_decay,
        adaptation=adaptation,
    )


def make_eval_step(model: Transformer) -> EvalStep:
    """The loss of one batch without smoothing, dropout or update."""
    loss_of = make_loss(model)

    def eval_step(params: Params, batch: Batch) -> Metrics:
        return _metrics(_add_up(lambda part, rows: loss_of(params, part, rows, None), batch), batch)

    return jax.jit(eval_step)


def _add_up(of_rows: Callable[[Batch, Int[Array, " B"]], T], batch: Batch) -> T:
    """The sum of `of_rows(micro-batch, its row numbers)` over the micro-batches of [A B T]."""
    count, size = batch.inputs.shape[:2]
    if count == 1:  # no loop, no sum beside the gradient
        return of_rows(Batch(*(x[0] for x in batch)), jnp.arange(size))
    rows = jnp.arange(count * size).reshape(count, size)

    def add(total: T, part: tuple[Batch, Int[Array, " B"]]) -> tuple[T, None]:
        return jax.tree.map(jnp.add, total, of_rows(*part)), None

    first = jax.tree.map(lambda x: x[0], (batch, rows))
    zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(of_rows, *first))
    return jax.lax.scan(add, zeros, (batch, rows))[0]


def _real(batch: Batch) -> Array:
    """[B T] True where there is a target token."""
    return jnp.asarray(batch.targets_segment_ids) != 0


def _metrics(sums: Sums, batch: Batch) -> Metrics:
    """Means per target token of the whole batch."""
    tokens = _count(batch.targets_segment_ids)
    mean_of = 1.0 / jnp.maximum(tokens, 1.0)
    return Metrics(
        loss=sums.loss * mean_of,
        nll=sums.nll * mean_of,
        target_tokens=tokens,
        source_tokens=_count(batch.inputs_segment_ids),
        grad_norm=jnp.zeros(()),
        skipped=jnp.zeros(()),
    )


def _count(segment_ids: ArrayLike) -> Float[Array, ""]:
    return jnp.sum(jnp.asarray(segment_ids) != 0, dtype=jnp.float32)
