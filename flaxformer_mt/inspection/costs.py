"""Parameters by part of the model, and the floating-point operations of training."""

import re
from typing import Any

import jax

from flaxformer_mt.data.batching.batch import Batch, BatchShape
from flaxformer_mt.inspection.flops import jaxpr_flops
from flaxformer_mt.inspection.modules import batch_like
from flaxformer_mt.model.initialization import Params, init_params
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.training.step import batch_loss


def training_flops(model: Transformer, shape: BatchShape) -> int:
    """Floating-point operations of the forward and the backward pass for a batch of this shape.

    With dropout, and with what `model.remat` computes twice; without the optimiser's update.
    """
    params = jax.eval_shape(lambda: init_params(model, jax.random.key(0)))

    def loss(params: Params, batch: Batch) -> jax.Array:
        key = jax.random.key(0)
        return batch_loss(model, params, batch, label_smoothing=0.1, dropout_key=key)[0]

    return jaxpr_flops(jax.make_jaxpr(jax.grad(loss))(params, batch_like(shape)))


def params_by_part(params: Any) -> dict[str, int]:
    """Numbers in the parameters of "encoder", "decoder" and "embeddings".

    The output projection and its bias count as embeddings.
    """
    counts = {"embeddings": 0, "encoder": 0, "decoder": 0}
    for name, part in params.items():
        stack = re.match(r"encoder|decoder", name)
        counts[stack[0] if stack else "embeddings"] += sum(x.size for x in jax.tree.leaves(part))
    return counts
