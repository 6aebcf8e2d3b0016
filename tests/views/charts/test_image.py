"""Charts of images: pixels, weights over them, signs, feature maps, figure files, epochs."""

from __future__ import annotations

import base64
import dataclasses
import io
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
from PIL import Image
from tests.factories.hostile_strings import STRINGS
from tests.factories.pages import PAGES
from tests.factories.pictures import classified, convnet_run, feature_maps, image_run, picture

from regard.views import draw_image, run_page, write_run_figures
from regard.views.charts.image import (
    attention_chart,
    attention_ramp,
    feature_maps_chart,
    image_chart,
    shown_maps,
)
from regard.views.charts.run import learning_curve_charts


def images(chart: str) -> list[np.ndarray]:
    """The images of a chart, decoded by Pillow."""
    uris = re.findall(r'href="data:image/png;base64,([^"]+)"', chart)
    return [np.asarray(Image.open(io.BytesIO(base64.b64decode(uri)))) for uri in uris]


def test_pixels() -> None:
    image = picture()
    (drawn,) = images(image_chart(image))
    assert drawn.shape == (8, 12, 3)
    assert drawn.tobytes() == b"".join(image.rows())


def test_weights_over_the_image() -> None:
    record, image = classified(), picture()
    chart = attention_chart(record, image)
    colour, *panels = images(chart)
    assert colour.shape == (8, 12, 3)
    # The image in grey and the weights, for the mean and both hops.
    assert [panel.shape for panel in panels] == [(8, 12), (2, 3)] * 3
    weights = np.array(record.attention[0])
    assert np.abs(panels[3] - 255 * np.sqrt(weights / 0.5)).max() <= 0.5
    assert re.findall(r">(mean|hop \d|weight)<", chart) == ["mean", "hop 1", "hop 2"]
    assert "hop 1: largest weight 0.5 at row 2, column 3" in chart
    assert ">weight<" in attention_chart(classified(hops=1), image)
    assert len(images(attention_chart(record, image, is_mean=True))) == 2


def test_signed_weights_have_two_colours() -> None:
    record = classified(is_signed=True)
    chart = attention_chart(record, picture())
    assert 'class="negative"' in chart
    negative = images(chart)[-1]
    assert negative[0, 0] == round(255 * (0.2 / 0.6) ** 0.5)
    assert (negative.flatten()[1:] == 0).all()
    assert ">−0.6<" in attention_ramp(list(shown_maps(record).values()))
    assert 'class="negative"' not in attention_chart(classified(), picture())


def test_feature_maps() -> None:
    drawn = images(feature_maps_chart(feature_maps(), picture()))
    assert [each.tolist() for each in drawn] == [
        [list(row) for row in rows] for rows in feature_maps().maps()
    ]


def test_figure_files(tmp_path: Path) -> None:
    for record, suffix in ((image_run(), ".svg"), (convnet_run(), ".svg"), (image_run(), ".png")):
        written = write_run_figures(record, tmp_path, suffix=suffix)
        shown = [path for path in written if path.name.startswith("attention")]
        assert len(shown) == len(record.images)
        for path in shown:
            if suffix == ".svg":
                ElementTree.fromstring(path.read_text())
                assert "var(--" not in path.read_text()
            else:
                assert path.read_bytes().startswith(b"\x89PNG")


def test_figures_are_deterministic_and_names_are_text(tmp_path: Path) -> None:
    for number, name in enumerate(STRINGS.values()):
        record = classified(image=picture(f"a{name}"), label=name, probabilities={name: 1.0})
        paths = [tmp_path / f"{number}-{copy}.svg" for copy in range(2)]
        for path in paths:
            draw_image(record, path=path)
        assert paths[0].read_bytes() == paths[1].read_bytes()
        tags = {each.tag.rpartition("}")[2] for each in ElementTree.parse(paths[0]).iter()}
        assert tags <= {"svg", "style", "rect", "text", "g", "image", "mask", "title"}


def test_pages_show_images() -> None:
    page = run_page(image_run())
    assert "img-src data:" in page
    assert page.count("<image") == 1 + 3 * 3 - 1 + 1 + 2
    assert "7 75 %, 1 20 %, 4 5 %" in page
    assert "Feature maps" not in page
    page = run_page(convnet_run())
    assert page.count("<image") == 1 + 3
    assert 'id="features"' in page
    assert 'id="attention"' not in page
    study = PAGES["study-images"]
    drawn = study.draw(study.record())
    assert drawn.count("<image") == 1 + 2 + 3
    assert "img-src data:" in drawn


def test_learning_curves_name_the_epoch() -> None:
    run = image_run()
    plain = learning_curve_charts(run)["accuracy"]
    assert "epoch" not in plain
    points = tuple(dataclasses.replace(each, epoch=1 + each.step // 500) for each in run.training)
    chart = learning_curve_charts(dataclasses.replace(run, training=points))["accuracy"]
    assert "steps (5 epochs)" in chart
    assert re.search(r"step 600, epoch 2: ", chart)
