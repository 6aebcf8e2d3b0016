"""Classification of recordings, or of sequences of real-valued vectors such as their features.

    13 cepstral coefficients × 18 frames   →  7

The embedded data are spoken digits as MFCC frames; a file is a .npz of labelled arrays
(`data/readers/arrays.py`), a folder has WAV files (`data/readers/audio_folder.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from regard.core.errors import RegardError
from regard.core.options import PositiveInt, Probability
from regard.data.examples import Examples, Ragged
from regard.data.item_preprocessor import EncodedInput, ItemPreprocessor
from regard.data.labels import NamedLabels
from regard.data.preprocessor import Encoded, Preprocessor
from regard.data.readers.arrays import ArrayReader, spoken_digits
from regard.data.readers.text_file import Reader
from regard.data.splits import EvalSplit, Split
from regard.tasks.audio import (
    SPECTRAL_OPTIONS,
    AudioOptions,
    AudioPreprocessor,
    AudioTask,
    Normalization,
)
from regard.tasks.classification.task import Classification, ClassWeight, LabelNames


class AudioClassificationOptions(AudioOptions):
    """As `AudioOptions`; `train_file` is a folder of WAV files, or a .npz file.

    By default it is the embedded spoken digits, whose features are computed already.

    Args:
        label_smoothing: Probability mass spread over all labels.
        class_weight: "balanced" weights the loss of a class by the inverse of its frequency in training.
        label_names: Names of the labels 0, 1, 2, … of a file.
    """

    normalize: Normalization = "dataset"
    max_length: PositiveInt = 400
    batch_tokens: PositiveInt = 2048
    label_smoothing: Probability = 0.0
    class_weight: ClassWeight = None
    label_names: LabelNames = ()


class LabelledAudio(AudioPreprocessor, ItemPreprocessor):
    """Recordings with labels."""

    def _encode(self, inputs: Sequence[Any]) -> list[EncodedInput]:
        """Frames before normalisation, of training rows."""
        cut = (self.cut(self.features(each)) for each in inputs)
        return [EncodedInput(frames, None, removed) for frames, removed in cut]

    def examples(self, encoded: Iterable[Encoded]) -> Examples:
        """Training examples at all speeds."""
        return self.audio_examples(encoded)

    def encoded_targets(self, targets: list[Any]) -> Any:
        """Class ids."""
        return np.array(targets, dtype=np.int64)


class AudioClassification(AudioTask, Classification):
    """Classification of sequences of frames."""

    options_class = AudioClassificationOptions
    preprocessor_class: ClassVar[type[Preprocessor]] = LabelledAudio
    linear_baseline = "mean and deviation + logistic regression"
    datasets = {"spoken-digits": lambda _: spoken_digits()}  # noqa: RUF012

    @classmethod
    def reader(cls, options: Any, file: str | None) -> Reader:
        """The embedded digits, a .npz file, or a folder or its test split."""
        name = file or next(iter(cls.datasets))
        if name in cls.datasets:
            found: Reader = cls.datasets[name](options)
        elif Path(name).suffix == ".npz":
            found = ArrayReader(path=Path(name))
        else:
            found = cls.evaluation_reader(options, name)
        return NamedLabels(found, options.label_names) if options.label_names else found

    @classmethod
    def readers(cls, options: Any) -> dict[Split, Reader]:
        """The splits of a folder, or files of their own."""
        file = options.train_file
        if file is None or file in cls.datasets or Path(file).suffix == ".npz":
            cls._validate_features(options)
            return super().readers(options)
        found = cls.audio_readers(options)
        names = options.label_names
        return {split: NamedLabels(each, names) if names else each for split, each in found.items()}

    @classmethod
    def _validate_features(cls, options: Any) -> None:
        """Raise for options of recordings, where the data is features without recordings."""
        names = ("test_speakers", "validation_speakers", *SPECTRAL_OPTIONS)
        given = [name for name in names if getattr(options, name)]
        given += ["speeds"] * (options.speeds != (1.0,))
        given += ["split_by"] * (options.split_by != "recording")
        if given:
            name = options.train_file or next(iter(cls.datasets))
            raise RegardError(
                f"task.{given[0]}={getattr(options, given[0])} needs recordings, but '{name}' has features "
                "only. Leave the option out, or give a folder of WAV files with --train-file."
            )

    def baseline_inputs(self, split: EvalSplit) -> Examples:
        """Frames before normalisation, as those of the training examples."""
        preprocessor = self.dataset.preprocessor
        frames = (preprocessor.cut(preprocessor.features(each))[0] for each in split.inputs)
        return Examples(inputs=Ragged.of(frames))
