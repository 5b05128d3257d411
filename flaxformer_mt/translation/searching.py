"""From requests to hypotheses: group requests by length, search each group, read the results."""

import functools
import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Bool

from flaxformer_mt.inference.devices import mesh_of
from flaxformer_mt.inference.grouping import (
    SHORTEST,
    SHORTEST_ON_CPU,
    Group,
    group_by_length,
    length_menu,
    run_ahead,
)
from flaxformer_mt.inference.programs import SearchProgram, search_batch
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.runtime.trace_cache import call_cached
from flaxformer_mt.search.step import Hypotheses
from flaxformer_mt.translation.checks import check_finite
from flaxformer_mt.translation.config import DecodingConfig
from flaxformer_mt.translation.requests import Request, make_batch, make_search_inputs
from flaxformer_mt.translation.results import Hypothesis, make_hypothesis
from flaxformer_mt.translation.word_ends import TargetWords

ROWS_PER_SLOT = 32
"""Sentences of one program call for each batch slot. Batch slots are empty only at the end of a
call. So with more sentences, fewer batch slots are empty on average."""
FEW_SENTENCES = 32
FEW_ON_CPU, MANY_ON_CPU = 10, 160
"""Hypotheses that a program extends at the same time on a CPU, for few sentences and for many. An
empty batch slot costs as much as a full one. So up to `FEW_SENTENCES` sentences share few slots.
With more than `MANY_ON_CPU`, latency rises and throughput does not (`benchmarks/README.md`)."""


class Ensemble:
    """The models of a translator, their parameters and the devices that hold them."""

    def __init__(
        self,
        models: Sequence[Transformer],
        params: Sequence[Mapping[str, Any]],
        max_source_length: int,
        weights: Sequence[float] | None = None,
    ) -> None:
        """Takes one or more models. `weights` have sum 1; None for a single model."""
        self.models, self.params = tuple(models), tuple(params)
        self.max_source_length = max_source_length
        self.weights = None if weights is None else tuple(weights)
        self.mesh = mesh_of(self.params)
        self.num_devices = self.mesh.size if self.mesh else 1
        self.on_cpu = jax.default_backend() == "cpu"
        # XLA:CPU runs groups that are dispatched ahead concurrently: they contend for CPU caches.
        self.window = 0 if self.on_cpu else 2

    @classmethod
    def combined(
        cls, parts: Sequence["Ensemble"], weights: Sequence[float], max_source_length: int
    ) -> "Ensemble":
        """Returns the ensemble of the members of all `parts`, one weight for each part."""
        return cls(
            [model for part in parts for model in part.models],
            [params for part in parts for params in part.params],
            max_source_length,
            [
                weight * share
                for part, weight in zip(parts, weights, strict=True)
                for share in part.weights or (1.0,)
            ],
        )

    @functools.cached_property
    def fingerprint(self) -> str:
        """A hash of all parameters, in 32 hexadecimal digits."""
        digest = hashlib.blake2b(
            repr([model.config for model in self.models]).encode(), digest_size=16
        )
        for path, x in jax.tree_util.tree_leaves_with_path(self.params):
            digest.update(f"{jax.tree_util.keystr(path)} {x.dtype} {x.shape}".encode())
            digest.update(np.asarray(x).tobytes())
        return digest.hexdigest()


def schedule(
    requests: Sequence[Request], config: DecodingConfig, ensemble: Ensemble
) -> list[Group]:
    """Returns groups of requests; one call of a program searches a group.

    Raises ValueError for a request whose prefix and phrases are too long for every program.
    """
    max_rows, max_slots, rows_per_slot = config.max_rows_per_batch, 0, ROWS_PER_SLOT
    shortest = SHORTEST
    if ensemble.on_cpu:
        shortest = SHORTEST_ON_CPU
        max_slots = max(1, MANY_ON_CPU // config.num_live)
        if len(requests) <= FEW_SENTENCES * ensemble.num_devices:
            max_slots = max(1, FEW_ON_CPU // config.num_live)
            max_rows = min(max_slots, max_rows)
            rows_per_slot = math.ceil(FEW_SENTENCES / max_rows)
    menu = length_menu(ensemble.max_source_length, shortest)
    return group_by_length(
        [request.program_length(config, menu) for request in requests],
        menu,
        tokens_per_batch=config.tokens_per_batch,
        max_rows=max_rows,
        max_slots=max_slots,
        rows_per_slot=rows_per_slot,
        num_devices=ensemble.num_devices,
        sizes=[len(request.inputs) for request in requests],
        kinds=[request.table_sizes for request in requests],
    )


def search(
    requests: Sequence[Request],
    groups: Sequence[Group],
    config: DecodingConfig,
    ensemble: Ensemble,
    suppressed: Bool[np.ndarray, " V"],
    words: TargetWords,
) -> list[list[Hypothesis]]:
    """Returns the hypotheses of every request, in the order of `requests`, best first.

    Raises ValueError if the score of a best hypothesis is not finite.
    """
    results: list[list[Hypothesis]] = [[] for _ in requests]

    def dispatch(group: Group) -> Hypotheses:
        members = [requests[index] for index in group.members]
        return search_group(members, group, config, ensemble, suppressed, words)

    for group, found in run_ahead(groups, dispatch, window=ensemble.window):
        found = jax.device_get(found)
        for row, index in enumerate(group.members):
            check_finite(float(found.scores[row, 0]), requests[index].line)
            results[index] = [
                make_hypothesis(tokens[:length].tolist(), float(score), words.vocabulary)
                for tokens, score, length in zip(
                    found.tokens[row], found.scores[row], found.lengths[row], strict=True
                )
                if score > -np.inf  # -inf: fewer hypotheses were found
            ]
    return results


def search_group(
    requests: Sequence[Request],
    group: Group,
    config: DecodingConfig,
    ensemble: Ensemble,
    suppressed: Bool[np.ndarray, " V"],
    words: TargetWords,
) -> Hypotheses:
    """Starts the search of one group on the devices; returns before it ends."""
    batch = make_batch(requests, group)
    target = words.vocabulary
    program = SearchProgram(
        models=ensemble.models,
        beam_size=1 if config.is_sampling else config.beam_size,
        num_hypotheses=config.num_live if config.is_sampling else config.num_hypotheses,
        max_target_length=config.length_limit(group.length),
        bos_id=target.bos_id,
        eos_id=target.eos_id,
        pad_id=target.pad_id,
        length_normalization=config.length_normalization,
        # Other rules would change the probabilities of samples.
        early_stopping=config.early_stopping if config.strategy == "beam" else "exact",
        forced_end=config.forced_end,
        renormalize=config.renormalize,
        batch_slots=group.slots,
        mesh=ensemble.mesh,
    )
    search_inputs = make_search_inputs(
        requests, group, config, suppressed=suppressed, words=words, weights=ensemble.weights
    )
    return call_cached(
        search_batch,
        ensemble.params,
        batch.inputs,
        batch.inputs_positions,
        batch.inputs_segment_ids,
        search_inputs,
        program=program,
    )
