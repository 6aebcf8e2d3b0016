"""The deletion test drawn, for pages and in files: lines, bands, names, and 0 where it belongs."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.factories.documents import made_up_deletion

from regard.core.errors import RegardError
from regard.core.records.document import DeletionRecord, OrderRecord
from regard.views.charts.deletion import deletion_chart, draw_deletion, fall_scale

MANY, ONE = made_up_deletion(), made_up_deletion(texts=1)


def points(text: str | None) -> list[tuple[float, float]]:
    assert text is not None
    return [(float(x), float(y)) for x, y in (pair.split(",") for pair in text.split())]


def order_of(record: DeletionRecord, name: str) -> ElementTree.Element:
    chart = ElementTree.fromstring(deletion_chart(record))
    return next(group for group in chart.iter("g") if group.get("class") == f"order {name}")


def test_a_larger_fall_is_drawn_higher_and_shares_from_left_to_right() -> None:
    top = points(order_of(MANY, "top").find("polyline").get("points"))  # type: ignore[union-attr]
    assert [x for x, _ in top] == sorted(x for x, _ in top)
    assert [y for _, y in top] == sorted((y for _, y in top), reverse=True)
    random = points(order_of(MANY, "random").find("polyline").get("points"))  # type: ignore[union-attr]
    assert all(first[1] < second[1] for first, second in zip(top, random, strict=True))


def test_the_band_reaches_from_end_to_end() -> None:
    group = order_of(MANY, "top")
    line = points(group.find("polyline").get("points"))  # type: ignore[union-attr]
    band = points(group.find("polygon").get("points"))  # type: ignore[union-attr]
    upper, lower = band[:6], band[6:][::-1]
    for (_, middle), (_, above), (_, below) in zip(line, upper, lower, strict=True):
        assert above < middle < below
    # One text has no band around what was not drawn by chance.
    single = order_of(ONE, "top").find("polygon")
    assert len(set(points(single.get("points")))) == 6  # type: ignore[union-attr]


def test_points_say_their_figures_and_orders_their_names() -> None:
    titles = [node.text for node in order_of(MANY, "least").iter("title")]
    assert titles[3] == "10 % removed, least weight: −0.03 (−0.04 to −0.02)"
    assert order_of(MANY, "random").find("text").text == "at random"  # type: ignore[union-attr]


def test_nothing_does_not_look_like_something() -> None:
    tiny = made_up_deletion()
    small = [
        dataclasses.replace(
            order,
            falls=tuple(
                dataclasses.replace(fall, mean=0.001, low=None, high=None) for fall in order.falls
            ),
        )
        for order in tiny.orders().values()
    ]
    tiny = dataclasses.replace(tiny, top=small[0], random=small[1], least=small[2])
    scale = fall_scale(tiny, start=1.0, end=0.0)
    assert scale.low == 0.0
    assert scale.place(0.001) > 0.98


def test_a_single_share_can_be_drawn(tmp_path: Path) -> None:
    def first(order: OrderRecord) -> OrderRecord:
        return dataclasses.replace(order, falls=order.falls[:1], flips=order.flips[:1])

    record = dataclasses.replace(
        MANY,
        shares=(0.1,),
        removed=(1.0,),
        differences=MANY.differences[:1],
        top=first(MANY.top),
        random=first(MANY.random),
        least=first(MANY.least),
    )
    ElementTree.fromstring(deletion_chart(record))
    draw_deletion(record, path=tmp_path / "p.svg")


@pytest.mark.parametrize("suffix", [".svg", ".png"])
def test_files_are_the_same_bytes_each_time(suffix: str, tmp_path: Path) -> None:
    first, second = tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"
    draw_deletion(MANY, path=first)
    draw_deletion(DeletionRecord.from_plain(MANY.as_plain()), path=second)
    assert first.read_bytes() == second.read_bytes()
    if suffix == ".svg":
        drawn = "".join(ElementTree.fromstring(first.read_bytes()).itertext())
        for text in ("most weight", "at random", "least weight", "10 %", "Over 200 texts"):
            assert text in drawn


def test_other_kinds_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=r"End the name in \.svg or \.png"):
        draw_deletion(MANY, path=tmp_path / "p.pdf")
