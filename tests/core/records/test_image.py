"""Image records: round trips, rows, luminance, and what is refused."""

from __future__ import annotations

import base64
import math

import pytest
from tests.factories.pictures import classified, convnet_run, feature_maps, image_study, picture

from regard.core.errors import RegardError
from regard.core.records.image import ClassifiedImage, FeatureMaps, ImageRecord
from regard.core.records.run import RunRecord
from regard.core.records.study import StudyRecord


def encoded(*values: int) -> str:
    return base64.b64encode(bytes(values)).decode("ascii")


def test_round_trips() -> None:
    for record in (
        classified(is_signed=True),
        classified(attention=(), feature_maps=feature_maps()),
    ):
        assert ClassifiedImage.from_json(record.as_json()) == record
    assert RunRecord.from_json(convnet_run().as_json()).images == convnet_run().images
    study = image_study()
    assert StudyRecord.from_json(study.as_json()).attention_examples == study.attention_examples


def test_rows_and_luminance() -> None:
    image = ImageRecord(
        name="a",
        pixels=encoded(255, 0, 0, 0, 255, 0, 0, 0, 255, 9, 9, 9),
        height=2,
        width=2,
        channels=3,
    )
    assert image.rows() == [bytes([255, 0, 0, 0, 255, 0]), bytes([0, 0, 255, 9, 9, 9])]
    assert image.grey_rows() == [bytes([76, 150]), bytes([29, 9])]
    grey = picture(channels=1)
    assert grey.grey_rows() == grey.rows()


def test_feature_maps_and_mean() -> None:
    assert [len(each) for each in feature_maps().maps()] == [2, 2, 2]
    assert feature_maps().maps()[1] == [bytes([80, 90, 100, 110]), bytes([120, 130, 140, 150])]
    mean = classified(is_signed=True).mean_attention()
    assert mean[0] == pytest.approx((-0.075, 0.1, 0.175))


def test_what_is_refused() -> None:
    with pytest.raises(RegardError, match="5 bytes, but 2 rows of 2 are 4"):
        ImageRecord(name="a", pixels=encoded(*range(5)), height=2, width=2, channels=1)
    with pytest.raises(RegardError, match="2 channels"):
        ImageRecord(name="a", pixels=encoded(*range(8)), height=2, width=2, channels=2)
    with pytest.raises(RegardError, match="not base64"):
        FeatureMaps(levels="%", count=1, height=1, width=1, low=0.0, high=1.0)
    with pytest.raises(RegardError, match="rows of equal length"):
        classified(attention=(((0.1,), (0.1, 0.2)),))
    with pytest.raises(RegardError, match="the weight nan"):
        classified(attention=(((math.nan,),),))
