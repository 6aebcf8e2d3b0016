"""HTML elements: escaping, attributes, void elements."""

from __future__ import annotations

from regard.views.pages.html import Markup, element, joined


def test_text_is_escaped_and_markup_is_kept() -> None:
    inner = element("b", "a & b")
    assert element("p", inner, "<i>") == "<p><b>a &amp; b</b>&lt;i&gt;</p>"
    assert joined("<", Markup("<br>")) == "&lt;<br>"


def test_attributes() -> None:
    assert element("td", data_sort="1", class_="x", hidden=True) == (
        '<td data-sort="1" class="x" hidden></td>'
    )
    assert element("td", hidden=False, class_=None, x=1.5, y=2.0) == '<td x="1.50" y="2"></td>'
    assert element("a", title='"<') == '<a title="&quot;&lt;"></a>'


def test_void_elements_are_not_closed() -> None:
    assert element("input", type="radio") == '<input type="radio">'
