"""Groups of sentences that share a compiled program: a small menu of lengths.

A program is compiled for one source length and one number of rows. A sentence goes to the shortest
program that holds it, so few programs are compiled.
"""

import math
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

LONGEST_SHARED = 64
"""Sources up to this length can share a program, as on CPUs (`SearchSizes`)."""
Result = TypeVar("Result")


class Group(NamedTuple):
    """Sentences that one call of a program searches."""

    length: int
    rows: int
    """Number of rows of the program; surplus rows stay empty."""
    slots: int
    """Number of sentences that it searches at the same time."""
    members: list[int]
    """Indices into the caller's list, longest first, to shorten the tail."""


def length_menu(longest: int, shortest: int = 16) -> tuple[int, ...]:
    """Returns `shortest`, twice as much, four times as much, ..., and last `longest` itself."""
    menu = []
    length = shortest
    while length < longest:
        menu.append(length)
        length *= 2
    return (*menu, longest)


def encoder_lengths(longest: int) -> tuple[int, ...]:
    """Returns the lengths at which a program of length `longest` encodes its sources, ascending.

    Many sentences share a program. These lengths (16, 24, 32, 48, 64, 96, ...) save the padding
    that this would cost in the encoder.
    """
    shorter = longest // 2 if longest > LONGEST_SHARED else 0
    powers = length_menu(longest)
    lengths = sorted({*powers, *(3 * power // 2 for power in powers)})
    return tuple(length for length in lengths if shorter < length <= longest)


def group_by_length(
    lengths: Sequence[int],
    menu: Sequence[int],
    *,
    tokens_per_batch: int,
    max_rows: int,
    max_slots: int = 0,
    rows_per_slot: int = 1,
    num_devices: int = 1,
    sizes: Sequence[int] | None = None,
    kinds: Sequence[Hashable] | None = None,
) -> list[Group]:
    """Returns groups that contain every sentence, each at the shortest length of the menu.

    Args:
      lengths: of the sentences; none is longer than the last one of the menu.
      menu: the source lengths of programs, ascending.
      tokens_per_batch: source tokens that a device searches at the same time, at most.
      max_rows: sentences that a device searches at the same time, at most.
      max_slots: limits the slots of a group but not its rows; 0 = none.
      rows_per_slot: rows of a group for each slot.
      num_devices: each has its own slots and rows.
      sizes: sort keys, so that the sentences of a group end at about the same time; the lengths if
        not given.
      kinds: sentences of different kinds need different programs.
    """
    kinds = kinds or [()] * len(lengths)
    sizes = sizes or lengths
    by_program: dict[tuple[int, Hashable], list[int]] = {}
    for index in sorted(range(len(lengths)), key=sizes.__getitem__, reverse=True):
        fitting = next(length for length in menu if length >= lengths[index])
        by_program.setdefault((fitting, kinds[index]), []).append(index)
    groups = []
    for (length, _), members in by_program.items():
        size = max(1, min(max_rows, tokens_per_batch // length))
        slots = min(size, max_slots or size)
        rows = math.ceil(size * rows_per_slot / slots) * slots * num_devices
        parts = (members[i : i + rows] for i in range(0, len(members), rows))
        groups += [Group(length, rows, slots, part) for part in parts]
    return groups


def run_ahead(
    groups: Iterable[Group], dispatch: Callable[[Group], Result], *, window: int = 2
) -> Iterator[tuple[Group, Result]]:
    """Yields groups and their results in order; dispatches up to `window` groups ahead.

    JAX returns from a dispatch before the device is done. So the device works on the next group
    while the caller turns a result into text. The window bounds the memory of dispatched groups.
    With 0, a group is finished before the next one starts.
    """
    pending: deque[tuple[Group, Result]] = deque()
    for group in groups:
        pending.append((group, dispatch(group)))
        if len(pending) > window:
            yield pending.popleft()
    yield from pending
