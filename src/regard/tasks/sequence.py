"""Sequence-to-sequence tasks: teacher forcing, label smoothing, and decoding for evaluation.

The loss is the cross-entropy of the next target token, or the model's own (CTC). `decode` is an argument,
since a task knows no model. Subclasses add data and metrics.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Self

import torch
from pydantic import model_validator
from torch.nn import functional as F

from regard.core.batches import Batch
from regard.core.errors import RegardError
from regard.core.options import NonNegativeFloat, PositiveInt, Probability
from regard.core.protocols import Decode, Loss, is_autoregressive
from regard.core.traits import TargetKind
from regard.data.batching import evaluation_batches
from regard.data.examples import Ragged
from regard.data.preprocessor import PairPreprocessor, Preprocessor
from regard.data.splits import EvalSplit
from regard.tasks.task import Baselines, EvalResult, FileOptions, Task, device_of

Tokenizer = Literal["characters", "words", "word_punct", "subwords", "wordpiece"]


class SequenceOptions(FileOptions):
    """Options of every sequence-to-sequence task. A file is FILE, or SOURCE,TARGET for parallel files.

    Args:
        source_tokens, target_tokens: Tokenizer: characters, words or subwords.
        shared_vocabulary: Use one vocabulary for source and target.
        vocabulary_size: Size of a subword vocabulary.
        lowercase: Which side to lower-case: no, source or both.
        max_length: Maximum number of tokens of a text; longer rows are malformed.
        label_smoothing: Probability mass spread over all tokens (Szegedy et al. 2016); not of CTC.
        beam_size: Beam width in decoding; 1 is greedy.
        length_penalty: Hypotheses are ranked by log-probability / length**length_penalty; not of CTC.
    """

    source_tokens: Tokenizer = "subwords"
    target_tokens: Tokenizer = "subwords"
    shared_vocabulary: bool = False
    vocabulary_size: PositiveInt = 8000
    lowercase: Literal["no", "source", "both"] = "no"
    max_length: PositiveInt = 256
    label_smoothing: Probability = 0.1
    beam_size: PositiveInt = 4
    length_penalty: NonNegativeFloat = 1.0

    @model_validator(mode="after")
    def _validate_shared_vocabulary(self) -> Self:
        if self.shared_vocabulary and self.lowercase == "source":
            raise RegardError(
                "task.lowercase='source' is incompatible with task.shared_vocabulary, which is one for "
                "both sides. Set lowercase to 'both' or 'no'."
            )
        if self.shared_vocabulary and self.source_tokens != self.target_tokens:
            raise RegardError(
                f"task.shared_vocabulary needs one tokenizer, but source_tokens is "
                f"'{self.source_tokens}' and target_tokens is '{self.target_tokens}'. "
                "Set both to the same, or shared_vocabulary to false."
            )
        return self


def sequence_loss(model: Any, batch: Batch, *, label_smoothing: float) -> Loss:
    """Cross-entropy summed over the target tokens; padding is not projected to the vocabulary.

    Label smoothing applies in training mode only, and so does the CTC loss of a model with a `ctc_weight`
    (`core.protocols.JointModel`). A model that predicts all tokens at once has a loss of its own, without
    label smoothing.
    """
    if not is_autoregressive(model):
        own: Loss = model.sequence_loss(batch)
        return own
    target = batch.target
    weight = getattr(model, "ctc_weight", 0.0) if model.training else 0.0
    joint = model.joint_features(batch) if weight else None
    hidden = joint.hidden if joint else model.hidden(batch.input, target.decoder_input)
    total = F.cross_entropy(
        model.logits(target.predicted(hidden)),
        target.labels,
        label_smoothing=label_smoothing if model.training else 0.0,
        reduction="sum",
    )
    if joint:
        total = (1 - weight) * total + weight * joint.ctc_loss
        total = total + model.alignment_weight * joint.alignment_loss
    return Loss(total, target.num_predictions)


class SequenceTask(Task):
    """A task with source and target sequences."""

    options_class: ClassVar[type[Any]] = SequenceOptions
    preprocessor_class: ClassVar[type[Preprocessor]] = PairPreprocessor
    target_kind: ClassVar[TargetKind] = "sequence"

    @classmethod
    def decode_kwargs(cls, options: Any) -> dict[str, Any]:
        """Keyword arguments of `decode` for the final predictions."""
        return {"beam_size": options.beam_size, "length_penalty": options.length_penalty}

    @classmethod
    def predict(
        cls, model: Any, inputs: Sequence[Any], preprocessor: Any, decode: Decode
    ) -> list[str]:
        """The decoded output for each input, in order."""
        examples = preprocessor.encode_inputs(inputs)
        outputs = [""] * len(inputs)
        batches = evaluation_batches(examples)
        with torch.inference_mode():
            for index in range(len(batches)):
                rows = batches.indices(index)
                source = examples.collate_inputs(rows).to(device_of(model))
                for row, hypothesis in zip(rows, decode(model, source), strict=True):
                    outputs[row] = preprocessor.target.decode(hypothesis.tokens)
        return outputs

    def loss(self, model: Any, batch: Batch) -> Loss:
        """The cross-entropy of the target tokens, or the loss of a model that has its own."""
        return sequence_loss(model, batch, label_smoothing=self.options.label_smoothing)

    def evaluate_on(self, model: Any, split: EvalSplit) -> EvalResult:
        """Loss, metrics and decoded predictions on a split."""
        total, count = 0.0, 0
        for batch in self.eval_batches(split):
            loss = self.loss(model, batch.to(device_of(model)))
            total, count = total + loss.total.item(), count + loss.num_predictions
        predictions = self.predict(model, split.inputs, self.dataset.preprocessor, self.decode)
        scores = self.scores(predictions, split.references, self.options)
        return EvalResult({"loss": total / count, **scores}, predictions)

    def majority_baseline(self, split: EvalSplit) -> Baselines:
        """The scores of the most frequent training target."""
        found: Baselines = {}
        targets = self.dataset.train.targets
        assert isinstance(targets, Ragged)
        rows = (tuple(targets[row].tolist()) for row in range(len(targets)))
        answer = self.dataset.preprocessor.target.decode(Counter(rows).most_common(1)[0][0])
        name = f"majority baseline {answer!r}"
        self.baseline(found, name, split, lambda: [answer] * len(split))
        return found
