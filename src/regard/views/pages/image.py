"""Page of a classified image: the attention over it, and the probabilities of the labels."""

from __future__ import annotations

from typing import Any

from regard.core.formatting import percent_text
from regard.core.records.image import ClassifiedImage
from regard.views.charts import image as charts
from regard.views.pages.render import render_page


def image_page(record: ClassifiedImage) -> str:
    """The page as self-contained HTML."""
    return render_page("image.html", record=record, pane=image_pane(record, key=""))


def image_pane(record: ClassifiedImage, *, key: str) -> dict[str, Any]:
    """An image with its attention or feature maps, as `image_parts.html` shows it."""
    image, features = record.image, record.feature_maps
    assert image is not None
    maps = list(charts.shown_maps(record).values()) if record.attention else []
    return {
        "title": image.name,
        "image": image,
        "reference": record.reference,
        "prediction": f"{record.label} ({percent_text(record.probabilities[record.label])})",
        "probabilities": charts.probabilities_text(record),
        "correct": None if record.reference is None else record.label == record.reference,
        "label": charts.hops_text(record) if maps else "",
        "ramp": charts.attention_ramp(maps) if maps else "",
        "chart": charts.attention_chart(record, image, key=key)
        if maps
        else charts.image_chart(image),
        "scale": charts.scale_text(features) if features else "",
        "features": charts.feature_maps_chart(features, image) if features else "",
    }
