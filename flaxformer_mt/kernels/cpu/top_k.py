"""The largest elements of each row."""

import jax
from jaxtyping import Array, Float, Int


def top_k(x: Float[Array, "B N"], k: int) -> tuple[Float[Array, "B {k}"], Int[Array, "B {k}"]]:
    """Returns the k largest elements of each row and their indices; the first among equals.

    The barriers keep XLA from merging the result with slices that follow: then it would sort the
    whole row. (One barrier for both results crashes jaxlib 0.10.2.)
    """
    values, indices = jax.lax.top_k(x, k)
    return jax.lax.optimization_barrier(values), jax.lax.optimization_barrier(indices)
