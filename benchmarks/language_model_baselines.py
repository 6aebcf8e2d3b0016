"""One small language model three times: ours, minGPT style, and Hugging Face's GPT-2.

All have the same width, depth, heads, vocabulary, learned positions and dropout rate; ours has dropout on
hidden features and outputs, the others on attention weights and outputs. Each is wrapped as a training
step: forward, loss, backward, gradient clipping, AdamW.
"""

from __future__ import annotations

import math
import random
import string
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.training import optimizer_of, update
from regard.core.batches import END, START, Batch
from regard.models.decoder_only import DecoderOnly
from regard.models.generation.search import decode
from regard.tasks.language_model import LanguageModelling, LMOptions
from regard.training.options import TrainingOptions
from regard.training.step import Stepper

WIDTH, LAYERS, HEADS = 256, 4, 4
LENGTH = 128
CHARACTERS = string.ascii_letters + ".,;:!?'-"

Step = Callable[[Batch], None]


def dummy_task(*, rows: int) -> LanguageModelling:
    """Language modelling on random characters, with at least `rows` rows of LENGTH predictions."""
    draw = random.Random(0)
    line = LENGTH * 10
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "characters.txt"
        lines = ("".join(draw.choices(CHARACTERS, k=line)) for _ in range(rows // 8 + 8))
        text.write_text("\n".join(lines), encoding="utf-8")
        # Each chunk gets START, and END is predicted.
        options = LMOptions(
            train_file=str(text),
            stream=True,
            tokens="characters",
            max_length=LENGTH - 1,
            validation_fraction=0.05,
        )
        return LanguageModelling.from_options(options, seed=0, decode=decode)


def first_batch(task: LanguageModelling, *, rows: int) -> Batch:
    """A batch of `rows` rows of LENGTH predictions."""
    return task.dataset.train.collate(np.arange(rows))


def our_step(task: LanguageModelling, *, dropout: float) -> Step:
    """The step of a real run: the task's loss and the training loop's step."""
    vocabulary = task.dataset.preprocessor.target.size
    model = DecoderOnly(
        source=vocabulary,
        target_vocabulary=vocabulary,
        model_dim=WIDTH,
        num_heads=HEADS,
        num_layers=LAYERS,
        dropout=dropout,
        feed_forward_dropout=0.0,
        position="learned",
        max_length=LENGTH,
        embedding_scaled=False,
    ).train()
    stepper = Stepper(model=model, task=task, options=TrainingOptions(steps=1))

    def step(batch: Batch) -> None:
        stepper.step([batch], number=1, factor=1.0)

    return step


def mingpt_step(task: LanguageModelling, *, dropout: float) -> Step:
    """The minGPT-style model."""
    vocabulary = task.dataset.preprocessor.target.size
    return _step(MinGPT(vocabulary=vocabulary, dropout=dropout))


def hugging_face_step(task: LanguageModelling, *, dropout: float) -> Step:
    """GPT-2 with its default attention."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=task.dataset.preprocessor.target.size,
        n_positions=LENGTH,
        n_embd=WIDTH,
        n_layer=LAYERS,
        n_head=HEADS,
        resid_pdrop=dropout,
        embd_pdrop=dropout,
        attn_pdrop=dropout,
        use_cache=False,
        bos_token_id=START,
        eos_token_id=END,
    )
    model: Any = GPT2LMHeadModel(config)

    def logits(tokens: Tensor) -> Tensor:
        found: Tensor = model(input_ids=tokens).logits
        return found

    return _step(model, logits)


def _step(model: Any, logits: Callable[[Tensor], Tensor] | None = None) -> Step:
    model.train()
    optimizer = optimizer_of(model)
    logits = logits or model

    def step(batch: Batch) -> None:
        found = logits(batch.target.decoder_input)
        loss = F.cross_entropy(found.flatten(0, 1), batch.target.tokens[:, 1:].flatten())
        update(model, loss, optimizer)

    return step


class MinGPT(nn.Module):
    """A GPT with attention as separate operations: masked scores, softmax, dropout."""

    def __init__(self, *, vocabulary: int, dropout: float) -> None:
        super().__init__()
        self.token_embedding = nn.Embedding(vocabulary, WIDTH)
        self.positions = nn.Parameter(torch.zeros(1, LENGTH, WIDTH))
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.Sequential(*(MinGPTBlock(dropout=dropout) for _ in range(LAYERS)))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, vocabulary, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of the token after each position."""
        x = self.dropout(self.token_embedding(tokens) + self.positions[:, : tokens.shape[1]])
        logits: Tensor = self.head(self.norm(self.blocks(x)))
        return logits


class MinGPTBlock(nn.Module):
    """Pre-norm attention and feed-forward, each with a residual connection."""

    causal_mask: Tensor

    def __init__(self, *, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.projection = nn.Linear(WIDTH, 3 * WIDTH)
        self.output = nn.Linear(WIDTH, WIDTH)
        self.weight_dropout = nn.Dropout(dropout)
        self.output_dropout = nn.Dropout(dropout)
        self.register_buffer("causal_mask", torch.ones(LENGTH, LENGTH).tril()[None, None])
        self.feed_forward = nn.Sequential(
            nn.LayerNorm(WIDTH),
            nn.Linear(WIDTH, 4 * WIDTH),
            nn.GELU(),
            nn.Linear(4 * WIDTH, WIDTH),
            nn.Dropout(dropout),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Same shape as x."""
        x = x + self.output_dropout(self.output(self._attend(self.norm(x))))
        output: Tensor = x + self.feed_forward(x)
        return output

    def _attend(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        query, key, value = (
            part.view(batch, length, HEADS, WIDTH // HEADS).transpose(1, 2)
            for part in self.projection(x).split(WIDTH, dim=2)
        )
        scores = (query @ key.transpose(-2, -1)) * (1.0 / math.sqrt(key.shape[-1]))
        scores = scores.masked_fill(self.causal_mask[:, :, :length, :length] == 0, float("-inf"))
        context = self.weight_dropout(F.softmax(scores, dim=-1)) @ value
        return context.transpose(1, 2).contiguous().view(batch, length, WIDTH)
