"""Study page and figure files: sections, tables, verdicts, escaping and partial records."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.factories.studies import dummy_study, without_scores

from regard.core.formatting import score_text
from regard.core.records.study import ScoreRecord, StudyRecord
from regard.views.charts.study import write_figures
from regard.views.charts.variants import Question, shared_text
from regard.views.pages.study import SECTIONS, study_page

RECORD = dummy_study()
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


def test_question_and_verdict_come_first(reader: Reader) -> None:
    text = reader.text
    assert text.index(RECORD.question) < text.index(RECORD.headline[0]) < text.index("8 variants")
    assert "8 variants × 5 seeds" in text
    assert "6,374 items of test" in text
    assert "lower is better" in text
    assert "2,000 steps each" in text


def test_all_sections_but_failed_runs() -> None:
    assert sections(drawn()) == [
        name for name in SECTIONS if name not in ("differences", "problems")
    ]


def test_variant_table_has_the_best_variant_first() -> None:
    html = drawn()
    table = html[html.index('<section id="variants"') : html.index('<section id="method"')]
    names = re.findall(r'scope="row"[^>]*><span class="variant[^>]*><span>([^<]+)<', table)
    assert [name.replace("\u00a0", " ") for name in names] == [
        variant.name for variant in sorted(RECORD.variants, key=lambda variant: variant.mean or 0.0)
    ]
    best = min(RECORD.variants, key=lambda variant: variant.mean or 0.0)
    assert f"<b>{best.mean:.2f}</b>" in table
    assert f"{best.low:.2f} to {best.high:.2f}" in table
    assert table.count('class="tag">baseline') == 1
    # One titled dot per seed.
    assert table.count("<circle ") == table.count(", seed ") == 8 * 5


def test_shared_initial_parameters() -> None:
    cell = '<td data-label="shared initial parameters" data-sort="0.75">'
    assert drawn().count(f"{cell}75 %") == 7
    shares = (None, 0.0, 0.001, 0.999, 1.0)
    shown = [
        shared_text(dataclasses.replace(RECORD.variants[0], shared_initialisation=share))
        for share in shares
    ]
    assert shown == ["–", "0 %", "< 1 %", "> 99 %", "100 %"]


def test_method_and_model_comparisons_are_separate() -> None:
    html = drawn()
    questions: list[tuple[Question, str]] = [("method", "models"), ("models", "metrics")]
    for question, after in questions:
        part = html[html.index(f'<section id="{question}"') : html.index(f'<section id="{after}"')]
        pairs = RECORD.verdicts_of(question)
        assert len(pairs) == 28
        for pair in pairs:
            assert f"<span>{pair.sentence}</span>" in part
        others = RECORD.verdicts_of("models" if question == "method" else "method")
        assert not any(f"<span>{pair.sentence}</span>" in part for pair in others)
        assert "The other 21 pairs" in part
        assert part.count('class="diagonal"') == 8
        detectable = 'data-label="detectable"'
        assert (detectable in part) == (question == "method")


def test_every_metric_has_intervals_and_verdicts() -> None:
    html = drawn()
    part = html[html.index('<section id="metrics"') : html.index('<section id="pareto"')]
    for metric in RECORD.metrics:
        assert f">{metric.heading}</button></th>" in part
        if metric.note:
            assert f'title="{metric.note}">{metric.heading}<' in part
    for variant in RECORD.variants:
        for metric in RECORD.metrics:
            score = variant.scores[metric.name]
            ends = (score_text(end, decimals=metric.digits) for end in (score.low, score.high))
            assert f"<b>{score_text(score.mean, decimals=metric.digits)}</b>" in part
            assert " to ".join(ends) in part
    score = RECORD.variants[0].scores["exact_match"]
    assert f"items {score.item_low:.2f} to {score.item_high:.2f}" in part
    # One item interval per variant and item-wise metric; pairs with the baseline, by two metrics.
    assert part.count(">items ") >= 8 * 2
    assert part.count(" against ") == 7
    assert part.count("<small class=") == 7 * (2 + 1)
    assert "PER was chosen beforehand and decides" in part
    assert "exact_match: 100 minus what G2P papers call WER." in part


def test_verdict_matrix_has_both_directions() -> None:
    text = whole(RECORD).text
    assert "additive · luong against dot · bahdanau: better" in text
    assert "dot · bahdanau against additive · luong: worse" in text


def test_no_matrix_with_few_variants() -> None:
    html = study_page(dummy_study(names=["a", "b", "c", "d"]))
    assert "pairs</summary>" not in html
    assert 'class="matrix' not in html
    assert html.count('class="cards pairs"') == 2


def test_no_p_values_with_few_seeds() -> None:
    html = study_page(dummy_study(names=["a", "b"], seeds=2))
    part = html[html.index('<section id="method"') : html.index('<section id="models"')]
    assert "too few seeds for a claim" in part
    assert 'data-label="p (Holm)">–<' in part
    assert "grey band" not in part


def test_predictions_are_marked_by_icon_and_text(reader: Reader) -> None:
    html = drawn()
    part = html[html.index('<section id="items"') : html.index('<section id="attention"')]
    assert "✓" in part
    assert "✗" in part
    assert part.count("correct:") == part.count("wrong:") == len(RECORD.disagreements)
    assert "&lt;b&gt;&amp;quot;" in part


def test_reproducibility_and_runs_are_at_the_end(reader: Reader) -> None:
    for fact in RECORD.reproducibility.values():
        assert fact in reader.text
    for run in RECORD.runs:
        assert run.key in reader.text
    assert "All 40 runs" in reader.text
    assert "evaluations evaluation time folder" in reader.text
    assert reader.text.count(" 20 12.5 s ") == 40
    assert "model.mechanism" in reader.text


def test_user_text_is_escaped() -> None:
    record = dummy_study(names=[NASTY, "b"])
    record = dataclasses.replace(
        record, question=NASTY, headline=(NASTY,), reproducibility={NASTY: NASTY}
    )
    reader = whole(record)
    assert reader.tags.count("script") == 1
    assert "<script>alert" not in study_page(record)
    assert NASTY in reader.text


def test_page_of_one_variant_and_one_seed() -> None:
    record = dummy_study(names=["only"], seeds=1)
    text = whole(record).text
    assert "1 variant × 1 seed" in text
    assert "no interval" in text
    assert not {"method", "models", "pareto"} & set(sections(study_page(record)))


def test_page_of_twenty_variants_with_long_names() -> None:
    names = [f"{'a very long name ' * 4}{number}" for number in range(20)]
    record = dummy_study(names=names)
    text = whole(record).text
    assert all(name in text for name in names)
    assert "The other 171 pairs" in text


def test_failed_variants_and_runs_are_listed() -> None:
    variant = dataclasses.replace(without_scores(RECORD.variants[1]), problems="the loss was <nan>")
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
    assert reader.text.count(": out of memory") == 5
    assert "problems" in sections(study_page(record))


def unfinished() -> StudyRecord:
    """Three variants; seed 3 is missing for one of them, seed 4 for all."""
    record = dummy_study(names=["a", "b", "c"])
    missing = {"a": (4,), "b": (3, 4), "c": (4,)}
    runs = tuple(
        dataclasses.replace(run, state="missing", scores={}, curve=())
        if run.seed in missing[run.variant]
        else run
        for run in record.runs
    )
    headline = ("The study is not finished.", "Resume with: regard study scores")
    variants = tuple(
        dataclasses.replace(
            variant,
            scores={name: ScoreRecord(mean=score.mean) for name, score in variant.scores.items()},
        )
        for variant in record.variants
    )
    return dataclasses.replace(
        record,
        variants=variants,
        headline=headline,
        seeds=(0, 1, 2),
        runs=runs,
        verdicts=(),
        pairing=None,
        missing=missing,
    )


def test_page_of_an_unfinished_study_has_no_verdict() -> None:
    record = unfinished()
    html, text = study_page(record), whole(record).text
    assert "Resume with: regard study scores" in text
    assert "not finished: descriptive means of seeds 0, 1, 2" in text
    assert not {"method", "models", "pareto", "problems"} & set(sections(html))
    body = re.sub(
        r"(lower|higher) is better", "", html[html.index("<main>") : html.index("</main>")]
    )
    for word in ("better", "best:", "verdict", "against baseline", "p-value", "decides", "Pareto"):
        assert word not in body
    assert "missing: seed 4" in text
    assert "missing: seeds 3, 4" in text


def test_unfinished_study_shows_the_same_seeds_of_every_variant() -> None:
    # Seed 3 of two variants is finished, but has no dot and no curve.
    html = study_page(unfinished())
    table = html[html.index('<section id="variants"') : html.index('<section id="metrics"')]
    assert table.count("<circle ") == 3 * 3
    assert ", seed 3:" not in table
    curves = html[html.index('<section id="curves"') : html.index('<section id="items"')]
    assert curves.count('class="thin"') == 4 * 3 * 3


def test_figures_of_an_unfinished_study_rank_nothing(tmp_path: Path) -> None:
    write_figures(dummy_study(names=["a", "b", "c"]), tmp_path)
    assert {path.stem for path in write_figures(unfinished(), tmp_path)} == {
        *("scores", "curves", "curves-tokens", "curves-flops", "curves-time")
    }
    assert not list(tmp_path.glob("pareto*"))
    assert "descriptive means" in (tmp_path / "scores.svg").read_text(encoding="utf-8")


def test_same_scores_have_an_icon_of_their_own() -> None:
    record = dummy_study(names=["a", "b"])
    pairs = [
        dataclasses.replace(pair, difference=-0.0001, verdict="same scores")
        for pair in record.verdicts
    ]
    html = study_page(dataclasses.replace(record, verdicts=tuple(pairs)))
    assert ">=</span> same scores" in html
    assert "▲" not in html
    assert "▼" not in html
    assert "<b>0.00</b>" in html


def test_verdicts_have_the_ratio_of_flops() -> None:
    record = dummy_study(names=["a", "b"])
    pairs = [dataclasses.replace(pair, flops_ratio=8.0) for pair in record.verdicts]
    html = study_page(dataclasses.replace(record, verdicts=tuple(pairs)))
    assert html.count('<td data-label="FLOPs ratio">8.0</td>') == 2
    assert "FLOPs ratio" not in study_page(record)


def test_pairing_is_described() -> None:
    text = whole(RECORD).text
    pairing = RECORD.pairing
    assert pairing is not None
    assert f"intraclass correlation {pairing.intraclass_correlation:.2f} (95 % interval " in text
    assert f"unpaired {pairing.unpaired_detectable_difference:.2f}." in text


def test_page_of_a_study_without_finished_runs() -> None:
    variants = tuple(
        dataclasses.replace(without_scores(variant), agreement=None) for variant in RECORD.variants
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
        attention_examples=(),
        agreement_source="",
        missing={variant.name: RECORD.seeds for variant in variants},
    )
    assert whole(record).text.count("no score yet : missing: seeds 0, 1, 2, 3, 4") == 8
    assert sections(study_page(record)) == ["variants", "repeat"]
    # Why there is no agreement is said, if there is a reason.
    reason = "the package is not installed here"
    assert reason in whole(dataclasses.replace(record, agreement_source=reason)).text


def test_empty_sections_are_omitted() -> None:
    bare = dataclasses.replace(
        RECORD,
        headline=(),
        verdicts=(),
        disagreements=(),
        attention_examples=(),
        agreement_source="",
        variants=tuple(dataclasses.replace(variant, agreement=None) for variant in RECORD.variants),
        runs=tuple(dataclasses.replace(run, curve=()) for run in RECORD.runs),
    )
    whole(bare)
    assert sections(study_page(bare)) == ["variants", "metrics", "pareto", "repeat"]


def test_equal_costs_are_listed_instead_of_charted() -> None:
    variants = tuple(
        dataclasses.replace(variant, parameters=1_000_000) for variant in RECORD.variants
    )
    text = whole(dataclasses.replace(RECORD, variants=variants)).text
    assert "The same for all variants: parameters (1.0 M)." in text


def test_page_is_reproducible() -> None:
    assert study_page(StudyRecord.from_json(RECORD.as_json())) == study_page(RECORD)


def test_page_does_not_import_torch() -> None:
    code = "import sys, regard.views.pages.study; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_figure_files_have_no_css_variables(tmp_path: Path) -> None:
    paths = write_figures(dummy_study(), tmp_path / "figures")
    assert {path.name for path in paths} >= {
        *("scores.svg", "pareto-flops.svg", "pareto-time.svg", "pareto-memory.svg"),
        *("pareto-parameters.svg", "curves.svg"),
    }
    for path in paths:
        text = path.read_text(encoding="utf-8")
        tree = ElementTree.fromstring(text)
        assert tree.tag == "{http://www.w3.org/2000/svg}svg"
        assert "var(" not in text
        assert "additive · luong" in text
    assert write_figures(dummy_study(), tmp_path / "figures") == paths


def test_no_figures_without_scores(tmp_path: Path) -> None:
    assert write_figures(dataclasses.replace(dummy_study(), variants=(), runs=()), tmp_path) == []


def many(count: int = 40) -> StudyRecord:
    """A study of many variants: mechanisms × widths."""
    record = dummy_study(names=[f"variant {number}" for number in range(count)], seeds=2)
    mechanisms = ("dot", "additive", "general", "elu")
    return dataclasses.replace(
        record,
        variants=tuple(
            dataclasses.replace(
                variant,
                settings={"model": {"mechanism": mechanisms[index % 4], "hidden_dim": 8 * index}},
            )
            for index, variant in enumerate(record.variants)
        ),
    )


def test_many_variants_are_grouped_and_filtered() -> None:
    html = study_page(many())
    table = html[html.index('id="variants-table"') : html.index('<section id="method"')]
    groups = re.findall(r'<tr class="group"><th[^>]*>([^<]+) <small>([^<]+)<', table)
    # The first variant is the best one, so its group comes first.
    assert groups[0] == ("model.mechanism = dot", "10 variants")
    assert len(groups) == 4
    assert table.count("<tbody>") == 4
    assert 'data-table="variants-table"' in html


def test_all_pairs_of_many_variants_are_a_map() -> None:
    record = many()
    html = study_page(record)
    part = html[html.index('<section id="models"') : html.index('<section id="metrics"')]
    (codes,) = re.findall(r'data-codes="([bwi.]+)"', part)
    assert len(codes) == 40 * 40
    assert {codes[41 * index] for index in range(40)} == {"."}
    better = {(pair.first, pair.second) for pair in record.verdicts_of("models")}
    assert codes.count("b") == codes.count("w") > 0
    assert len(better) == 780
    # Pairs with the baseline only; a table of all would have 780 rows.
    assert part.count('<tr><th scope="row" class="verdict') == 39
    names = re.findall(r"data-names='([^']+)'", part)
    assert json.loads(names[0])[0] == "variant 0"


def test_of_many_variants_the_best_and_the_baseline_are_named() -> None:
    html = study_page(many())
    curves = html[html.index('<section id="curves"') : html.index('<section id="items"')]
    (first, *_) = re.findall(r"<svg.*?</svg>", curves)
    labels = [group.findtext("text") for group in ElementTree.fromstring(first).iter("g")]
    named = {label for label in labels if label}
    assert named == {f"variant {number}" for number in range(8)}


def test_differences_between_compared_runs_come_first() -> None:
    differences = {"budget": "dot has 100 steps, general 200."}
    record = dataclasses.replace(RECORD, differences=differences, is_study=False)
    html = study_page(record)
    assert sections(html)[0] == "differences"
    assert "dot has 100 steps, general 200." in whole(record).text
    assert "regard report · scores" in whole(record).text
