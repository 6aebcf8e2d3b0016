"""Training speed of image classifiers: ours against the same network of PyTorch's modules alone.

Images are noise of 28×28 pixels; the time does not depend on what they show. A step is forward, backward
and update; both systems take the same batch, loss, dropout probability and optimizer, and alternate. A run
is `regard.training.train` on an `image_classification` task, with its batches, schedule, clipping, logs and
checkpoints, without evaluations, against a `DataLoader` of tensors and the same step; its time is that of
the processor, which other programs on the machine change less.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.measurement import Call, Measurement, median_seconds
from regard.core.batches import ImageInput, ImageSpec
from regard.models import ConvNet, VisionTransformer
from regard.runs import RunSpec
from regard.runs.build import build_spec_model, build_task, flops_counter
from regard.training import train

SOURCE, CLASSES, ROWS = ImageSpec(channels=1, height=28, width=28), 4, 64
PATCH_SIZE, NUM_PATCHES = 4, 49
MODEL_DIM, NUM_HEADS, NUM_LAYERS, DROPOUT = 64, 4, 4, 0.1
MIN_SPEED = 0.95
# Ratios of medians of a few steps each; the median of those is reported.
ROUNDS, STEPS = 9, 15
NUM_IMAGES, RUN_STEPS = 4096, {"convnet": 320, "vision_transformer": 32}


class PlainVisionTransformer(nn.Module):
    """A ViT on `nn.TransformerEncoder`."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, MODEL_DIM, PATCH_SIZE, stride=PATCH_SIZE)
        self.norm = nn.LayerNorm(MODEL_DIM)
        self.class_token = nn.Parameter(torch.zeros(MODEL_DIM))
        self.position = nn.Parameter(0.02 * torch.randn(NUM_PATCHES, MODEL_DIM))
        self.dropout = nn.Dropout(DROPOUT)
        layer = nn.TransformerEncoderLayer(
            MODEL_DIM,
            NUM_HEADS,
            4 * MODEL_DIM,
            DROPOUT,
            activation="gelu",
            batch_first=True,
            norm_first=True,
        )
        self.encoder = nn.TransformerEncoder(
            layer, NUM_LAYERS, nn.LayerNorm(MODEL_DIM), enable_nested_tensor=False
        )
        self.head = nn.Linear(MODEL_DIM, CLASSES)

    def forward(self, pixels: Tensor) -> Tensor:
        x = self.norm(self.patches(pixels).flatten(2).transpose(1, 2)) + self.position
        x = torch.cat([self.class_token.expand(len(x), 1, -1), x], dim=1)
        hidden: Tensor = self.encoder(self.dropout(x))[:, 0]
        logits: Tensor = self.head(self.dropout(hidden))
        return logits


def plain_convnet(*, downsampling: str) -> nn.Module:
    """The ConvNet as a list of PyTorch's modules."""
    is_pooled = downsampling == "pool"
    stride = 1 if is_pooled else 2
    pool = [nn.MaxPool2d(2)] if is_pooled else []
    return nn.Sequential(
        *(nn.Conv2d(1, 8, 3, stride=stride, padding=1), nn.ReLU(), *pool),
        *(nn.Conv2d(8, 16, 3, stride=stride), nn.ReLU(), *pool, nn.Flatten()),
        *(nn.Linear(576, 320), nn.ReLU(), nn.Dropout(0.7)),
        *(nn.Linear(320, 120), nn.ReLU(), nn.Linear(120, CLASSES)),
    )


def images() -> Iterator[Measurement]:
    """ConvNet, pooled and strided, and vision Transformer."""
    sizes: dict[str, Any] = {"source": SOURCE, "outputs": CLASSES}
    for downsampling in ("pool", "stride"):
        yield _speed(
            f"ConvNet, downsampling={downsampling}",
            ConvNet(**sizes, downsampling=downsampling),
            plain_convnet(downsampling=downsampling),
        )
    own = VisionTransformer(
        **sizes,
        model_dim=MODEL_DIM,
        num_heads=NUM_HEADS,
        num_layers=NUM_LAYERS,
        dropout=DROPOUT,
        attention_dropout=DROPOUT,
        stem={"patch_size": PATCH_SIZE},
    )
    yield _speed("ViT / nn.TransformerEncoder", own, PlainVisionTransformer())
    yield _run_speed("ConvNet", {"name": "convnet"}, lambda: plain_convnet(downsampling="pool"))
    vision_transformer = {
        "name": "vision_transformer",
        "model_dim": MODEL_DIM,
        "num_heads": NUM_HEADS,
        "num_layers": NUM_LAYERS,
        "dropout": DROPOUT,
        "attention_dropout": DROPOUT,
        "stem": {"patch_size": PATCH_SIZE},
    }
    yield _run_speed("ViT / nn.TransformerEncoder", vision_transformer, PlainVisionTransformer)


def _speed(label: str, own: nn.Module, plain: nn.Module) -> Measurement:
    pixels, labels = torch.randn(ROWS, 1, 28, 28), torch.randint(CLASSES, (ROWS,))
    sizes = {sum(each.numel() for each in model.parameters()) for model in (own, plain)}
    assert len(sizes) == 1, sizes
    calls = [
        _step(own, lambda: own(ImageInput(pixels)), labels),
        _step(plain, lambda: plain(pixels), labels),
    ]
    rounds = [median_seconds(calls, repeats=STEPS) for _ in range(ROUNDS)]
    ours, theirs = (statistics.median(times) * 1e3 for times in zip(*rounds, strict=True))
    return Measurement(
        f"training step, images/s: {label}, ours / plain",
        statistics.median(other / one for one, other in rounds),
        MIN_SPEED,
        larger_is_better=True,
        detail=f"{ours:.1f} ms, plain {theirs:.1f} ms, {ROWS} images",
    )


def _run_speed(label: str, options: dict[str, Any], plain: Callable[[], nn.Module]) -> Measurement:
    steps = RUN_STEPS[options["name"]]
    with tempfile.TemporaryDirectory() as name:
        file = Path(name, "noise.npz")
        generator = np.random.default_rng(0)
        pixels = generator.integers(0, 256, (NUM_IMAGES, 28, 28), dtype=np.uint8)
        labels = np.arange(NUM_IMAGES) % CLASSES
        np.savez(file, images=pixels, labels=labels)
        spec = RunSpec.from_sections(
            {
                "task": {"name": "image_classification", "train_file": str(file)},
                "model": options,
                "training": {"steps": steps, "evaluate_every": steps},
            }
        )
        task = build_task(spec)
        inputs = torch.from_numpy(pixels).unsqueeze(1) / 255

        def ours(number: int) -> float:
            model = build_spec_model(spec, task.dataset.preprocessor)
            flops = flops_counter(model, task)
            flops(task.epoch(0)[0])  # once in a run
            folder = Path(name, f"run-{number}")
            folder.mkdir()
            began = time.process_time()
            outcome = train(
                model=model, task=task, options=spec.training, folder=folder, seed=0, flops=flops
            )
            return time.process_time() - began - outcome.evaluation_seconds

        def theirs() -> float:
            loader = DataLoader(
                TensorDataset(inputs, torch.from_numpy(labels)), batch_size=ROWS, shuffle=True
            )
            model, done = plain().train(), 0
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
            began = time.process_time()
            while done < steps:
                for batch, wanted in loader:
                    optimizer.zero_grad()
                    F.cross_entropy(model(batch), wanted).backward()
                    optimizer.step()
                    done += 1
                    if done == steps:
                        break
            return time.process_time() - began

        rounds = [(ours(number), theirs()) for number in range(ROUNDS + 1)][1:]  # one warm-up
    own, other = (statistics.median(times) * 1e3 / steps for times in zip(*rounds, strict=True))
    return Measurement(
        f"training run, images/s: {label}, ours / plain loop",
        statistics.median(plain_time / own_time for own_time, plain_time in rounds),
        MIN_SPEED,
        larger_is_better=True,
        detail=f"{own:.1f} ms a step, plain {other:.1f} ms, {ROWS} images",
    )


def _step(model: nn.Module, logits: Callable[[], Tensor], labels: Tensor) -> Call:
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(logits(), labels).backward()
        optimizer.step()

    return step
