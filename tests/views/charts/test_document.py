"""Document figures: words, shades, hops, and notes on what is omitted."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from tests.factories.documents import make_document_record

from regard.core.errors import RegardError
from regard.core.records.document import DocumentRecord
from regard.views.charts import document as document_figure
from regard.views.charts.document import INSIDE, WORD_SIZE, draw_document, layout_document
from regard.views.charts.svg import text_width

SVG = "{http://www.w3.org/2000/svg}"
RECORD = make_document_record()


def drawn(record: DocumentRecord, folder: Path, **options: Any) -> ElementTree.Element:
    path = folder / "figure.svg"
    draw_document(record, path=path, **options)
    return ElementTree.fromstring(path.read_bytes())


def texts(figure: ElementTree.Element) -> list[str]:
    return ["".join(node.itertext()).strip() for node in figure.iter(f"{SVG}text")]


def opacities(figure: ElementTree.Element) -> list[float]:
    """The opacities of the boxes in the order they were drawn."""
    boxes = [node for node in figure.iter(f"{SVG}rect") if node.get("class") == "shade"]
    return [float(box.get("fill-opacity", "")) for box in boxes]


def test_words_label_and_summary_are_in_the_figure(tmp_path: Path) -> None:
    found = texts(drawn(RECORD, tmp_path))
    assert [text for text in found if text in RECORD.tokens][:48] == list(RECORD.tokens)[:48]
    assert "negative, predicted with probability 0.93; correct." in found
    assert {"films/han-1", "0.72", "16 ×", "highest weight"} <= set(found)
    assert "Removing the 10 % of words" in " ".join(found)


def test_shade_follows_the_weight(tmp_path: Path) -> None:
    record = DocumentRecord(
        tokens=("a", "b", "c"),
        segments=(0, 0, 0),
        hops=((0.0, 0.3, 0.7),),
        sentence_weights=None,
        label="x",
        probabilities={"x": 1.0},
        title="t",
    )
    # 0, 0.9 and 2.1 times the uniform weight, then the legend.
    assert opacities(drawn(record, tmp_path))[:3] == pytest.approx([0, 0.18, 0.34], abs=0.01)


def test_hops_mean_or_each(tmp_path: Path) -> None:
    record = make_document_record(hops=3, weighed=False)
    assert texts(drawn(record, tmp_path)).count("lifeless") == 1
    found = texts(drawn(record, tmp_path, hops="each"))
    assert found.count("lifeless") == 4
    assert {"mean of hops", "hop 1", "hop 3"} <= set(found)
    with pytest.raises(RegardError, match=r"'eahc'. Did you mean 'each'\?"):
        draw_document(record, path=tmp_path / "p.svg", hops="eahc")


def test_omitted_words_and_hops_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document_figure, "MAX_WORDS", 40)
    monkeypatch.setattr(document_figure, "MAX_BLOCKS", 2)
    record = make_document_record(hops=3, weighed=False)
    found = " ".join(texts(drawn(record, tmp_path, hops="each")))
    left = len(record.tokens) - 40
    assert re.search(rf"… and {left} more tokens, not drawn, which have \d+ % of the weight", found)
    assert "2 more hops are not drawn." in found


@pytest.mark.parametrize("weighed", [False, True])
def test_boxes_hold_their_words_and_do_not_overlap(weighed: bool) -> None:
    tokens = ("日本語", "🙂", "W" * 400, "i", "العربية", *["mill"] * 60)
    record = DocumentRecord(
        tokens=tokens,
        segments=(0,) * len(tokens),
        hops=((1 / len(tokens),) * len(tokens),),
        sentence_weights=(1.0,) if weighed else None,
        label="x",
        probabilities={"x": 1.0},
        title="t",
    )
    text = layout_document(record, left=20.0, right=620.0)
    for piece, position in zip(text.tokens, text.positions, strict=True):
        width = text_width(piece.text, font_size=WORD_SIZE) + 2 * INSIDE
        assert position.width == pytest.approx(width)
        assert text.left + position.left + position.width <= 620.0
    for before, after in zip(text.positions, text.positions[1:], strict=False):
        assert after.line > before.line or after.left >= before.left + before.width


@pytest.mark.parametrize("suffix", [".svg", ".png"])
def test_figure_is_reproducible(suffix: str, tmp_path: Path) -> None:
    first, second = tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"
    draw_document(RECORD, path=first)
    draw_document(DocumentRecord.from_json(RECORD.as_json()), path=second)
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize("suffix", [".svg", ".png"])
def test_any_text_is_drawn_without_warnings(
    suffix: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    tokens = ("日本語", "$x$", "\x00", "\ud800", "<b>&", "", "x" * 400, "$", "]]>", '"')
    record = DocumentRecord(
        tokens=tokens,
        segments=(0,) * len(tokens),
        hops=((0.1,) * len(tokens),),
        sentence_weights=None,
        label="<i>\x01$" * 30,
        probabilities={"<i>\x01$" * 30: 1.0},
        reference="狗 " * 40,
        title="題 $\n" * 100,
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        draw_document(record, path=tmp_path / f"p{suffix}")
    assert [str(warning.message) for warning in caught] == []
    assert capfd.readouterr() == ("", "")
    if suffix == ".svg":
        found = texts(ElementTree.fromstring((tmp_path / "p.svg").read_bytes()))
        assert {"日本語", "$x$", "\\x00", "\\ud800", "<b>&", "]]>"} <= set(found)


def test_other_file_formats_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=r"\.svg or \.png"):
        draw_document(RECORD, path=tmp_path / "p.pdf")
    assert not list(tmp_path.iterdir())


def test_truncated_tokens_are_reported_and_titles_truncated(tmp_path: Path) -> None:
    record = make_document_record(title="a dull picture " * 5000, truncated_tokens=9000)
    found = texts(drawn(record, tmp_path))
    assert "The last 9,000 tokens were truncated (99 % of the text" in " ".join(found)
    (title,) = [text for text in found if text.startswith("a dull picture")]
    assert title.endswith("…")
    assert len(title) <= 100
