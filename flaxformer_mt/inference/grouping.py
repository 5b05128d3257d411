"""Which sentences share a compiled program: a small menu of lengths, chosen by the sentence alone.

A program is compiled for one length and one number of rows, and a sentence always goes to the
shortest program that holds it, whatever else is to be translated. So the same sentence meets the
same arithmetic in every batch, and its translation cannot depend on its neighbours. Few lengths
mean few compilations.
"""

import math
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

SHORTEST, SHORTEST_FRUGAL = 16, 64
Result = TypeVar("Result")


class Group(NamedTuple):
    """Sentences (their places in the caller's list) that one call of a program takes together."""

    length: int
    rows: int
    """How many the program takes; rows left over stay empty."""
    places: int
    """How many of them it works on at the same time."""
    members: list[int]
    """Longest first: the last ones wait for nobody long."""
    kind: Hashable = ()
    """What they have in common beside their length."""


def length_menu(longest: int, shortest: int = SHORTEST) -> tuple[int, ...]:
    """16, 32, 64, ... (or from another length on) and last `longest` itself."""
    menu = []
    length = shortest
    while length < longest:
        menu.append(length)
        length *= 2
    return (*menu, longest)


def encoder_lengths(longest: int) -> tuple[int, ...]:
    """At which lengths a frugal program of this length reads its sources, ascending.

    Such programs begin at 64, where others begin at 16: then more sentences take turns. What that
    would cost, padding in the encoder, these lengths save: 16, 24, 32, 48, 64, 96, ...
    """
    shorter = longest // 2 if longest > SHORTEST_FRUGAL else 0
    powers = length_menu(longest)
    lengths = sorted({*powers, *(3 * power // 2 for power in powers)})
    return tuple(length for length in lengths if shorter < length <= longest)


def group_by_length(
    lengths: Sequence[int],
    menu: Sequence[int],
    *,
    tokens_per_batch: int,
    max_rows: int,
    max_places: int = 0,
    rows_per_place: int = 1,
    num_devices: int = 1,
    sizes: Sequence[int] | None = None,
    kinds: Sequence[Hashable] | None = None,
) -> list[Group]:
    """Put every sentence into a group of its menu length; none may be longer than the menu's last.

    The places and the rows of a group follow from its length alone. A device has places for as many
    sentences as `max_rows` and `tokens_per_batch` allow, and `rows_per_place` times as many rows;
    if it shall have no more than `max_places` (0 = any number), no fewer rows for that.

    Inside a length the sentences are sorted by `sizes` (their lengths, if not given), so that those
    of one group end at about the same time. Sentences of different `kinds` (which need different
    programs) are kept apart.
    """
    kinds = kinds or [()] * len(lengths)
    sizes = sizes or lengths
    places: dict[tuple[int, Hashable], list[int]] = {}
    for place in sorted(range(len(lengths)), key=sizes.__getitem__, reverse=True):
        fitting = next(length for length in menu if length >= lengths[place])
        places.setdefault((fitting, kinds[place]), []).append(place)
    groups = []
    for (length, kind), members in places.items():
        size = max(1, min(max_rows, tokens_per_batch // length))
        at_once = min(size, max_places or size)
        turns = math.ceil(size * rows_per_place / at_once)
        rows = turns * at_once * num_devices
        parts = (members[i : i + rows] for i in range(0, len(members), rows))
        groups += [Group(length, rows, at_once, part, kind) for part in parts]
    return groups


def run_ahead(
    groups: Iterable[Group], dispatch: Callable[[Group], Result], *, window: int = 2
) -> Iterator[tuple[Group, Result]]:
    """Dispatch groups up to `window` ahead of the one that is handed back, in order.

    JAX returns from a dispatch before the device is done: while the caller turns one result into
    text, the device is busy with the next. The window bounds the memory of what is under way; with
    0, one group is done before the next one is begun.
    """
    pending: deque[tuple[Group, Result]] = deque()
    for group in groups:
        pending.append((group, dispatch(group)))
        if len(pending) > window:
            yield pending.popleft()
    yield from pending
