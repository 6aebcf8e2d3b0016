"""One small language model, three times: ours, one written as minGPT is, and Hugging Face's GPT-2.

All have the same width, depth, heads, vocabulary, learned positions and rate of dropout, which each has in
the places that are its own: ours on hidden features and outputs, the others on attention weights and
outputs. What a model is given is its step of training: forward, loss, backward, clipping, AdamW.
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
from regard.core.batches import END, START, PairBatch
from regard.data.batching import pair_batch
from regard.models.decoder_only import DecoderOnly
from regard.models.generation.search import decode
from regard.tasks.language_model.corpus import LmOptions
from regard.tasks.language_model.task import LanguageModelling
from regard.training.options import TrainingOptions
from regard.training.step import Stepper

WIDTH, LAYERS, HEADS = 256, 4, 4
LENGTH = 128
CHARACTERS = string.ascii_letters + ".,;:!?'-"

Step = Callable[[PairBatch], None]


def made_up_task(*, rows: int) -> LanguageModelling:
    """Language modelling on drawn characters, enough for so many rows of LENGTH predictions."""
    draw = random.Random(0)
    line = LENGTH * 10
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "characters.txt"
        lines = ("".join(draw.choices(CHARACTERS, k=line)) for _ in range(rows // 8 + 8))
        text.write_text("\n".join(lines), encoding="utf-8")
        # Each piece is given with START before it, and its END is predicted.
        options = LmOptions(
            text=str(text),
            stream=True,
            tokens="characters",
            max_length=LENGTH - 1,
            validation_share=0.05,
        )
        return LanguageModelling.from_options(options, seed=0, decode=decode)


def first_batch(task: LanguageModelling, *, rows: int) -> PairBatch:
    """So many rows, all of LENGTH predictions."""
    return pair_batch(task.corpus.train, np.arange(rows))


def our_step(task: LanguageModelling, *, dropout: float) -> Step:
    """As a run does it: the task's loss, and the loop's own step."""
    vocabulary = task.corpus.vocabularies.target.size
    model = DecoderOnly(
        source_vocabulary=vocabulary,
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

    def step(batch: PairBatch) -> None:
        stepper.step([batch], number=1, factor=1.0)

    return step


def written_out_step(task: LanguageModelling, *, dropout: float) -> Step:
    """The rival written as minGPT is."""
    vocabulary = task.corpus.vocabularies.target.size
    return _step(WrittenOut(vocabulary=vocabulary, dropout=dropout))


def hugging_face_step(task: LanguageModelling, *, dropout: float) -> Step:
    """GPT-2 with its attention as it comes."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=task.corpus.vocabularies.target.size,
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

    def logits(given: Tensor) -> Tensor:
        found: Tensor = model(input_ids=given).logits
        return found

    return _step(model, logits)


def _step(model: Any, logits: Callable[[Tensor], Tensor] | None = None) -> Step:
    model.train()
    optimizer = optimizer_of(model)
    logits = logits or model

    def step(batch: PairBatch) -> None:
        found = logits(batch.given)
        loss = F.cross_entropy(found.flatten(0, 1), batch.wanted.flatten())
        update(model, loss, optimizer)

    return step


class WrittenOut(nn.Module):
    """A GPT whose attention is masked scores, softmax and dropout, one operation after the other."""

    def __init__(self, *, vocabulary: int, dropout: float) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, WIDTH)
        self.positions = nn.Parameter(torch.zeros(1, LENGTH, WIDTH))
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.Sequential(*(WrittenOutBlock(dropout=dropout) for _ in range(LAYERS)))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, vocabulary, bias=False)

    def forward(self, given: Tensor) -> Tensor:
        """The logits of the token after each place."""
        x = self.dropout(self.tokens(given) + self.positions[:, : given.shape[1]])
        logits: Tensor = self.head(self.norm(self.blocks(x)))
        return logits


class WrittenOutBlock(nn.Module):
    """Attention, then feed-forward, each after a norm and with a way round it."""

    seen: Tensor

    def __init__(self, *, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.projection = nn.Linear(WIDTH, 3 * WIDTH)
        self.output = nn.Linear(WIDTH, WIDTH)
        self.weight_dropout = nn.Dropout(dropout)
        self.output_dropout = nn.Dropout(dropout)
        self.register_buffer("seen", torch.ones(LENGTH, LENGTH).tril()[None, None])
        self.feed_forward = nn.Sequential(
            nn.LayerNorm(WIDTH),
            nn.Linear(WIDTH, 4 * WIDTH),
            nn.GELU(),
            nn.Linear(4 * WIDTH, WIDTH),
            nn.Dropout(dropout),
        )

    def forward(self, x: Tensor) -> Tensor:
        """As long and as wide as x."""
        x = x + self.output_dropout(self.output(self._attended(self.norm(x))))
        fed: Tensor = x + self.feed_forward(x)
        return fed

    def _attended(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        query, key, value = (
            part.view(batch, length, HEADS, WIDTH // HEADS).transpose(1, 2)
            for part in self.projection(x).split(WIDTH, dim=2)
        )
        scores = (query @ key.transpose(-2, -1)) * (1.0 / math.sqrt(key.shape[-1]))
        scores = scores.masked_fill(self.seen[:, :, :length, :length] == 0, float("-inf"))
        context = self.weight_dropout(F.softmax(scores, dim=-1)) @ value
        return context.transpose(1, 2).contiguous().view(batch, length, WIDTH)
