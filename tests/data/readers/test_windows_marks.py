"""Control characters in texts from the web: what was meant, and what stays."""

from __future__ import annotations

from hypothesis import given, strategies as st

from regard.data.readers.labelled import with_windows_marks


def test_marks_are_what_they_were() -> None:
    assert with_windows_marks("\x93so\x94 \x96 it\x92s\x85") == "“so” – it’s…"


def test_what_is_nothing_is_a_space() -> None:
    assert with_windows_marks("a\x08b\x81c\x7fd") == "a b c d"


def test_lines_tabs_and_nuls_stay() -> None:
    assert with_windows_marks("a\tb\r\nc\0") == "a\tb\r\nc\0"


@given(st.text())
def test_only_control_characters_change(text: str) -> None:
    changed = with_windows_marks(text)
    assert len(changed) == len(text)
    for before, after in zip(text, changed, strict=True):
        assert before == after or ord(before) < 0x20 or 0x7F <= ord(before) < 0xA0
