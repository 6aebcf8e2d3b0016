"""The page of a study: the question and the verdict, then what they rest on, then how to repeat it."""

from __future__ import annotations

from regard.core.study_record import StudyRecord
from regard.views.agreement_chart import agreement_chart
from regard.views.arm_table import arm_table
from regard.views.attention_columns import attention_columns
from regard.views.chooser import chooser
from regard.views.disagreement_table import disagreement_table
from regard.views.front_section import front_section
from regard.views.markup import Markup, element, joined
from regard.views.page import page
from regard.views.pair_tables import pair_tables
from regard.views.run_table import run_table, trouble_list
from regard.views.settings_table import settings_table
from regard.views.study_arms import arm_label, baseline_of, counted, scored
from regard.views.study_curves import AXES, curves_chart
from regard.views.verdict_mark import NO_CLAIM

SECTIONS = {
    "arms": "The arms",
    "method": "The method, over seeds",
    "models": "These models, on other items",
    "front": "Quality against cost",
    "curves": "How they learned",
    "items": "Where they disagree",
    "attention": "What they read",
    "agreement": "Agreement with known alignments",
    "trouble": "What went wrong",
    "repeat": "How to repeat it",
}


def study_page(record: StudyRecord) -> str:
    """The text of an HTML file that shows all of a study; what it has nothing of is left out."""
    contents = {
        "arms": _arms(record),
        "method": _method(record),
        "models": _models(record),
        "front": front_section(record),
        "curves": _curves(record),
        "items": _items(record),
        "attention": _attention(record),
        "agreement": _agreement(record),
        "trouble": _trouble(record),
        "repeat": _repeat(record),
    }
    there = {anchor: content for anchor, content in contents.items() if content}
    main = element("main", *(_section(anchor, content) for anchor, content in there.items()))
    foot = element("footer", element("p", "Made by regard. One file, and it fetches nothing."))
    return page(
        title=record.question or record.name,
        body=[_headline(record, list(there)), main, foot],
        kind="study",
    )


def _headline(record: StudyRecord, anchors: list[str]) -> Markup:
    links = [element("a", SECTIONS[anchor], href=f"#{anchor}") for anchor in anchors]
    return element(
        "header",
        element("p", f"regard study · {record.name}", class_="kicker"),
        element("h1", record.question or record.name),
        element("div", *(element("p", text) for text in record.headline), class_="verdicts-lead"),
        element("p", _in_one_line(record), class_="given"),
        element("nav", *links, aria_label="Sections"),
        class_="headline study",
    )


def _in_one_line(record: StudyRecord) -> Markup:
    better = "lower" if record.lower_is_better else "higher"
    parts = [
        f"{counted(len(record.arms), 'arm')} × {counted(len(record.seeds), 'seed')}",
        f"{record.task}, {counted(record.items, 'item')} of {record.part}",
        f"{record.metric}, {better} is better",
        *(text.rstrip(".") for text in (record.budget, record.tries, record.matched) if text),
    ]
    return joined(*(element("span", part) for part in parts))


def _section(anchor: str, content: Markup) -> Markup:
    heading = element("h2", SECTIONS[anchor], id=f"{anchor}-heading")
    return element("section", heading, content, id=anchor, aria_labelledby=f"{anchor}-heading")


def _arms(record: StudyRecord) -> Markup:
    if not record.arms:
        return Markup("")
    several = len(record.seeds) > 1
    words = (
        "A dot is a seed, the bar their mean, the line its 95 % interval"
        if several
        else ("A dot is the run of the one seed, so there is no interval")
    )
    held = (
        "; the broken line is the baseline" if len(record.arms) > 1 and baseline_of(record) else ""
    )
    return joined(element("p", f"{words}{held}.", class_="hint"), arm_table(record))


def _method(record: StudyRecord) -> Markup:
    tables = pair_tables(record, holds_for="method")
    if not tables:
        return Markup("")
    only = any(pair.verdict == NO_CLAIM for pair in record.verdicts if pair.holds_for == "method")
    asked = (
        "Would a method be better with other seeds too? A paired t test over the "
        f"{counted(len(record.seeds), 'seed')}, p adjusted by Holm for all pairs; intervals are "
        "95 % for each pair alone."
    )
    answer = (
        " That is too few for any claim about a method: what follows holds for these runs only."
        if only
        else " Differences inside the grey band would probably have been missed, so “cannot "
        "tell apart” is not “equal”."
    )
    return joined(element("p", f"{asked}{answer}"), tables)


def _models(record: StudyRecord) -> Markup:
    tables = pair_tables(record, holds_for="models")
    if not tables:
        return Markup("")
    asked = element(
        "p",
        "Would these very models, as they were trained, score better on other items like the "
        f"{counted(record.items, 'item')} of {record.part}? A paired bootstrap over items, p "
        "adjusted by Holm; intervals are 95 % for each pair alone. It says nothing of what another "
        "training would give.",
    )
    return joined(asked, tables)


def _curves(record: StudyRecord) -> Markup:
    panes = [
        (axis.name, _scrolled(chart, f"Learning curves by {axis.name}"))
        for axis in AXES
        if (chart := curves_chart(record, axis))
    ]
    if not panes:
        return Markup("")
    words = f"{record.metric} on the part held out for development, as training went on."
    seeds = " Thick: the mean over seeds; thin: each seed." if len(record.seeds) > 1 else ""
    names = [element("li", arm_label(record, arm.name)) for arm in scored(record)]
    return joined(
        element("p", f"{words}{seeds}", class_="hint"),
        chooser(panes, key="axis", asks="against"),
        element("ul", *names, class_="curve-names"),
    )


def _items(record: StudyRecord) -> Markup:
    table = disagreement_table(record)
    if not table:
        return Markup("")
    words = (
        "Items that some arms get right (✓) and others wrong (✗), as written with the first seed."
        if any(item.right for item in record.disagreements)
        else "Items on which the arms' own scores lie farthest apart, as written with the first seed."
    )
    return joined(element("p", words, class_="hint"), table)


def _attention(record: StudyRecord) -> Markup:
    panes = [(each.source, attention_columns(record, each)) for each in record.pictures]
    if not panes:
        return Markup("")
    words = "How much of each source token was read while each output token was written."
    return joined(element("p", words, class_="hint"), chooser(panes, key="source", asks="reading"))


def _agreement(record: StudyRecord) -> Markup:
    chart = agreement_chart(record)
    if not chart:
        told = record.agreement_source
        return element("p", f"There is none: {told}", class_="hint") if told else Markup("")
    source = f" ({record.agreement_source})" if record.agreement_source else ""
    words = (
        "The share of phones whose largest attention lies on the letters that known alignments give "
        "them, each arm being given the right phones so far; of several heads the one that agrees "
        f"best on dev is taken{source}."
    )
    return joined(element("p", words), chart)


def _trouble(record: StudyRecord) -> Markup:
    troubles = trouble_list(record)
    if not troubles:
        return Markup("")
    return joined(
        element(
            "p",
            "Runs without a score. ",
            element("code", "regard study"),
            " takes them up again.",
            class_="hint",
        ),
        troubles,
    )


def _repeat(record: StudyRecord) -> Markup:
    facts = [
        joined(
            element("dt", name),
            element("dd", element("code", text) if name == "command" else text),
        )
        for name, text in record.facts.items()
    ]
    parts = [element("dl", *facts, class_="meanings facts")] if facts else []
    settings = settings_table(record)
    if settings:
        parts.append(element("details", element("summary", "What each arm sets"), settings))
    if record.runs:
        several = len(record.runs) > 1
        summary = element("summary", f"All {len(record.runs)} runs" if several else "The run")
        parts.append(element("details", summary, run_table(record)))
    return joined(*parts)


def _scrolled(content: Markup, label: str) -> Markup:
    return element("div", content, class_="scroll", tabindex="0", role="region", aria_label=label)
