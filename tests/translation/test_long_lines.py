"""Text that is too long is split into pieces."""

import hypothesis
import hypothesis.strategies as st
import pytest

from flaxformer_mt.translation.segments import split_text


def split(text: str, limit: int) -> list[str]:
    return split_text(text, lambda piece: len(piece) <= limit)


@pytest.mark.parametrize(
    ("text", "limit", "pieces"),
    [
        ("It rains. It pours, it snows.", 29, ["It rains. It pours, it snows."]),
        ("It rains. It pours, it snows.", 20, ["It rains.", "It pours, it snows."]),
        ("It rains. It pours, it snows.", 13, ["It rains.", "It pours,", "it snows."]),
        ('He said "no." She said yes.', 20, ['He said "no."', "She said yes."]),
        ("one two three", 7, ["one two", "three"]),
        ("A. very long sentence", 16, ["A. very long", "sentence"]),  # no scrap "A."
        ("abcdefgh", 3, ["abc", "def", "gh"]),
        ("下雨了。我们在家，看书。", 9, ["下雨了。", "我们在家，看书。"]),
        ("下雨了。我们在家，看书。", 5, ["下雨了。", "我们在家，", "看书。"]),
        ("3.14 is pi", 4, ["3.14", "is", "pi"]),
        ("  ", 5, []),
    ],
)
def test_pieces_end_at_the_best_place(text, limit, pieces):
    assert split(text, limit) == pieces


@hypothesis.given(st.text(alphabet="ab.,。 \t\u3000", max_size=60), st.integers(1, 12))
@hypothesis.settings(deadline=None)
def test_nothing_is_lost_and_everything_fits(text, limit):
    pieces = split(text, limit)
    assert all(0 < len(piece) <= limit for piece in pieces)
    assert "".join("".join(pieces).split()) == "".join(text.split())


def test_the_cost_is_linear():
    read = 0

    def fits(text: str) -> bool:
        nonlocal read
        read += len(text)
        return len(text) <= 100

    split_text("word " * 20_000, fits)  # 100,000 characters
    assert read < 30 * 100_000


def test_a_character_that_does_not_fit_is_not_cut():
    assert split_text("ab", lambda text: False) == ["a", "b"]
