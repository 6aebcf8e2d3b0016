"""Protocols between packages: the training loop's task, sequence models of two kinds, classifiers.

The task owns data, loss and metric, so that the training loop depends on no concrete task or model.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from regard.core.batches import Batch, Input
from regard.core.errors import RegardError
from regard.core.mechanism import State, Step


class Loss(NamedTuple):
    """A loss summed over `num_predictions`; reports and gradients use the mean."""

    total: Float[Tensor, ""]
    num_predictions: int


@runtime_checkable
class TrainingTask(Protocol):
    """Batches, loss and evaluation, as the training loop needs them."""

    @property
    def metric(self) -> str:
        """The metric that selects the best checkpoint: a key of what `evaluate` returns."""
        ...

    @property
    def lower_is_better(self) -> bool:
        """Whether a smaller value of the metric is better."""
        ...

    def epoch(self, number: int) -> Sequence[Any]:
        """The batches of one epoch, a function of the task's seed and the epoch number only.

        The length is known in advance; batches are built one at a time.
        """
        ...

    def loss(self, model: Any, batch: Any) -> Loss:
        """The loss of a batch."""
        ...

    def evaluate(self, model: Any) -> dict[str, float]:
        """Metrics on the validation split; the model is in evaluation mode, without gradients."""
        ...


@runtime_checkable
class SequenceModel(Protocol):
    """An `nn.Module` from an input, of the kinds in its traits, to a token sequence.

    logits(hidden(source, decoder_input))       training: all next tokens at once
    start(source); step(state, token)           decoding: one token at a time
    weights(source, decoder_input)              attention weights, recomputed on demand

    `step`, applied to the tokens of `decoder_input` in turn, returns the rows of `logits(hidden(...))`.
    """

    def target_limits(self, source: Any) -> Int[Tensor, " batch"] | None:
        """The maximum number of decoder input tokens per row, START included; None for no limit."""
        ...

    def hidden(
        self, source: Any, decoder_input: Int[Tensor, "batch target_length"]
    ) -> Float[Tensor, "batch target_length model_dim"]:
        """The features that predict the token after each position of `decoder_input`."""
        ...

    def logits(
        self, hidden: Float[Tensor, "*positions model_dim"]
    ) -> Float[Tensor, "*positions target_vocabulary"]:
        """Scores of every token of the target vocabulary."""
        ...

    def start(self, source: Any) -> State:
        """The decoding state after the source, before any target token."""
        ...

    def step(self, state: Any, token: Int[Tensor, " batch"]) -> Step:
        """The logits (batch, target_vocabulary) after one more token, and the new state."""
        ...

    def weights(
        self, source: Any, decoder_input: Int[Tensor, "batch target_length"]
    ) -> dict[str, Float[Tensor, "batch heads queries keys"]]:
        """The weights of every attention layer by name; cross-attention names begin with "cross"."""
        ...

    def parameters(self) -> Iterable[Tensor]:
        """As every `nn.Module`."""
        ...


class JointFeatures(NamedTuple):
    """What a sequence model with an auxiliary CTC loss returns in training.

    hidden          as of `SequenceModel.hidden`
    ctc_loss        −log p(target | source) of the encoder's CTC output, summed over the rows
    alignment_loss  cross-entropy of a cross-attention head against the CTC alignment, summed over tokens
    """

    hidden: Float[Tensor, "batch target_length model_dim"]
    ctc_loss: Float[Tensor, ""]
    alignment_loss: Float[Tensor, ""]


@runtime_checkable
class JointModel(Protocol):
    """A `SequenceModel` trained with (1 − ctc_weight) · cross-entropy + ctc_weight · CTC loss.

    And alignment_weight · alignment loss.
    """

    ctc_weight: float
    alignment_weight: float

    def joint_features(self, batch: Batch) -> JointFeatures:
        """The features of the decoder and the auxiliary losses, of one pass through the encoder."""
        ...


class Hypothesis(NamedTuple):
    """One decoded sequence, without START and END, and its beam-search score."""

    tokens: tuple[int, ...]
    score: float


@runtime_checkable
class NonAutoregressiveModel(Protocol):
    """A sequence model that predicts all tokens at once, such as CTC.

    It has a loss and a decoding of its own, in place of `hidden`, `logits`, `start` and `step`.
    """

    def sequence_loss(self, batch: Batch) -> Loss:
        """The loss of a batch, whose target is a `SequenceTarget`; in place of the cross-entropy."""
        ...

    def decode_sequences(self, source: Any, *, beam_size: int) -> Sequence[Hypothesis]:
        """The best output of every row; greedy with beam_size=1."""
        ...

    def weights(
        self, source: Any, decoder_input: Int[Tensor, "batch target_length"]
    ) -> dict[str, Float[Tensor, "batch heads queries keys"]]:
        """As of a `SequenceModel`; row i of a "cross" may depend on all of `decoder_input`."""
        ...

    def parameters(self) -> Iterable[Tensor]:
        """As every `nn.Module`."""
        ...


def is_autoregressive(model: Any) -> bool:
    """Whether a sequence model predicts one token after another: a `SequenceModel`."""
    return not hasattr(model, "decode_sequences")


@runtime_checkable
class Decode(Protocol):
    """A decoding function with all options bound."""

    def __call__(self, model: Any, source: Input) -> Sequence[Hypothesis]:
        """The best hypothesis of every row."""
        ...


class ClassifierOutput(NamedTuple):
    """Logits (one column for a number), and a penalty per row that training adds to the loss."""

    logits: Float[Tensor, "batch outputs"]
    penalty: Float[Tensor, " batch"]


class TextAttention(NamedTuple):
    """Attention weights over tokens, one row per hop, and over sentences in hierarchical models.

    Token weights sum to one over the text, or over each sentence where `sentences` is present; sentence
    weights sum to one over the text. Padding has weight zero. Of frames and images, tokens are the
    vectors of the stem. The own weight of a class token is left out: the sum is less by that.

    grid   of images, the rows and columns of patches that the tokens are, row by row
    """

    tokens: Float[Tensor, "batch hops length"]
    sentences: Float[Tensor, "batch sentences"] | None = None
    grid: tuple[int, int] | None = None

    def importance(self, segments: Int[Tensor, "batch length"]) -> Float[Tensor, "batch length"]:
        """One weight per token: the mean over hops times the sentence's weight; they sum to one."""
        mean = self.tokens.mean(dim=1)
        if self.sentences is None:
            return mean
        # Padding may carry any segment; its weight is zero.
        sentence = segments.clamp(max=self.sentences.shape[1] - 1)
        return mean * torch.gather(self.sentences, 1, sentence)

    def maps(self) -> Float[Tensor, "batch hops rows columns"]:
        """Of images: the weights as maps over the grid of patches."""
        if self.grid is None:
            raise RegardError(
                "There are no attention maps: the stem has no grid of patches. Use images."
            )
        return self.tokens.unflatten(-1, self.grid)


def text_attention(model: Any, texts: Any) -> TextAttention | None:
    """The model's attention over its input; None for a model without `text_attention`."""
    found = getattr(model, "text_attention", None)
    return None if found is None else found(texts)


def hop_overlap(weights: Float[Tensor, "batch hops length"]) -> Float[Tensor, " batch"]:
    """Mean cosine similarity between hops: 0 if none share a position, 1 if all are equal.

    >>> hop_overlap(torch.tensor([[[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]]))
    tensor([0.])
    """
    hops = weights.shape[1]
    if hops < 2:
        return weights.new_zeros(weights.shape[0])
    unit = F.normalize(weights, dim=-1)
    similarities = unit @ unit.transpose(1, 2)
    own = torch.diagonal(similarities, dim1=1, dim2=2).sum(-1)
    return (similarities.sum(dim=(1, 2)) - own) / (hops * (hops - 1))


@runtime_checkable
class TextClassifier(Protocol):
    """An `nn.Module` from an input, of the kinds in its traits, to class logits, or to a number."""

    def classify(self, input: Any) -> ClassifierOutput:
        """The logits of each row."""
        ...

    def text_attention(self, input: Any) -> TextAttention | None:
        """The attention weights of `classify`; None for a model without attention."""
        ...

    def parameters(self) -> Iterable[Tensor]:
        """As every `nn.Module`."""
        ...
