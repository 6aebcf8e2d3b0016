"""A recording with the attention over it, on one time axis: words, spectrogram, weights.

   three    one     four
  ├─────┤  ├───┤   ├────┤       words, where their borders are known
▁▂▅▇▅▂▁▂▁▁▂▆▇▃▂▁▁▁▃▅▇▆▅▂▁       spectrogram, drawn as one image
t ██                            weights, one row per output token, or per hop of a classifier
h   ██
0      0.5      1.0      1.5
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from regard.core.formatting import counted, number_text, printable, truncate, weight_text
from regard.core.records.attention import AlignmentRecord
from regard.core.records.document import DocumentRecord
from regard.core.records.sound import SoundRecord
from regard.views.charts.axes import Scale, thin_ticks
from regard.views.charts.figure_file import write_figure
from regard.views.charts.heatmap import (
    CHAR_WIDTH,
    FONT_SIZE,
    Matrix,
    Panel,
    image_cells,
    image_levels,
    largest,
    row_labels,
    token_label,
    weight_ramp,
)
from regard.views.charts.svg import element, svg, text_block, titled

LEFT, RIGHT, PLOT_WIDTH = 52.0, 12.0, 576.0
WORD_HEIGHT, SPECTROGRAM_HEIGHT, GAP, AXIS_HEIGHT = 24.0, 96.0, 8.0, 36.0
TOKEN_HEIGHT, HOP_HEIGHT = 13.0, 17.0
MAX_NAME = 60


def alignment_panel(record: AlignmentRecord) -> Panel:
    """The one head that a record of a recording has."""
    name, heads = next(iter(record.maps.items()))
    return Panel(name, heads[0])


def hop_panel(record: DocumentRecord) -> Panel:
    """One row per hop, after their mean if there are several."""
    rows = (record.mean_weights(), *record.hops) if len(record.hops) > 1 else record.hops
    return Panel(counted(len(record.hops), "hop"), rows)


def sound_chart(sound: SoundRecord, *, key: str = "") -> Markup:
    """The spectrogram alone; `key` as of `image_levels`."""
    return _chart(sound, (), (), limit=1.0, row_height=0.0, with_spectrogram=True, text="", key=key)


def alignment_chart(
    record: AlignmentRecord,
    sound: SoundRecord,
    *,
    limit: float | None = None,
    with_spectrogram: bool = True,
    key: str = "",
) -> Markup:
    """Output tokens by time, below the spectrogram."""
    panel = alignment_panel(record)
    return _chart(
        sound,
        panel.weights,
        [token_label(token) for token in record.output_tokens],
        limit=limit or largest(panel.weights),
        row_height=TOKEN_HEIGHT,
        with_spectrogram=with_spectrogram,
        text=f" Weights of {panel.name} for the output {record.prediction or '(empty)'}.",
        key=key,
    )


def hops_chart(record: DocumentRecord, sound: SoundRecord, *, key: str = "") -> Markup:
    """Hops by time, below the spectrogram."""
    panel = hop_panel(record)
    names = [f"hop {number}" for number in range(1, len(record.hops) + 1)]
    return _chart(
        sound,
        panel.weights,
        ["mean", *names] if len(names) > 1 else ["weight"],
        limit=largest(panel.weights),
        row_height=HOP_HEIGHT,
        with_spectrogram=True,
        text=f" Weights of {panel.name}, predicted {record.label}.",
        key=key,
    )


def audio_uri(sound: SoundRecord) -> str:
    """The audio as a data URI; empty without."""
    if sound.audio is None:
        return ""
    return f"data:audio/wav;base64,{base64.b64encode(sound.audio).decode('ascii')}"


def _chart(
    sound: SoundRecord,
    weights: Matrix,
    rows: Sequence[str],
    *,
    limit: float,
    row_height: float,
    with_spectrogram: bool,
    text: str,
    key: str,
) -> Markup:
    time = Scale(0.0, sound.seconds or float(sound.frames), LEFT, LEFT + PLOT_WIDTH)
    top = WORD_HEIGHT if sound.words else 4.0
    parts: list[Markup] = []
    x, width = LEFT, PLOT_WIDTH
    y = top
    if with_spectrogram:
        levels = sound.levels()
        parts += [
            image_levels(
                levels,
                class_="spectrogram",
                x=x,
                y=y,
                width=width,
                height=SPECTROGRAM_HEIGHT,
                key=key,
            ),
            element("text", sound.high, x=LEFT - 5, y=y + FONT_SIZE, text_anchor="end"),
            element("text", sound.low, x=LEFT - 5, y=y + SPECTROGRAM_HEIGHT, text_anchor="end"),
        ]
        y += SPECTROGRAM_HEIGHT
    if weights:
        y += GAP if with_spectrogram else 0.0
        height = row_height * len(weights)
        parts += [
            image_cells(weights, limit=limit, x=x, y=y, width=width, height=height, key=key),
            element("g", *row_labels(rows, LEFT, y, row_height), aria_hidden="true"),
            *_row_titles(sound, weights, rows, y, row_height),
        ]
        y += height
    parts += [_word(time, each.word, each.start, each.end, top, y) for each in sound.words]
    parts += _axis(time, y, unit="seconds" if sound.seconds else "frames")
    length = f"{number_text(time.high, digits=3)} {'seconds' if sound.seconds else 'frames'}"
    words = "".join(f" {each.word}" for each in sound.words)
    return svg(
        *parts,
        width=LEFT + PLOT_WIDTH + RIGHT,
        height=y + AXIS_HEIGHT,
        class_="chart heatmap sound-chart",
        data_time=f"{LEFT:g} {LEFT + PLOT_WIDTH:g} {top:g} {y:g} {time.high:g}",
        aria_label=f"Spectrogram of {sound.name}, {length}, {sound.bands}."
        f"{' Words:' if words else ''}{words}{'.' if words else ''}{text}",
    )


def _row_titles(
    sound: SoundRecord, weights: Matrix, rows: Sequence[str], y: float, height: float
) -> list[Markup]:
    """Where each row has its largest weight, on hovering."""
    found = []
    for number, (row, label) in enumerate(zip(weights, rows, strict=True)):
        peak = max(range(len(row)), key=row.__getitem__)
        where = sound.column_names(len(row))[peak]
        area = element(
            "rect", x=LEFT, y=y + height * number, width=PLOT_WIDTH, height=height, fill_opacity=0
        )
        found.append(titled(f"{label}: largest weight {weight_text(row[peak])} at {where}", area))
    return found


def _word(time: Scale, word: str, start: float, end: float, top: float, bottom: float) -> Markup:
    first, last = time.position(time.clamp(start)), time.position(time.clamp(end))
    fits = len(word) * CHAR_WIDTH < last - first + 12
    lines = [
        element("line", x1=x, x2=x, y1=top - 7, y2=bottom, class_="word-border")
        for x in (first, last)
    ]
    return titled(
        f"{word}: {number_text(start, digits=3)} to {number_text(end, digits=3)} s",
        *lines,
        element("line", x1=first, x2=last, y1=top - 4, y2=top - 4, class_="word-span"),
        element(
            "text",
            printable(word) if fits else "",
            x=(first + last) / 2,
            y=top - 9,
            text_anchor="middle",
            class_="unit",
        ),
    )


def _axis(time: Scale, y: float, *, unit: str) -> list[Markup]:
    ticks = thin_ticks(time.ticks(count=6))
    marks = [
        element(
            "text",
            number_text(tick, digits=3),
            x=time.position(tick),
            y=y + 15,
            text_anchor="middle",
        )
        for tick in ticks
    ]
    lines = [
        element("line", x1=x, x2=x, y1=y, y2=y + 4, class_="grid")
        for x in map(time.position, ticks)
    ]
    middle = (time.start + time.end) / 2
    return [*lines, *marks, element("text", unit, x=middle, y=y + 29, text_anchor="middle")]


def draw_sound(record: AlignmentRecord | DocumentRecord, *, path: Path) -> None:
    """Draw a recording with the attention over it to `path`, an .svg or .png file."""
    assert record.sound is not None
    if isinstance(record, AlignmentRecord):
        panel, chart = alignment_panel(record), alignment_chart(record, record.sound)
        heading = record.title
    else:
        panel, chart = hop_panel(record), hops_chart(record, record.sound)
        heading = f"{record.title} → {record.label}"
    ramp = weight_ramp(panel.weights, limit=largest(panel.weights))
    width = LEFT + PLOT_WIDTH
    title = text_block(truncate(printable(heading), MAX_NAME), max_width=width, title=True)
    write_figure(title, text_block(f"weights of {panel.name}"), ramp, chart, path=path)
