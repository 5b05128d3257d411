"""Scores of given translations: one teacher-forced pass over source and target."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Float

from flaxformer_mt.data.batching.batch import BatchShape, Example, pad_batch
from flaxformer_mt.inference.grouping import Group, group_by_length, length_menu, run_ahead
from flaxformer_mt.inference.programs import Scored, score_batch
from flaxformer_mt.runtime.trace_cache import call_cached
from flaxformer_mt.translation.checks import check_finite
from flaxformer_mt.translation.config import DecodingConfig
from flaxformer_mt.translation.searching import Ensemble


class TargetScore(NamedTuple):
    """The score of one target."""

    score: float
    """Log-probability / length penalty."""
    token_log_probs: list[float]
    attention: Float[np.ndarray, "T S"] | None
    """As in `TokenDetails`; None if it was not requested."""


def score_examples(
    examples: Sequence[Example],
    limits: Sequence[int],
    config: DecodingConfig,
    ensemble: Ensemble,
    suppressed: Bool[np.ndarray, " V"],
    *,
    with_attention: bool,
) -> list[TargetScore]:
    """Returns the score of every target as a translation of its source, in order.

    Args:
      limits: the length limit of the search for each target, in tokens.
      suppressed: as in the search.

    Raises ValueError if a score is not finite.
    """
    groups = group_by_length(
        [max(len(example.inputs), len(example.targets)) for example in examples],
        length_menu(max(ensemble.max_source_length, config.max_target_length)),
        tokens_per_batch=config.tokens_per_batch,
        max_rows=config.max_rows_per_batch,
        num_devices=ensemble.num_devices,
    )

    def dispatch(group: Group) -> Scored:
        """Starts the scoring of one group on the devices; returns before it ends."""
        free_end = None
        if config.forced_end == "free":
            free_end = np.zeros(group.rows, bool)
            at_limit = [len(examples[index].targets) >= limits[index] for index in group.members]
            free_end[: len(at_limit)] = at_limit
        members = [examples[index] for index in group.members]
        return call_cached(
            score_batch,
            ensemble.params,
            pad_batch(members, BatchShape(group.rows, group.length, group.length)),
            np.float32(config.length_penalty),
            None if ensemble.weights is None else np.asarray(ensemble.weights, np.float32),
            free_end,
            suppressed if config.renormalize else None,
            models=ensemble.models,
            length_normalization=config.length_normalization,
            with_attention=with_attention,
            mesh=ensemble.mesh,
        )

    results: dict[int, TargetScore] = {}
    for group, found in run_ahead(groups, dispatch, window=ensemble.window):
        found = jax.device_get(found)
        for row, index in enumerate(group.members):
            score = float(found.scores[row])
            check_finite(score, line=index + 1)
            num_inputs, num_targets = len(examples[index].inputs), len(examples[index].targets)
            attention = None
            if found.attention is not None:
                attention = found.attention[row, :num_targets, :num_inputs]
            log_probs = found.log_probs[row, :num_targets].tolist()
            results[index] = TargetScore(score, log_probs, attention)
    return [results[index] for index in range(len(examples))]
