"""What a model costs: its parameters by part, operations a step, and memory."""

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import optax

from flaxformer_mt.data.batching.batch import Batch, BatchShape
from flaxformer_mt.inspection.flops import jaxpr_flops
from flaxformer_mt.inspection.walk import batch_like
from flaxformer_mt.model.initialization import Params, init_params
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.training.step import batch_loss


@dataclasses.dataclass(frozen=True, kw_only=True)
class Costs:
    """Counted on the programs that training runs, with the dropout and the loops of the config.

    Attributes:
      params: numbers in the parameters, by part; see `params_by_part`.
      gradient: floating-point operations of the forward and the backward pass for a batch, with
        what `remat` repeats.
      update: those of the optimiser, once a step whatever the batch.
      param_bytes: memory of the parameters.
      optimizer_bytes: memory of the optimiser's state.
    """

    params: Mapping[str, int]
    gradient: int
    update: int
    param_bytes: int
    optimizer_bytes: int


def count_costs(
    model: Transformer, optimizer: optax.GradientTransformation, shape: BatchShape
) -> Costs:
    """The costs of one training step on a batch of this shape; nothing is computed."""
    params = jax.eval_shape(lambda: init_params(model, jax.random.key(0)))
    state = jax.eval_shape(optimizer.init, params)

    def loss(params: Params, batch: Batch) -> jax.Array:
        key = jax.random.key(0)
        return batch_loss(model, params, batch, label_smoothing=0.1, dropout_key=key)[0]

    gradient = jax.make_jaxpr(jax.grad(loss))(params, batch_like(shape))
    return Costs(
        params=params_by_part(params),
        gradient=jaxpr_flops(gradient),
        update=jaxpr_flops(jax.make_jaxpr(optimizer.update)(params, state, params)),
        param_bytes=_bytes(params),
        optimizer_bytes=_bytes(state),
    )


def params_by_part(params: Params) -> dict[str, int]:
    """Numbers in the parameters of the encoder, the decoder, and what is neither.

    That is the embeddings and, where it is not tied to them, the map to the logits.
    """
    counts = {"embeddings": 0, "encoder": 0, "decoder": 0}
    for name, part in params.items():
        stack = re.match(r"encoder|decoder", name)
        counts[stack[0] if stack else "embeddings"] += sum(x.size for x in jax.tree.leaves(part))
    return counts


def _bytes(tree: Any) -> int:
    return sum(x.size * jnp.dtype(x.dtype).itemsize for x in jax.tree.leaves(tree))
