"""Groups: each sentence alone decides its program, and no sentence is lost."""

import numpy as np
import pytest

from flaxformer_mt.inference.grouping import (
    LONGEST_SHARED,
    encoder_lengths,
    group_by_length,
    length_menu,
    run_ahead,
)


def test_the_menu_doubles_and_ends_with_the_longest():
    assert length_menu(100) == (16, 32, 64, 100)
    assert length_menu(64) == (16, 32, 64)
    assert length_menu(9) == (9,)


def test_a_cpu_has_fewer_programs_and_more_encoder_lengths():
    assert length_menu(200, LONGEST_SHARED) == (64, 128, 200)
    assert encoder_lengths(64) == (16, 24, 32, 48, 64)
    assert encoder_lengths(128) == (96, 128)  # shorter sources are in another program
    assert encoder_lengths(200) == (128, 192, 200)
    assert encoder_lengths(9) == (9,)


def group(lengths):
    return group_by_length(lengths, (16, 32, 50), tokens_per_batch=128, max_rows=6)


def test_every_sentence_is_in_one_group_that_fits_it():
    lengths = np.random.default_rng(0).integers(1, 51, size=100).tolist()
    groups = group(lengths)
    assert sorted(place for one in groups for place in one.members) == list(range(100))
    for one in groups:
        assert len(one.members) <= one.rows
        assert one.rows == {16: 6, 32: 4, 50: 2}[one.length]
        assert all(lengths[place] <= one.length for place in one.members)


def test_the_program_of_a_sentence_does_not_depend_on_the_others():
    alone = group([17])[0]
    together = next(one for one in group([3, 50, 17, 16, 20, 9]) if 2 in one.members)
    assert (alone.length, alone.rows) == (together.length, together.rows) == (32, 4)


def test_a_length_over_the_budget_still_gets_a_row():
    assert group_by_length([300], (300,), tokens_per_batch=128, max_rows=6)[0].rows == 1


@pytest.mark.parametrize(
    ("length", "max_slots", "slots", "rows"),
    [(64, 0, 64, 512), (64, 32, 32, 512), (64, 40, 40, 520), (256, 32, 16, 128), (4000, 1, 1, 8)],
)
def test_the_number_of_rows_does_not_follow_from_the_slots(length, max_slots, slots, rows):
    budget = {"tokens_per_batch": 4096, "max_rows": 64, "rows_per_slot": 8, "num_devices": 2}
    (group,) = group_by_length([length], (length,), max_slots=max_slots, **budget)
    assert (group.slots, group.rows) == (slots, 2 * rows)


def test_run_ahead_keeps_order_and_limits_pending_groups():
    groups, under_way = group([5] * 40), []

    def dispatch(one):
        under_way.append(one)
        assert len(under_way) <= 3
        return one.members[0]

    handed_back = []
    for one, result in run_ahead(groups, dispatch, window=2):
        under_way.remove(one)
        handed_back.append((one, result))
    assert handed_back == [(one, one.members[0]) for one in groups]


def test_members_are_sorted_by_size_and_not_by_program():
    (group,) = group_by_length(
        [16, 16, 16], (16,), tokens_per_batch=128, max_rows=6, sizes=[3, 12, 7]
    )
    assert group.members == [1, 2, 0]
