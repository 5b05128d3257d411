"""The sizes of search programs that are fast on a device. They change speed and memory only."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class SearchSizes:
    """How sentences are divided among search programs; the defaults are for an unknown device."""

    min_program_length: int = 16
    """Source length of the shortest program."""
    max_hypotheses: int = 0
    """Hypotheses that are extended at the same time; 0 = as many as the batch has."""
    few_sentences: int = 0
    """A call with at most this many sentences for each device uses `max_hypotheses_of_few`."""
    max_hypotheses_of_few: int = 0
    """As `max_hypotheses`."""
    groups_ahead: int = 2
    """Groups of sentences that are dispatched before the results of the first are read."""
