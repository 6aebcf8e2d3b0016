"""Overview page: content, links, escaping, no external resources."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest

from regard.core.cost import Cost
from regard.core.records.overview import CheckRecord, CostRecord, MechanismRecord, Overview
from regard.views.pages.overview import overview_page

MECHANISM = MechanismRecord(
    name="mine",
    family="score",
    summary="softmax of <q, k>",
    reference="nobody & co 2020",
    capabilities=("rows sum to one",),
    causal=True,
    signed=False,
    weights_options="radius=2",
    weights=((1.0, 0.0), (0.5, 0.5)),
    checks=(
        CheckRecord(name="adds_up", description="1 + 1 = 2", outcome="passed", detail=""),
        CheckRecord(
            name="holds_water", description="it is tight", outcome="failed", detail="it <leaks>"
        ),
        CheckRecord(
            name="flies", description="it does", outcome="not_applicable", detail="no wings"
        ),
    ),
    cost_head_dim=64,
    costs=tuple(CostRecord(length=n, cost=Cost(matmul_flops=n * n)) for n in (4096, 8192, 16384)),
)
OVERVIEW = Overview(
    version="1.2.3",
    seed=7,
    tokens=("<script>alert(1)</script>", "b"),
    num_heads=8,
    mechanisms=(MECHANISM, dataclasses.replace(MECHANISM, name="yours", family="kernel")),
)


class Reader(HTMLParser):
    """Gathers tags, attributes and identifiers; complains of tags closed in the wrong order."""

    VOID = frozenset({"meta", "input", "wbr"})

    def __init__(self, html: str) -> None:
        super().__init__()
        self.opened: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in self.VOID:
            self.opened.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.opened.pop() == tag

    def values(self, name: str) -> list[str | None]:
        return [value for attribute, value in self.attributes if attribute == name]


@pytest.fixture(scope="module")
def html() -> str:
    return overview_page(OVERVIEW)


def test_tags_are_closed_and_links_resolve(html: str) -> None:
    reader = Reader(html)
    assert reader.opened == []
    identifiers = reader.values("id")
    assert len(identifiers) == len(set(identifiers))
    assert {f"#{identifier}" for identifier in identifiers} >= set(reader.values("href"))


def test_page_loads_no_external_resources(html: str) -> None:
    reader = Reader(html)
    assert re.findall(r"https?:|@import|url\(", html) == []
    assert not {"link", "img", "iframe", "object", "embed", "base"} & set(reader.tags)
    assert reader.values("src") == []
    assert any("default-src 'none'" in (value or "") for value in reader.values("content"))


def test_sentence_is_escaped(html: str) -> None:
    assert Reader(html).tags.count("script") == 1
    assert "<script>alert" not in html
    assert "&lt;script&gt;alert(1)" in html


def test_totals_outcomes_and_reasons(html: str) -> None:
    text = re.sub(r"<[^>]+>", " ", html)
    for words in ("mechanisms  2", "checks passed  2", "failed  2", "do not apply  2"):
        assert words in text
    assert html.count("✓</span>") == 2
    assert html.count("✗</a>") == 2
    assert html.count("–</a>") == 2
    assert "no wings" in text
    assert "it &lt;leaks&gt;" in text
    assert "nobody &amp; co 2020" in text
    assert "causal, radius=2" in text
    assert "seed 7" in text


def test_page_is_reproducible(html: str) -> None:
    assert overview_page(Overview.from_json(OVERVIEW.as_json())) == html


def test_page_of_an_empty_overview() -> None:
    empty = dataclasses.replace(OVERVIEW, mechanisms=())
    assert Reader(overview_page(empty)).opened == []


def test_page_does_not_import_torch() -> None:
    code = "import sys, regard.views.pages.overview; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
