"""Explaining the class of a recording or an image: the attention over its time or its patches.

run = regard.load("runs/digits")
explain_recording(run, "seven.wav")
explain_image(run, "seven.png")        also the feature maps of a ConvNet
"""

from __future__ import annotations

import base64
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from regard.core.errors import RegardError
from regard.core.protocols import TextAttention, text_attention
from regard.core.records.document import DocumentRecord
from regard.core.records.image import ClassifiedImage, FeatureMaps
from regard.core.records.sound import SoundRecord
from regard.runs.load import MAX_PARTS, TrainedRun, added_parts
from regard.tasks.task import device_of

MAX_MAPS, MAX_MAP_SIDE = 32, 64


class _Classified(NamedTuple):
    """What the model gives for one input."""

    input: Any
    attention: TextAttention | None
    label: str
    probabilities: dict[str, float]


def _classified(run: TrainedRun, source: Any) -> _Classified:
    model: Any = run.model
    encoded = run.preprocessor.encode_inputs([source]).collate_inputs(np.arange(1))
    encoded = encoded.to(device_of(model))
    with torch.inference_mode():
        attention = text_attention(model, encoded)
        logits = model.classify(encoded).logits[0].float()
    labels = run.preprocessor.target.labels
    probabilities = dict(zip(labels, logits.softmax(dim=-1).tolist(), strict=True))
    return _Classified(encoded, attention, labels[int(logits.argmax())], probabilities)


def no_attention(run: TrainedRun) -> RegardError:
    """The error of a model without attention over its input."""
    return RegardError(
        f"The model '{run.spec.model}' of the run '{run.folder.path}' has no attention over its input. "
        "Use a model with attention, such as structured or text_encoder."
    )


def explain_recording(
    run: TrainedRun, source: Any, *, name: str = "", reference: str | None = None
) -> DocumentRecord:
    """The weights of equal parts of the time of a recording, or of an array of frames, and its class."""
    title = name or str(source)
    picture, found = run.preprocessor.picture(source, name=title), _classified(run, source)
    if found.attention is None or not isinstance(picture, SoundRecord):
        raise no_attention(run)
    hops = added_parts(found.attention.tokens, MAX_PARTS)[0].tolist()
    return DocumentRecord(
        tokens=picture.column_names(len(hops[0])),
        segments=(0,) * len(hops[0]),
        hops=tuple(map(tuple, hops)),
        sentence_weights=None,
        label=found.label,
        probabilities=found.probabilities,
        title=title,
        reference=reference,
        sound=picture,
    )


def explain_image(
    run: TrainedRun, source: Any, *, name: str = "", reference: str | None = None
) -> ClassifiedImage:
    """The weights of the patches of an image file or an array, its class, and its feature maps.

    A model without attention has no weights, one without convolutions no feature maps.
    """
    picture: Any = run.preprocessor.picture(source, name=name or str(source))
    found = _classified(run, source)
    maps = [] if found.attention is None else found.attention.maps()[0].tolist()
    feature_maps = getattr(run.model, "feature_maps", None)
    with torch.inference_mode():
        features = None if feature_maps is None else small_maps(feature_maps(found.input)[0])
    return ClassifiedImage(
        label=found.label,
        probabilities=found.probabilities,
        reference=reference,
        attention=tuple(tuple(map(tuple, each)) for each in maps),
        feature_maps=features,
        image=picture,
    )


def small_maps(maps: Float[Tensor, "channels rows columns"]) -> FeatureMaps:
    """The first maps as bytes on one scale, which has 0; large ones are averaged."""
    kept = maps[:MAX_MAPS].float()
    rows, columns = (min(side, MAX_MAP_SIDE) for side in kept.shape[1:])
    kept = torch.nn.functional.adaptive_avg_pool2d(kept, (rows, columns))
    low, high = min(0.0, float(kept.min())), max(0.0, float(kept.max()))
    levels = (255 * (kept - low) / (high - low or 1.0)).round().to(torch.uint8).cpu().numpy()
    return FeatureMaps(
        levels=base64.b64encode(levels.tobytes()).decode("ascii"),
        count=levels.shape[0],
        height=levels.shape[1],
        width=levels.shape[2],
        low=low,
        high=high,
    )
