"""Words in lines: none overlaps another, none leaves the room, and their order is kept."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, strategies as st

from regard.views.charts.document_words import cut_word, word_places, wrapped_lines
from regard.views.charts.figure_file import figure_settings, text_width

WORDS = st.lists(
    st.tuples(st.floats(0.05, 2.0), st.booleans(), st.booleans()), min_size=1, max_size=40
)


@given(WORDS)
def test_no_word_overlaps_another_or_leaves_the_room(
    words: list[tuple[float, bool, bool]],
) -> None:
    starts = {place for place, (_, _, begins) in enumerate(words) if begins}
    found = word_places(
        [width for width, _, _ in words],
        joins=[joins for _, joins, _ in words],
        starts=starts,
        room=3.0,
        space=0.1,
    )
    assert len(found) == len(words)
    for place in found:
        assert place.left + place.width <= 3.0 + 1e-9
    for number, (before, after) in enumerate(pairwise(found), start=1):
        if number in starts:
            assert after.line == before.line + 1
        if after.line == before.line:
            gap = after.left - before.left - before.width
            assert gap >= (0.0 if words[number][1] else 0.1) - 1e-9
        else:
            assert (after.line, after.left) == (before.line + 1, 0.0)


def test_a_word_wider_than_the_room_stands_alone() -> None:
    found = word_places([1.0, 9.0, 1.0], joins=[False] * 3, starts=(), room=3.0, space=0.1)
    assert [place.line for place in found] == [0, 1, 2]


def test_lines_are_as_wide_as_the_room_at_most_and_lose_nothing() -> None:
    text = "a rose is a rose is a rose, whatever one calls it " * 5
    with figure_settings():
        lines = wrapped_lines(text, room=3.0, font_size=10.0)
        assert all(text_width(line, font_size=10.0) <= 3.0 for line in lines)
    assert " ".join(lines).split() == text.split()
    assert wrapped_lines("", room=3.0, font_size=10.0) == []


def test_endless_words_are_cut() -> None:
    assert cut_word("short") == "short"
    assert len(cut_word("x" * 400)) == 32
    assert wrapped_lines("x" * 400, room=3.0, font_size=10.0) == ["x" * 31 + "…"]
