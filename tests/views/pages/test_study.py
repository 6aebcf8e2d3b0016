"""The page of a study: all of it is there, nothing is fetched, nothing escapes, and little is enough."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from functools import cache
from html.parser import HTMLParser

import pytest
from tests.factories.studies import made_up_study

from regard.core.records.study import StudyRecord
from regard.views.pages.study import SECTIONS, study_page

RECORD = made_up_study()
NASTY = "<script>alert('variant')</script>"


class Reader(HTMLParser):
    """Gathers tags, attributes and text; complains of tags closed in the wrong order."""

    VOID = frozenset({"meta", "input", "wbr"})

    def __init__(self, html: str) -> None:
        super().__init__()
        self.opened: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in self.VOID:
            self.opened.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.opened.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.opened and self.opened[-1] not in {"style", "script"}:
            self.texts.append(data)

    def values(self, name: str) -> list[str | None]:
        return [value for attribute, value in self.attributes if attribute == name]

    @property
    def text(self) -> str:
        return re.sub(r"[\s\u00a0]+", " ", " ".join(self.texts))


@cache
def drawn() -> str:
    return study_page(RECORD)


def sections(html: str) -> list[str]:
    return re.findall(r'<section id="(\w+)"', html)


def whole(record: StudyRecord) -> Reader:
    """The page, which must be sound whatever the record lacks."""
    html = study_page(record)
    reader = Reader(html)
    assert reader.opened == []
    identifiers = reader.values("id")
    assert len(identifiers) == len(set(identifiers))
    assert {f"#{identifier}" for identifier in identifiers} >= set(reader.values("href"))
    assert set(reader.values("for")) <= set(identifiers)
    assert re.findall(r"https?:|@import|url\(", html) == []
    assert reader.values("src") == []
    assert "nan" not in re.findall(r'"(-?nan|-?inf)"', html)
    return reader


@pytest.fixture(scope="module")
def reader() -> Reader:
    return whole(RECORD)


def test_the_question_and_the_verdict_come_first(reader: Reader) -> None:
    text = reader.text
    assert text.index(RECORD.question) < text.index(RECORD.headline[0]) < text.index("8 variants")
    assert "8 variants × 5 seeds" in text
    assert "6 374 items of test" in text.replace("\u202f", " ")
    assert "lower is better" in text
    assert "2,000 steps each" in text


def test_every_section_is_there_but_that_of_troubles() -> None:
    assert sections(drawn()) == [name for name in SECTIONS if name != "trouble"]


def test_the_table_has_the_best_variant_first_with_its_interval() -> None:
    html = drawn()
    table = html[html.index('<section id="variants"') : html.index('<section id="method"')]
    names = re.findall(r'scope="row"><span class="variant[^>]*>([^<]+)<', table)
    assert [name.replace("\u00a0", " ") for name in names] == [
        variant.name for variant in sorted(RECORD.variants, key=lambda variant: variant.mean or 0.0)
    ]
    best = min(RECORD.variants, key=lambda variant: variant.mean or 0.0)
    assert f"<b>{best.mean:.2f}</b>" in table
    assert f"{best.low:.2f} to {best.high:.2f}" in table
    assert table.count('class="tag">baseline') == 1
    # A dot a seed, with a title.
    assert table.count("<circle ") == table.count(", seed ") == 8 * 5


def test_the_two_questions_stand_apart_with_words_and_figures() -> None:
    html = drawn()
    for question, anchor, after in (("method", "method", "models"), ("models", "models", "front")):
        part = html[html.index(f'<section id="{anchor}"') : html.index(f'<section id="{after}"')]
        pairs = [pair for pair in RECORD.verdicts if pair.holds_for == question]
        assert len(pairs) == 28
        for pair in pairs:
            assert f"<span>{pair.words}</span>" in part
        others = [pair for pair in RECORD.verdicts if pair.holds_for != question]
        assert not any(f"<span>{pair.words}</span>" in part for pair in others)
        assert "The other 21 pairs in figures" in part
        assert part.count('class="same"') == 8
        detectable = 'data-label="detectable"'
        assert (detectable in part) == (question == "method")


def test_the_matrix_says_both_directions_in_words() -> None:
    text = whole(RECORD).text
    assert "additive · after beside dot · before: better" in text
    assert "dot · before beside additive · after: worse" in text


def test_with_few_variants_all_pairs_are_shown_and_there_is_no_matrix() -> None:
    html = study_page(made_up_study(names=["a", "b", "c", "d"]))
    assert "in figures" not in html
    assert 'class="matrix' not in html
    assert html.count('class="cards pairs"') == 2


def test_with_few_seeds_no_p_stands_beside_the_method() -> None:
    html = study_page(made_up_study(names=["a", "b"], seeds=2))
    part = html[html.index('<section id="method"') : html.index('<section id="models"')]
    assert "too few for any claim" in part
    assert 'data-label="p (Holm)">–<' in part
    assert "grey band" not in part


def test_outputs_are_marked_right_or_wrong_by_sign_and_word(reader: Reader) -> None:
    html = drawn()
    part = html[html.index('<section id="items"') : html.index('<section id="attention"')]
    assert "✓" in part
    assert "✗" in part
    assert part.count("right:") == part.count("wrong:") == len(RECORD.disagreements)
    assert "&lt;b&gt;&amp;quot;" in part


def test_facts_and_all_runs_are_at_the_end(reader: Reader) -> None:
    for fact in RECORD.facts.values():
        assert fact in reader.text
    for run in RECORD.runs:
        assert run.key in reader.text
    assert "All 40 runs" in reader.text
    assert "model.mechanism" in reader.text


def test_what_users_write_cannot_run() -> None:
    record = made_up_study(names=[NASTY, "b"])
    record = dataclasses.replace(
        record, question=NASTY, headline=(NASTY,), metric="PER", facts={NASTY: NASTY}
    )
    reader = whole(record)
    assert reader.tags.count("script") == 1
    assert "<script>alert" not in study_page(record)
    assert NASTY in reader.text


def test_one_variant_with_one_seed_is_a_page() -> None:
    record = made_up_study(names=["only"], seeds=1)
    text = whole(record).text
    assert "1 variant × 1 seed" in text
    assert "no interval" in text
    assert not {"method", "models", "front"} & set(sections(study_page(record)))


def test_twenty_variants_with_long_names_are_a_page() -> None:
    names = [f"{'a very long name ' * 4}{number}" for number in range(20)]
    record = made_up_study(names=names)
    text = whole(record).text
    assert all(name in text for name in names)
    assert "The other 171 pairs in figures" in text


def test_failed_variants_and_runs_are_listed_with_their_trouble() -> None:
    variant = dataclasses.replace(
        RECORD.variants[1], mean=None, low=None, high=None, scores={}, trouble="the loss was <nan>"
    )
    runs = tuple(
        dataclasses.replace(run, state="failed", reason="out of memory", scores={}, curve=())
        if run.variant == variant.name
        else run
        for run in RECORD.runs
    )
    record = dataclasses.replace(
        RECORD,
        variants=(RECORD.variants[0], variant, *RECORD.variants[2:]),
        runs=runs,
        verdicts=tuple(
            pair for pair in RECORD.verdicts if variant.name not in (pair.first, pair.second)
        ),
    )
    reader = whole(record)
    assert "✗ no score" in reader.text
    assert "the loss was <nan>" in reader.text
    assert reader.text.count("failed, out of memory") == 5
    assert "trouble" in sections(study_page(record))


def test_a_study_in_which_everything_failed_is_a_page() -> None:
    variants = tuple(
        dataclasses.replace(variant, mean=None, low=None, high=None, agreement=None, trouble="gone")
        for variant in RECORD.variants
    )
    runs = tuple(
        dataclasses.replace(run, state="missing", scores={}, validation_scores={}, curve=())
        for run in RECORD.runs
    )
    record = dataclasses.replace(
        RECORD,
        variants=variants,
        runs=runs,
        verdicts=(),
        disagreements=(),
        pictures=(),
        agreement_source="",
    )
    whole(record)
    assert sections(study_page(record)) == ["variants", "trouble", "repeat"]
    # Why there is no agreement is said, if there is a reason.
    reason = "the package is not installed here"
    assert reason in whole(dataclasses.replace(record, agreement_source=reason)).text


def test_what_a_study_has_nothing_of_is_left_out() -> None:
    bare = dataclasses.replace(
        RECORD,
        headline=(),
        verdicts=(),
        disagreements=(),
        pictures=(),
        agreement_source="",
        variants=tuple(dataclasses.replace(variant, agreement=None) for variant in RECORD.variants),
        runs=tuple(dataclasses.replace(run, curve=()) for run in RECORD.runs),
    )
    whole(bare)
    assert sections(study_page(bare)) == ["variants", "front", "repeat"]


def test_a_cost_that_is_the_same_for_all_is_a_sentence() -> None:
    variants = tuple(
        dataclasses.replace(variant, parameters=1_000_000) for variant in RECORD.variants
    )
    text = whole(dataclasses.replace(RECORD, variants=variants)).text
    assert "The same for all variants: parameters (1.0 M)." in text


def test_the_same_record_gives_the_same_page() -> None:
    assert study_page(StudyRecord.from_json(RECORD.as_json())) == study_page(RECORD)


def test_a_page_is_drawn_without_torch() -> None:
    code = "import sys, regard.views.pages.study; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
