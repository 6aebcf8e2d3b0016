"""What tasks whose batches are pairs share: the loss of next tokens, and the sizes of batches."""

from __future__ import annotations

from typing import Any

from torch.nn import functional as F

from regard.core.pair_batch import PairBatch
from regard.core.task import Loss
from regard.data.token_store import TokenStore

PLACES_AT_A_TIME = 8192  # decoding keeps no gradients, so its batches may be larger


def next_token_loss(model: Any, batch: PairBatch, *, label_smoothing: float) -> Loss:
    """Cross-entropy summed over the predicted tokens; padded places are not even projected.

    Labels are smoothed while training only.
    """
    hidden = model.hidden(batch.source, batch.source_lengths, batch.given)
    predicted = batch.predicted
    total = F.cross_entropy(
        model.logits(hidden[predicted]),
        batch.wanted[predicted],
        label_smoothing=label_smoothing if model.training else 0.0,
        reduction="sum",
    )
    return Loss(total, batch.num_predictions)


def pair_sizes(batch: PairBatch) -> dict[str, int]:
    """The sizes of a batch, by the words of the `cost` of a model that reads pairs."""
    return {
        "batch_size": batch.source.shape[0],
        "source_length": batch.source.shape[1],
        "target_length": batch.given.shape[1],
    }


def beside(model: Any, batch: PairBatch) -> PairBatch:
    """The batch where the model is."""
    device = next(iter(model.parameters())).device
    return PairBatch(*(tensor.to(device) for tensor in batch))


def places_at_a_time(store: TokenStore) -> int:
    """A batch size that takes the longest item too."""
    if not len(store):
        return PLACES_AT_A_TIME
    return max(PLACES_AT_A_TIME, int((store.source_lengths + store.target_lengths).max()) + 3)
