"""Small trainings of the ConvNet on the embedded digits: learning rates by optimizer, overfitting by size.

Training is plain PyTorch: batches of 32 images with replacement, a constant learning rate, no weight decay
but AdamW's. Every seed has its own validation split of 360 images, initial parameters and batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn import functional as F

from regard.claims.engine import count_parameters, num_threads
from regard.core.batches import ImageInput, ImageSpec
from regard.core.errors import RegardError
from regard.data.datasets.digits import digits
from regard.models.classifiers.convnet import ConvNet

RATES = (0.1, 0.01, 0.001)
MOMENTUM = 0.9
OPTIMIZERS: dict[str, Callable[[Iterable[Tensor], float], torch.optim.Optimizer]] = {
    "SGD": lambda parameters, rate: torch.optim.SGD(parameters, lr=rate),
    f"SGD with momentum {MOMENTUM}": lambda parameters, rate: torch.optim.SGD(
        parameters, lr=rate, momentum=MOMENTUM
    ),
    "AdamW": lambda parameters, rate: torch.optim.AdamW(parameters, lr=rate),
}
# Widths of the ConvNet: channels, then the two fully connected layers. Without dropout, which would hide
# overfitting.
SIZES: tuple[dict[str, Any], ...] = tuple(
    {"channels": channels, "hidden_dim": hidden, "feed_forward_dim": last, "dropout": 0.0}
    for channels, hidden, last in ((2, 20, 10), (4, 80, 40), (8, 320, 120), (24, 640, 240))
)
EXAMPLES = (60, 240, 960)
SIDE, LABELS, BATCH_SIZE, NUM_VALIDATION = 8, 10, 32, 360

Accuracies = dict[str, dict[int, float]]
"""Variant → seed → percent."""


class TrainedConvNet(NamedTuple):
    """Number of parameters, and accuracy in percent on the training and the validation split."""

    parameters: int
    training: float
    validation: float

    @property
    def gap(self) -> float:
        """Training accuracy minus validation accuracy."""
        return self.training - self.validation


@cache
def _digits() -> tuple[Float[Tensor, "images 1 8 8"], Int64[Tensor, " images"]]:
    """Standardised pixels, and labels."""
    (found,) = digits().arrays().values()
    pixels = torch.from_numpy(found.images).permute(0, 3, 1, 2).contiguous()
    return (pixels - pixels.mean()) / pixels.std(), torch.from_numpy(found.labels).long()


def train_convnet(
    *,
    seed: int,
    steps: int,
    learning_rate: float = 1e-3,
    optimizer: str = "AdamW",
    examples: int | None = None,
    **options: Any,
) -> TrainedConvNet:
    """Train a ConvNet with these `options` on the first `examples` of the training split."""
    pixels, labels = _digits()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        order = torch.randperm(len(pixels))
        validation, training = order[:NUM_VALIDATION], order[NUM_VALIDATION:][:examples]
        model = ConvNet(source=ImageSpec(1, SIDE, SIDE), outputs=LABELS, **options)
        chosen = OPTIMIZERS[optimizer](model.parameters(), learning_rate)
        # Batches do not depend on the model, nor on its dropout.
        generator = torch.Generator().manual_seed(seed)
        for _ in range(steps):
            rows = training[torch.randint(len(training), (BATCH_SIZE,), generator=generator)]
            chosen.zero_grad()
            F.cross_entropy(model(ImageInput(pixels[rows])), labels[rows]).backward()
            chosen.step()
    model.eval()
    with torch.inference_mode():
        scores = [
            100 * float((model(ImageInput(pixels[rows])).argmax(1) == labels[rows]).float().mean())
            for rows in (training, validation)
        ]
    return TrainedConvNet(count_parameters(model), scores[0], scores[1])


@cache
def accuracies_by_rate(*, seeds: int, steps: int) -> dict[str, Accuracies]:
    """Optimizer → learning rate → seed → validation accuracy."""
    _validate_budget(seeds, steps)
    with num_threads(1):
        return {
            optimizer: {
                f"{rate:g}": {
                    seed: train_convnet(
                        seed=seed, steps=steps, learning_rate=rate, optimizer=optimizer
                    ).validation
                    for seed in range(seeds)
                }
                for rate in RATES
            }
            for optimizer in OPTIMIZERS
        }


@cache
def gaps_by_size(*, seeds: int, steps: int) -> dict[int, Accuracies]:
    """Training examples → parameters → seed → training accuracy minus validation accuracy."""
    _validate_budget(seeds, steps)
    found: dict[int, Accuracies] = {examples: {} for examples in EXAMPLES}
    with num_threads(1):
        for examples, by_size in found.items():
            for options in SIZES:
                for seed in range(seeds):
                    trained = train_convnet(seed=seed, steps=steps, examples=examples, **options)
                    by_size.setdefault(f"{trained.parameters:,}", {})[seed] = trained.gap
    return found


def _validate_budget(seeds: int, steps: int) -> None:
    if seeds < 1 or steps < 1:
        raise RegardError(f"seeds={seeds}, steps={steps}: both must be 1 or more.")
