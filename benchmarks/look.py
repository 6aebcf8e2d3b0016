"""`regard look` of 2,000 tokens in a model of 12 layers of 12 heads: time, size, time to open the page.

The weights of the model are random, as its speed and the size of its maps do not depend on them. The time
to open is measured in Chromium, until the tiles are drawn; without Playwright or a browser it is skipped.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

import regard
from benchmarks.measurement import Measurement, at_most
from benchmarks.views import MAX_OPENING_SECONDS, opening_seconds
from regard.layers import EncoderBlock, FeedForward, MultiHead

TOKENS, LAYERS, HEADS, MODEL_DIM, VOCABULARY = 2000, 12, 12, 768, 8000
MAX_SECONDS, MAX_MEGABYTES = 60.0, 30.0


def look() -> Iterator[Measurement]:
    """Time to run the model and write the page, its size, and the median time to open it."""
    torch.manual_seed(0)
    blocks = [
        EncoderBlock(
            attention=MultiHead(model_dim=MODEL_DIM, num_heads=HEADS),
            feed_forward=FeedForward(model_dim=MODEL_DIM, hidden_dim=4 * MODEL_DIM),
        )
        for _ in range(LAYERS)
    ]
    model = nn.Sequential(nn.Embedding(VOCABULARY, MODEL_DIM), *blocks, nn.Linear(MODEL_DIM, 2))
    tokens = torch.randint(VOCABULARY, (1, TOKENS))
    names = [f"token {number}" for number in tokens[0].tolist()]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "look.html"
        began = time.perf_counter()
        regard.look(model.eval(), tokens, names=names, method="weights").save(path)
        seconds = time.perf_counter() - began
        what = f"look at {TOKENS:,} tokens × {LAYERS} layers × {HEADS} heads"
        yield at_most(f"{what}, s", seconds, MAX_SECONDS)
        yield at_most(f"{what}, MB", path.stat().st_size / 1e6, MAX_MEGABYTES)
        for name, opening in opening_seconds(path, until=_choose_a_head):
            label = f"opening that page and choosing a head, {name}, s"
            yield at_most(label, opening, MAX_OPENING_SECONDS)


def _choose_a_head(page: Any) -> None:
    page.locator(".tiles button").last.click()
    page.get_by_role("heading", name=f"head {HEADS}").wait_for()
