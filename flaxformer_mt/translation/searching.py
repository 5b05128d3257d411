"""Search and scoring: requests in groups of like length, a program for each, and its results."""

import math
from collections.abc import Sequence

import jax
import numpy as np

from flaxformer_mt.data.batching.batch import BatchShape, Example, pad_batch
from flaxformer_mt.inference.grouping import Group, group_by_length, length_menu, run_ahead
from flaxformer_mt.inference.programs import Scored, SearchProgram, score_batch, search_batch
from flaxformer_mt.runtime.trace_cache import call_cached
from flaxformer_mt.search.step import Hypotheses
from flaxformer_mt.translation.checks import check_finite
from flaxformer_mt.translation.requests import Request, make_search_inputs
from flaxformer_mt.translation.results import Hypothesis, PairScore, TokenDetails
from flaxformer_mt.translation.setup import Setup

ROWS_PER_SLOT = 32
"""Number of sentences per batch slot in one call. Slots run empty only at the end of a call, so a
larger number wastes less."""


def schedule(requests: Sequence[Request], setup: Setup) -> list[Group]:
    """Returns groups of requests; one call of a program searches a group.

    Raises ValueError for a request whose prefix and phrases are too long for every program.
    """
    config, ensemble, sizes = setup.config, setup.ensemble, setup.ensemble.search_sizes
    max_rows, rows_per_slot = config.max_rows_per_batch, ROWS_PER_SLOT
    max_slots = sizes.max_hypotheses and max(1, sizes.max_hypotheses // config.num_live)
    if len(requests) <= sizes.few_sentences * ensemble.num_devices:
        max_slots = max(1, sizes.max_hypotheses_of_few // config.num_live)
        max_rows = min(max_slots, max_rows)
        rows_per_slot = math.ceil(sizes.few_sentences / max_rows)
    menu = length_menu(ensemble.max_source_length, sizes.min_program_length)
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


def search(requests: Sequence[Request], setup: Setup) -> list[list[Hypothesis]]:
    """Returns the hypotheses of every request, in the order of `requests`, best first.

    Raises ValueError if the score of a best hypothesis is not finite, and as `schedule`.
    """
    target = setup.tokenizer.target
    results: list[list[Hypothesis]] = [[] for _ in requests]

    def dispatch(group: Group) -> Hypotheses:
        return search_group([requests[index] for index in group.members], group, setup)

    groups = schedule(requests, setup)
    for group, found in run_ahead(
        groups, dispatch, window=setup.ensemble.search_sizes.groups_ahead
    ):
        found = jax.device_get(found)
        for row, index in enumerate(group.members):
            check_finite(float(found.scores[row, 0]), requests[index].line)
            of_one = zip(found.tokens[row], found.scores[row], found.lengths[row], strict=True)
            for padded, score, length in of_one:
                if score > -np.inf:  # -inf: fewer hypotheses were found
                    tokens = padded[:length].tolist()
                    text = target.detokenize(tokens)
                    results[index].append(Hypothesis(text, tokens, float(score)))
    return results


def search_group(requests: Sequence[Request], group: Group, setup: Setup) -> Hypotheses:
    """Starts the search of one group on the devices; returns before it ends."""
    config, ensemble = setup.config, setup.ensemble
    examples = [Example(request.inputs, np.zeros(0, np.int32)) for request in requests]
    batch = pad_batch(examples, BatchShape(group.rows, group.length, 1))
    program = SearchProgram(
        models=ensemble.models,
        beam_size=1 if config.is_sampling else config.beam_size,
        num_hypotheses=config.num_live if config.is_sampling else config.num_hypotheses,
        # Other rules would change the probabilities of samples.
        early_stopping=config.early_stopping if config.strategy == "beam" else "exact",
        batch_slots=group.slots,
        mesh=ensemble.mesh,
    )
    return call_cached(
        search_batch,
        ensemble.params,
        batch.inputs,
        batch.inputs_positions,
        batch.inputs_segment_ids,
        make_search_inputs(requests, group, setup),
        program=program,
    )


def score_examples(
    examples: Sequence[Example],
    limits: Sequence[int],
    setup: Setup,
    *,
    with_attention: bool,
    lines: Sequence[int],
) -> list[PairScore]:
    """Returns the score of every target as a translation of its source, in order.

    One teacher-forced pass over source and target. With attention, the scores have details.
    `limits` are the length limits of the search, in tokens. Raises ValueError if a score is not
    finite; the message names its line of `lines`.
    """
    config, ensemble = setup.config, setup.ensemble
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
            setup.suppressed if config.renormalize else None,
            models=ensemble.models,
            length_normalization=config.length_normalization,
            with_attention=with_attention,
            mesh=ensemble.mesh,
        )

    source_pieces, target_pieces = setup.tokenizer.source.pieces, setup.tokenizer.target.pieces
    results: dict[int, PairScore] = {}
    for group, found in run_ahead(groups, dispatch, window=ensemble.search_sizes.groups_ahead):
        found = jax.device_get(found)
        for row, index in enumerate(group.members):
            score = float(found.scores[row])
            check_finite(score, line=lines[index])
            inputs, tokens = examples[index].inputs, examples[index].targets.tolist()
            log_probs = found.log_probs[row, : len(tokens)].tolist()
            details = None
            if found.attention is not None:
                details = TokenDetails(
                    [source_pieces[token] for token in inputs],
                    [target_pieces[token] for token in tokens],
                    log_probs,
                    found.attention[row, : len(tokens), : len(inputs)],
                )
            total = sum(log_probs)
            results[index] = PairScore(score, total, tokens, log_probs, details=details)
    return [results[index] for index in range(len(examples))]
