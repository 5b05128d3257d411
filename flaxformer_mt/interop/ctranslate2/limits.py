"""What CTranslate2 cannot hold. Every other variant of the model is proved equal by the tests."""

from collections.abc import Iterator

import jax.numpy as jnp
import numpy as np

from flaxformer_mt.model.config import TransformerConfig
from flaxformer_mt.model.positions import distance_buckets


def reasons_against(config: TransformerConfig) -> Iterator[str]:
    """Why CTranslate2 cannot hold such a model; nothing if it can."""
    if config.local_window:
        yield (
            f"model.local_window is {config.local_window}, but there every position of the "
            "encoder sees all others (as with 0)"
        )
    if config.positions == "bucketed" and (distances := _rounded_apart(config)):
        yield (
            f"model.num_position_buckets is {config.num_position_buckets} and model.max_distance "
            f"{config.distance_limit}, with which it puts a distance of "
            f"{' or '.join(map(str, distances))} into another bucket (as T5's 32 and 128 it can)"
        )


def _rounded_apart(config: TransformerConfig) -> list[int]:
    """Distances whose bucket is another one there: it adds before it rounds, T5 (and ours) after.

    In float32 the two differ at an odd distance of some settings. Beyond twice the limit all
    distances share the last bucket.
    """
    buckets, farthest = config.num_position_buckets, np.float32(config.distance_limit)
    steps = np.arange(1, 2 * int(farthest))
    apart: set[int] = set()
    for bidirectional in (True, False):
        count = buckets // 2 if bidirectional else buckets
        exact = np.float32(count // 2)
        growth = np.log(steps.astype(np.float32) / exact) / np.log(farthest / exact)
        far = (exact + growth * (np.float32(count) - exact)).astype(np.int32)
        theirs = np.where(steps < exact, steps, np.minimum(far, count - 1))
        ours = distance_buckets(
            jnp.asarray(-steps),
            num_buckets=buckets,
            max_distance=int(farthest),
            bidirectional=bidirectional,
        )
        apart |= set(steps[theirs != np.asarray(ours)].tolist())
    return sorted(apart)
