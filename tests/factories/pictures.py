"""Records of classified images: grey and colour, signed and unsigned weights, feature maps."""

from __future__ import annotations

import base64
import dataclasses
from typing import Any

import numpy as np
from tests.factories.runs import LOSS, dummy_run, metric
from tests.factories.studies import dummy_study

from regard.core.records.image import ClassifiedImage, FeatureMaps, ImageRecord
from regard.core.records.run import RunRecord
from regard.core.records.study import AttentionExample, StudyRecord


def picture(
    name: str = "7.png", *, height: int = 8, width: int = 12, channels: int = 3
) -> ImageRecord:
    """A gradient."""
    values = np.arange(height * width * channels) * 255 // (height * width * channels)
    pixels = base64.b64encode(values.astype(np.uint8).tobytes()).decode("ascii")
    return ImageRecord(name=name, pixels=pixels, height=height, width=width, channels=channels)


def classified(*, hops: int = 2, is_signed: bool = False, **change: Any) -> ClassifiedImage:
    """2×3 patches; the last one has the largest weight."""
    first = ((0.05, 0.1, 0.15), (0.1, 0.1, 0.5))
    second = (
        ((-0.2, 0.1, 0.2), (0.1, 0.2, 0.6)) if is_signed else ((0.1, 0.1, 0.1), (0.1, 0.2, 0.4))
    )
    found = ClassifiedImage(
        label="7",
        probabilities={"7": 0.75, "1": 0.2, "4": 0.05},
        reference="1",
        attention=(first, second)[:hops],
        image=picture(),
    )
    return dataclasses.replace(found, **change)


def feature_maps() -> FeatureMaps:
    """Three maps of 2×4."""
    levels = base64.b64encode(bytes(range(0, 240, 10))).decode("ascii")
    return FeatureMaps(levels=levels, count=3, height=2, width=4, low=-0.5, high=2.0)


def image_run(**change: Any) -> RunRecord:
    """Classification of images by a vision transformer: one with signed weights, one in grey."""
    values: dict[str, Any] = {
        "name": "digits",
        "task": "image_classification",
        "model": "vision_transformer",
        "metrics": (metric("accuracy"), LOSS),
        "finals": {"accuracy": 91.0, "loss": 0.3},
        "images": (
            classified(is_signed=True),
            classified(hops=1, image=picture("grey.png", channels=1), reference=None),
        ),
    }
    return dummy_run(**values | change)


def convnet_run() -> RunRecord:
    """A model without attention."""
    return image_run(
        model="convnet", images=(classified(attention=(), feature_maps=feature_maps()),)
    )


def image_study() -> StudyRecord:
    """Three variants that classify images, of which two have attention."""
    record = dummy_study(names=["scaled_dot", "taylor", "convnet"])
    example = AttentionExample(
        input="7.png",
        alignments={},
        images={
            "scaled_dot": classified(image=None),
            "taylor": classified(image=None, is_signed=True),
        },
        image=picture(),
    )
    return dataclasses.replace(record, task="image_classification", attention_examples=(example,))
