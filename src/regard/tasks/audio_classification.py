"""Classification of sequences of real-valued vectors, such as spectrogram frames of speech.

    13 cepstral coefficients × 18 frames   →  7

The embedded data are spoken digits; a file is a .npz of labelled arrays (`data/readers/arrays.py`). Every
feature is standardised with the mean and deviation of the training split.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from regard.core.options import PositiveInt, Probability
from regard.data.item_preprocessor import ItemPreprocessor
from regard.data.preprocessor import Standardizer
from regard.data.readers.arrays import spoken_digits
from regard.tasks.classification.task import Classification, LabelNames
from regard.tasks.task import TaskOptions


class AudioOptions(TaskOptions):
    """As `TaskOptions`; `train_file` is a .npz file, by default the embedded spoken digits.

    Args:
        max_length: Maximum number of frames; longer sequences are truncated.
        label_smoothing: Probability mass spread over all labels.
        label_names: Names of the labels 0, 1, 2, … of a file.
    """

    max_length: PositiveInt = 400
    batch_tokens: PositiveInt = 2048
    label_smoothing: Probability = 0.0
    label_names: LabelNames = ()
    validation_fraction: Probability = 0.1
    test_fraction: Probability = 0.1


class FramePreprocessor(ItemPreprocessor):
    """Frames, standardised by feature, with labels."""

    unit = "sequences"

    @classmethod
    def fit_inputs(cls, options: Any, inputs: Iterator[Any]) -> Standardizer:
        """Mean and deviation of every feature."""
        del options
        return Standardizer.fit(inputs)


class AudioClassification(Classification):
    """Classification of sequences of frames."""

    options_class = AudioOptions
    preprocessor_class = FramePreprocessor
    input_kind = "frames"
    linear_baseline = "mean and deviation + logistic regression"
    datasets = {"spoken-digits": lambda _: spoken_digits()}  # noqa: RUF012
