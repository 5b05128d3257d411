"""One update of the parameters, and the loss of one batch without an update."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from flaxformer_mt.data.batch import Batch
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.training.loss import cross_entropy
from flaxformer_mt.training.state import Params, TrainState


class Metrics(NamedTuple):
    """Of one global batch, as device scalars: reading one waits for the step to finish.

    Attributes:
      loss: label-smoothed cross-entropy, nats per target token.
      nll: plain cross-entropy, nats per target token; perplexity is its exponential.
      target_tokens: real (not padding) target tokens, EOS included.
      source_tokens: real source tokens, EOS included.
      grad_norm: global norm of the gradient before clipping; 0 without an update.
    """

    loss: Float[Array, ""]
    nll: Float[Array, ""]
    target_tokens: Float[Array, ""]
    source_tokens: Float[Array, ""]
    grad_norm: Float[Array, ""]


TrainStep = Callable[[TrainState, Batch], tuple[TrainState, Metrics]]
EvalStep = Callable[[Params, Batch], Metrics]


def batch_loss(
    model: Transformer,
    params: Params,
    batch: Batch,
    *,
    label_smoothing: float,
    dropout_key: Array | None,
) -> tuple[Float[Array, ""], Metrics]:
    """Mean loss per target token of the global batch; dropout only when there is a key for it.

    Sums run over the whole array, which under `jit` means over all devices: the mean does not
    depend on how the batch is divided among them.
    """
    logits = model.apply(
        {"params": params},
        *batch,
        deterministic=dropout_key is None,
        rngs=None if dropout_key is None else {"dropout": dropout_key},
    )
    mask = jnp.asarray(batch.targets_segment_ids != 0)  # [B T]
    loss, nll = cross_entropy(
        jnp.asarray(logits), jnp.asarray(batch.targets), mask, label_smoothing=label_smoothing
    )
    tokens = jnp.sum(mask, dtype=jnp.float32)
    mean_of = 1.0 / jnp.maximum(tokens, 1.0)
    metrics = Metrics(
        loss=loss * mean_of,
        nll=nll * mean_of,
        target_tokens=tokens,
        source_tokens=jnp.sum(batch.inputs_segment_ids != 0, dtype=jnp.float32),
        grad_norm=jnp.zeros(()),
    )
    return metrics.loss, metrics


def make_train_step(
    model: Transformer, optimizer: optax.GradientTransformation, *, label_smoothing: float
) -> TrainStep:
    """A jit-compiled update that takes the old state's memory for the new one.

    Where state and batch lie decides where it runs: with the batch sharded over the mesh and the
    state replicated, XLA adds the gradient all-reduce of data parallelism itself.
    """

    def train_step(state: TrainState, batch: Batch) -> tuple[TrainState, Metrics]:
        dropout_key = jax.random.fold_in(jax.random.wrap_key_data(state.key), state.step)

        def loss_of(params: Params) -> tuple[Float[Array, ""], Metrics]:
            return batch_loss(
                model, params, batch, label_smoothing=label_smoothing, dropout_key=dropout_key
            )

        gradients, metrics = jax.grad(loss_of, has_aux=True)(state.params)
        updates, opt_state = optimizer.update(gradients, state.opt_state, state.params)
        params = optax.apply_updates(state.params, updates)
        metrics = metrics._replace(grad_norm=optax.tree.norm(gradients))
        return TrainState(state.step + 1, params, opt_state, state.key), metrics

    return jax.jit(train_step, donate_argnums=0)


def make_eval_step(model: Transformer) -> EvalStep:
    """The loss of one batch without smoothing, dropout or update."""

    def eval_step(params: Params, batch: Batch) -> Metrics:
        return batch_loss(model, params, batch, label_smoothing=0.0, dropout_key=None)[1]

    return jax.jit(eval_step)
