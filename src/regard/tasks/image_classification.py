"""Classification of images.

    8×8 pixels of a handwritten digit   →  7

The embedded data are handwritten digits; a file is a .npz of labelled images, as MedMNIST has them
(`data/readers/image_arrays.py`), a folder has image files (`data/readers/image_folder.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from jaxtyping import Int64
from pydantic import Field, model_validator

from regard.core.batches import Batch, ImageInput
from regard.core.errors import RegardError
from regard.core.options import NonNegativeInt, PositiveInt, Probability
from regard.core.traits import InputKind
from regard.data.batching import Batches
from regard.data.datasets.digits import digits, mnist5000
from regard.data.folds import Folds
from regard.data.images.augment import ImageAugmentOptions, augment_images
from regard.data.images.preprocessor import ImageExamples, ImagePreprocessor
from regard.data.labels import NamedLabels
from regard.data.preprocessor import Preprocessor
from regard.data.readers.image_arrays import ImageArrayReader
from regard.data.readers.image_folder import ImageFolderReader
from regard.data.readers.text_file import Reader
from regard.data.splits import Split
from regard.tasks.classification.task import Classification, ClassWeight, LabelNames
from regard.tasks.metrics import AUC, Accuracy, BalancedAccuracy, HopOverlap, Loss, MacroF1, Metric
from regard.tasks.metrics.classification import CalibrationError
from regard.tasks.task import TaskOptions

AUGMENT_SEED = 7  # apart from the order of the batches, which has the same seed and epoch
ImageReader = ImageArrayReader | ImageFolderReader
ImageSize = Annotated[tuple[PositiveInt, PositiveInt], Field(strict=False)]


class ImageClassificationOptions(ImageAugmentOptions, TaskOptions):
    """As `TaskOptions`, with those of augmentation.

    `train_file` is a folder of images, a .npz file or an embedded dataset: digits (the default) or
    mnist5000 (docs/images.md).

    Args:
        channels: 1 for grey, 3 for colour. Default: grey, if all training images are.
        image_size: Height and width that all images are resized to, such as [28, 28].
        num_folds: Cross-validation: number of stratified folds, of which `fold` is the test split.
        fold: The fold that is tested, from 0.
        batch_tokens: Number of images in a batch.
        label_smoothing: Probability mass spread over all labels.
        class_weight: "balanced" weights the loss of a class by the inverse of its frequency in training.
        label_names: Names of the labels 0, 1, 2, … of a file.
    """

    SECTION: ClassVar[str] = "task"

    channels: Literal[1, 3] | None = None
    image_size: ImageSize | None = None
    num_folds: Annotated[int, Field(ge=2)] | None = None
    fold: NonNegativeInt = 0
    batch_tokens: PositiveInt = 64
    validation_fraction: Probability = 0.1
    test_fraction: Probability = 0.1
    label_smoothing: Probability = 0.0
    class_weight: ClassWeight = None
    label_names: LabelNames = ()

    @model_validator(mode="after")
    def _validate_fold(self) -> Self:
        if self.fold >= (self.num_folds or 1):
            known = (
                f"there are {self.num_folds} folds, from 0" if self.num_folds else "there are none"
            )
            raise RegardError(
                f"task.fold={self.fold}: {known}. Use --set task.num_folds=5 --set task.fold=0 to 4."
            )
        return self


class ImageClassification(Classification):
    """Classification of images."""

    options_class = ImageClassificationOptions
    preprocessor_class: ClassVar[type[Preprocessor]] = ImagePreprocessor
    input_kind: ClassVar[InputKind] = "images"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Accuracy(),
        BalancedAccuracy(),
        AUC(),
        MacroF1(),
        CalibrationError(),
        Loss(),
        HopOverlap(),
    )
    linear_baseline = "pixels + logistic regression"
    datasets: ClassVar[Mapping[str, Any]] = {
        "digits": lambda _: digits(),
        "mnist5000": lambda _: mnist5000(),
    }

    @classmethod
    def image_reader(cls, options: Any, file: str | None) -> ImageReader:
        """The reader of an embedded dataset, a .npz file or a folder, with all of its splits."""
        name = file or next(iter(cls.datasets))
        if name in cls.datasets:
            found: ImageReader = cls.datasets[name](options)
            return found
        path = Path(name)
        return (
            ImageArrayReader(path=path) if path.suffix == ".npz" else ImageFolderReader(path=path)
        )

    @classmethod
    def reader(cls, options: Any, file: str | None, *, split: Split = "test") -> Reader:
        """The reader of data to evaluate on: of its test split, if it has one."""
        found = cls.image_reader(options, file)
        return _named(found.with_split(split) if split in found.splits() else found, options)

    @classmethod
    def readers(cls, options: Any) -> dict[Split, Reader]:
        """The splits of a folder or file, those with files of their own, or folds."""
        whole = cls.image_reader(options, options.train_file)
        known = whole.splits()
        train = whole.with_split("train") if known else whole
        found: dict[Split, Reader] = {"train": _named(train, options)}
        names: tuple[Split, Split] = ("validation", "test")
        for name in names:
            if file := getattr(options, f"{name}_file"):
                found[name] = cls.reader(options, file, split=name)
            elif name in known:
                found[name] = _named(whole.with_split(name), options)
        if options.num_folds is None:
            return found
        if "test" in found:
            raise RegardError(
                f"task.num_folds={options.num_folds}: there is a test split already. Remove the option, or "
                "give data without splits."
            )
        key = partial(cls.preprocessor_class.key, options)
        folds = Folds(found["train"], key, options.num_folds)
        found["train"], found["test"] = folds.split(options.fold)
        return found

    def epoch(self, number: int) -> Batches:
        """The batches of one epoch, each image augmented in its own way."""
        train = self.dataset.train
        if self.options.is_off or not isinstance(train, ImageExamples):
            return super().epoch(number)
        return self.batches(train, epoch=number, collate=partial(self._collate, train, number))

    def _collate(
        self, examples: ImageExamples, epoch: int, rows: Int64[np.ndarray, " rows"]
    ) -> Batch:
        images = augment_images(
            examples.scaled(rows),
            self.options,
            seed=(self.seed, epoch, AUGMENT_SEED),
            rows=rows.tolist(),
        )
        return Batch(ImageInput(examples.standardized(images)), examples.collate_targets(rows))


def _named(reader: Reader, options: Any) -> Reader:
    return NamedLabels(reader, options.label_names) if options.label_names else reader
