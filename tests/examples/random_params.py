"""Random parameters without compiling an initialisation."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np


def random_params(model, *arguments, **options):
    """Returns parameters of the right shapes; biases and scales are random too."""
    shapes = jax.eval_shape(lambda: model.init(jax.random.key(0), *arguments, **options))
    rng = np.random.default_rng(0)

    def draw(leaf):
        return jnp.asarray(rng.normal(size=leaf.shape, scale=leaf.shape[0] ** -0.5), jnp.float32)

    return jax.tree.map(draw, nn.unbox(shapes)["params"])
