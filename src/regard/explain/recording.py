"""Explaining the class of a recording: the attention of every hop or head over its time.

run = regard.load("runs/digits")
explain_recording(run, "seven.wav")
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from regard.core.errors import RegardError
from regard.core.protocols import text_attention
from regard.core.records.document import DocumentRecord
from regard.runs.load import MAX_PARTS, TrainedRun, added_parts
from regard.tasks.task import device_of


def explain_recording(
    run: TrainedRun, source: Any, *, name: str = "", reference: str | None = None
) -> DocumentRecord:
    """The weights of equal parts of the time of a recording, or of an array of frames, and its class."""
    model: Any = run.model
    title = name or str(source)
    picture = run.preprocessor.picture(source, name=title)
    encoded = run.preprocessor.encode_inputs([source]).collate_inputs(np.arange(1))
    encoded = encoded.to(device_of(model))
    with torch.inference_mode():
        attention = text_attention(model, encoded)
        logits = model.classify(encoded).logits
    if attention is None or picture is None:
        raise RegardError(
            f"The model '{run.spec.model}' of the run '{run.folder.path}' has no attention over its input. "
            "Use a model with attention, such as structured or text_encoder."
        )
    hops = added_parts(attention.tokens, MAX_PARTS)[0].tolist()
    labels = run.preprocessor.target.labels
    probabilities = logits[0].float().softmax(dim=-1).tolist()
    return DocumentRecord(
        tokens=picture.column_names(len(hops[0])),
        segments=(0,) * len(hops[0]),
        hops=tuple(map(tuple, hops)),
        sentence_weights=None,
        label=labels[int(logits[0].argmax())],
        probabilities=dict(zip(labels, probabilities, strict=True)),
        title=title,
        reference=reference,
        sound=picture,
    )
