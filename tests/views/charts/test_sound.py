"""Charts of recordings: images of cells, words, time axis, figure files."""

from __future__ import annotations

import base64
import dataclasses
import re
import struct
import zlib
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from tests.factories.runs import audio_run, heard, sound, speech_run

from regard.core.records.sound import WordRecord
from regard.views import write_run_figures
from regard.views.charts.heatmap import image_cells
from regard.views.charts.sound import alignment_chart, audio_uri, hops_chart, sound_chart
from regard.views.charts.svg import png_uri, size_of

AT: dict[str, Any] = {"x": 0.0, "y": 0.0, "width": 10.0, "height": 10.0}


def pixels(uri: str) -> list[bytes]:
    """The rows of a grey PNG without filters."""
    file = base64.b64decode(uri.removeprefix("data:image/png;base64,"))
    assert file.startswith(b"\x89PNG\r\n\x1a\n")
    chunks, position = {}, 8
    while position < len(file):
        (length,) = struct.unpack_from(">I", file, position)
        name, content = file[position + 4 : position + 8], file[position + 8 :][:length]
        assert struct.unpack_from(">I", file, position + 8 + length)[0] == zlib.crc32(
            name + content
        )
        chunks[name] = content
        position += 12 + length
    width, height = struct.unpack_from(">II", chunks[b"IHDR"])
    data = zlib.decompress(chunks[b"IDAT"])
    rows = [data[row * (width + 1) :][: width + 1] for row in range(height)]
    assert all(row[0] == 0 for row in rows)
    return [row[1:] for row in rows]


def test_png() -> None:
    rows = [bytes([0, 128, 255]), bytes([1, 2, 3])]
    assert pixels(png_uri(rows)) == rows


def images(chart: str) -> list[list[bytes]]:
    """The images of a chart."""
    return [pixels(uri) for uri in re.findall(r'href="([^"]+)"', chart)]


def test_cells_have_the_opacity_of_a_heatmap() -> None:
    chart = image_cells([[0.0, 0.25, 1.0]], limit=1.0, **AT)
    assert images(chart) == [[bytes([0, 128, 255])]]
    assert chart.count('class="cells"') == 1


def test_negative_cells_have_their_own_colour() -> None:
    chart = image_cells([[-1.0, 1.0]], limit=1.0, **AT)
    assert images(chart) == [[bytes([0, 255])], [bytes([255, 0])]]
    assert 'class="negative"' in chart


def test_alignment_is_below_the_spectrogram() -> None:
    record = heard("ann/00000", "three one four")
    assert record.sound is not None
    chart = alignment_chart(record, record.sound)
    spectrogram, weights = images(chart)
    assert spectrogram == record.sound.levels()
    assert [len(row) for row in weights] == [30] * 15
    assert len(set(re.findall(r'mask id="([^"]+)"', chart))) == 2
    assert chart.count("word-border") == 6
    for text in ("three", "␣", "4 kHz", "seconds", "t: largest weight 1.00 at 0.00 s"):
        assert f">{text}<" in chart
    assert "Weights of cross/1, head 2 for the output three one four." in chart


def test_attention_alone_has_the_same_time_axis() -> None:
    record, recording = heard("a", "three"), sound("a")
    whole, alone = (
        alignment_chart(record, recording, with_spectrogram=each) for each in (True, False)
    )
    assert len(images(alone)) == 1
    assert size_of(whole)[0] == size_of(alone)[0] == size_of(sound_chart(recording))[0]
    times = [re.findall(r'data-time="(\S+ \S+)[^"]* (\S+)"', each) for each in (whole, alone)]
    assert times[0] == times[1] != []


def test_hops_after_their_mean() -> None:
    document, silent = audio_run().documents
    assert document.sound is not None
    assert silent.sound is not None
    chart = hops_chart(document, document.sound)
    assert [len(row) for row in images(chart)[1]] == [4] * 3
    assert re.findall(r">(mean|hop \d|weight)<", chart) == ["mean", "hop 1", "hop 2"]
    single = hops_chart(silent, silent.sound)
    assert ">weight<" in single
    assert ">frames<" in single


def test_names_that_do_not_fit_are_left_out() -> None:
    word = WordRecord(word="incomprehensibly", start=0.0, end=0.01)
    chart = sound_chart(dataclasses.replace(sound("a"), words=(word,)))
    assert ">incomprehensibly<" not in chart
    assert "incomprehensibly: 0 to 0.01 s" in chart


def test_audio_is_a_data_uri() -> None:
    recording = sound("a")
    assert recording.audio is not None
    kind, _, content = audio_uri(recording).partition(",")
    assert kind == "data:audio/wav;base64"
    assert base64.b64decode(content) == recording.audio
    assert audio_uri(dataclasses.replace(recording, audio=None)) == ""


def test_figure_files(tmp_path: Path) -> None:
    for record, suffix in ((speech_run(), ".svg"), (audio_run(), ".svg"), (audio_run(), ".png")):
        written = write_run_figures(record, tmp_path, suffix=suffix)
        shown = [path for path in written if path.name.startswith("attention")]
        assert len(shown) == len(record.alignments) + len(record.documents)
        for path in shown:
            if suffix == ".svg":
                ElementTree.fromstring(path.read_text())
                assert "var(--" not in path.read_text()
            else:
                assert path.read_bytes().startswith(b"\x89PNG")
