"""Regression: predict a number from a text, trained on any file of texts with numbers.

    tomato  →  3          the number of syllables, the embedded data

The loss is the squared error of the standardised number. RMSE and MAE are in the units of the data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch.nn import functional as F

from regard.core.batches import Batch
from regard.core.protocols import Decode, Loss
from regard.core.traits import TargetKind
from regard.data.datasets.cmudict import word_syllables
from regard.data.item_preprocessor import ItemPreprocessor
from regard.data.preprocessor import Standardizer
from regard.data.readers.text_reader import Target
from regard.data.splits import EvalSplit
from regard.tasks.classification.task import TextOptions, class_logits, linear_predictions
from regard.tasks.metrics import MAE, RMSE, Loss as LossMetric, PearsonR
from regard.tasks.sequence import Tokenizer
from regard.tasks.task import Baselines, EvalResult, Task


class RegressionOptions(TextOptions):
    """As `TextOptions`; without `train_file`, English words with their numbers of syllables."""

    tokens: Tokenizer = "characters"
    lowercase: bool = False


class NumberPreprocessor(ItemPreprocessor):
    """Texts with numbers, which are standardised."""

    target_class = Standardizer


class StandardizedLoss(LossMetric):
    """The mean squared error of standardised numbers, which has no unit."""

    unit, note = "", "the mean squared error of standardised numbers"


class Regression(Task):
    """A number per text; the default metric is the root mean squared error."""

    options_class = RegressionOptions
    preprocessor_class = NumberPreprocessor
    target_kind: ClassVar[TargetKind] = "value"
    metrics = (RMSE(), MAE(), PearsonR(), StandardizedLoss())
    file_target: ClassVar[Target] = "number"
    datasets: ClassVar[Mapping[str, Any]] = {"word-syllables": lambda _: word_syllables()}

    def loss(self, model: Any, batch: Batch) -> Loss:
        """Squared error of the standardised numbers, plus the model's penalty."""
        output = model.classify(batch.input)
        total = F.mse_loss(output.logits[:, 0], batch.target.values, reduction="sum")
        return Loss(total + output.penalty.sum(), batch.num_predictions)

    def evaluate_on(self, model: Any, split: EvalSplit) -> EvalResult:
        """Loss, metrics and predicted numbers on a split."""
        preprocessor = self.dataset.preprocessor
        examples = preprocessor.encode_split(split)
        values = class_logits(model, examples)[:, 0]
        loss = F.mse_loss(values, torch.from_numpy(examples.targets)).item()
        predictions = preprocessor.target.decode(values.numpy()).tolist()
        scores = self.scores(predictions, split.references, self.options)
        return EvalResult({**scores, "loss": loss}, predictions)

    @classmethod
    def predict(
        cls, model: Any, inputs: Sequence[Any], preprocessor: Any, decode: Decode
    ) -> list[float]:
        """The predicted number of each text; long texts are truncated."""
        del decode
        with torch.inference_mode():
            values = class_logits(model, preprocessor.encode_inputs(inputs))[:, 0]
        found: list[float] = preprocessor.target.decode(values.numpy()).tolist()
        return found

    def baselines(self, split: EvalSplit) -> Baselines:
        """The mean of the training split, and a linear model."""
        found: Baselines = {}
        preprocessor, train = self.dataset.preprocessor, self.dataset.train
        mean = preprocessor.target.mean[0]
        self.baseline(found, "mean", split, lambda: [mean] * len(split))

        def ridge() -> list[float]:
            test = preprocessor.encode_inputs(split.inputs)
            values = linear_predictions(train, test, is_classifier=False)
            numbers: list[float] = preprocessor.target.decode(values).tolist()
            return numbers

        self.baseline(found, "TF-IDF + ridge regression", split, ridge)
        return found
