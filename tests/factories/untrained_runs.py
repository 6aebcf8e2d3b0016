"""Runs with untrained models, without a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tests.factories.toy_pronunciation import PHONES, tiny_sections

from regard.data.preprocessor import PairPreprocessor
from regard.data.readers.text_file import Row
from regard.runs.build import build_spec_model
from regard.runs.folder import RunFolder
from regard.runs.load import TrainedRun
from regard.runs.spec import RunSpec


def untrained_run(**model: Any) -> TrainedRun:
    """A run on the toy dataset; `model` overrides the options of a tiny recurrent model."""
    sections = tiny_sections(Path("words.dict"))
    sections["model"] = model if "name" in model else {**sections["model"], **model}
    spec = RunSpec.from_sections(sections)
    rows = [Row(word, phones, 1) for word, phones in PHONES.items()]
    preprocessor = PairPreprocessor.fit(spec.task_options, lambda: iter(rows), path=Path())
    torch.manual_seed(0)
    return TrainedRun(
        folder=RunFolder(Path("untrained")),
        spec=spec,
        model=build_spec_model(spec, preprocessor).eval(),
        preprocessor=preprocessor,
    )
