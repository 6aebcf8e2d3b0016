"""A Transformer of fixed size that recognises PARITY at every length, with hand-set parameters.

    START x₁ … x_m, n = m + 1 positions;  position i has features i/n and (−1)^i besides its symbol
    layer 1   uniform attention: k/n, the fraction of ones, and 1/n, added at every position
              feed-forward: hit_i = [i = k]/n = relu(k−i−1)/n − 2·relu(k−i)/n + relu(k−i+1)/n
    layer 2   a head that prefers even positions minus a head that prefers odd positions, with values hit
              → positive exactly if k, the number of ones, is even

(Chiang and Cholak 2022, section 3.1), built from the `MultiHead` and `FeedForward` layers of all models.
Its output falls as 1/n²: the hit is 1/n, and its attention weight is another 1/n. A layer norm of the
scores with ε = 0 restores them to ±1.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.core.masks import Padding
from regard.layers.feed_forward import FeedForward
from regard.layers.multi_head import MultiHead
from regard.layers.projections import SelfProjection

# Feature indices.
ONE, START, POSITION, SIGN, FRACTION, UNIT, HIT, OUTPUT = range(8)
MODEL_DIM = 8
LENGTHS_PER_BATCH = 8


class ParityTransformer(nn.Module):
    """Maps padded rows of bits to the scores of "even" and "odd".

    preference       score of the preferred (even or odd) positions in layer 2
    norm_epsilon     epsilon of a layer norm of the two scores; None for no norm
    """

    def __init__(self, *, preference: float = 2.0, norm_epsilon: float | None = None) -> None:
        super().__init__()
        self.norm_epsilon = norm_epsilon
        self.count_attention = _attention(values=(ONE, START), to=((FRACTION, 1.0), (UNIT, 1.0)))
        self.hit_feed_forward = FeedForward(model_dim=MODEL_DIM, hidden_dim=3)
        self.parity_attention = _attention(values=(HIT, HIT), to=((OUTPUT, 1.0), (OUTPUT, -1.0)))
        with torch.no_grad():
            for parameter in self.hit_feed_forward.parameters():
                parameter.zero_()
            for row, (units, slope) in enumerate(((-1.0, 1.0), (0.0, -2.0), (1.0, 1.0))):
                self.hit_feed_forward.widen.weight[row, [FRACTION, POSITION, UNIT]] = torch.tensor(
                    [1.0, -1.0, units]
                )
                self.hit_feed_forward.narrow.weight[HIT, row] = slope
            linear = _projection(self.parity_attention)
            linear.bias[:2] = torch.tensor([preference, -preference])  # queries of the two heads
            linear.weight[2:4, SIGN] = 1.0  # keys of all positions
        self.double()

    def forward(
        self, bits: Int[Tensor, "batch longest"], lengths: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch 2"]:
        x = token_features(bits, lengths)
        # In layer 1 all queries are zero, so one context serves every position.
        x = x + self._start_context(self.count_attention, x, lengths).expand_as(x)
        x = x + self.hit_feed_forward(x)
        output = self._start_context(self.parity_attention, x, lengths)[:, 0, OUTPUT]
        scores = torch.stack([output, -output], dim=-1)
        if self.norm_epsilon is None:
            return scores
        return nn.functional.layer_norm(scores, (2,), eps=self.norm_epsilon)

    def _start_context(self, layer: MultiHead, x: Tensor, lengths: Tensor) -> Tensor:
        """Output of the layer at the START position, the only one that is needed."""
        state = layer.extend(layer.start(len(x)), x, Padding(lengths + 1))
        return layer.read(state, x[:, :1])


def token_features(
    bits: Int[Tensor, "batch longest"], lengths: Int[Tensor, " batch"]
) -> Float[Tensor, "batch positions 8"]:
    """Features of START and the bits; padding is masked."""
    batch, longest = bits.shape
    features = torch.zeros(batch, longest + 1, MODEL_DIM, dtype=torch.float64)
    index = torch.arange(longest + 1, dtype=torch.float64)
    features[:, 1:, ONE] = bits.double()
    features[:, 0, START] = 1.0
    features[:, :, POSITION] = index / (lengths[:, None] + 1)
    features[:, :, SIGN] = 1.0 - 2.0 * (index % 2)
    return features


def probe_strings(length: int, *, seed: int) -> Int[Tensor, "strings length"]:
    """Edge cases and four random strings.

    Edge cases: no ones, all ones, a single one at either end, ones at every other position.
    """
    hard = torch.zeros(5, length, dtype=torch.int64)
    hard[1] = 1
    hard[2, 0] = hard[3, -1] = 1
    hard[4, ::2] = 1
    generator = torch.Generator().manual_seed(seed)
    return torch.cat([hard, torch.randint(0, 2, (4, length), generator=generator)])


class LengthResult(NamedTuple):
    """Result at one length; `margin` is the smallest difference of the two scores."""

    length: int
    strings: int
    wrong: int
    margin: float


@cache
def evaluate_lengths(
    lengths: Sequence[int], *, preference: float = 2.0, norm_epsilon: float | None = None
) -> tuple[LengthResult, ...]:
    """Evaluate the Transformer on the probe strings of each length."""
    model = ParityTransformer(preference=preference, norm_epsilon=norm_epsilon)
    results: list[LengthResult] = []
    for first in range(0, len(lengths), LENGTHS_PER_BATCH):
        batch = lengths[first : first + LENGTHS_PER_BATCH]
        rows = [row for length in batch for row in probe_strings(length, seed=length)]
        bits = nn.utils.rnn.pad_sequence(rows, batch_first=True)
        with torch.inference_mode():
            scores = model(bits, torch.tensor([len(row) for row in rows]))
        wrong = (scores.argmax(dim=-1) != bits.sum(dim=-1) % 2).view(len(batch), -1)
        margins = (scores[:, 0] - scores[:, 1]).abs().view(len(batch), -1).amin(dim=-1)
        for length, errors, margin in zip(batch, wrong, margins, strict=True):
            results.append(LengthResult(length, len(errors), int(errors.sum()), float(margin)))
    return tuple(results)


def _attention(
    *, values: tuple[int, int], to: tuple[tuple[int, float], tuple[int, float]]
) -> MultiHead:
    """Two heads of size 1: each reads one feature and writes it, times a factor, to another."""
    layer = MultiHead(model_dim=MODEL_DIM, num_heads=2, head_dim=1, value_dim=1, mechanism="dot")
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
        for head, (value, (target, factor)) in enumerate(zip(values, to, strict=True)):
            _projection(layer).weight[4 + head, value] = 1.0
            layer.output.weight[target, head] = factor
    return layer


def _projection(layer: MultiHead) -> nn.Linear:
    """The projection to queries, keys and values: two rows each."""
    assert isinstance(layer.projection, SelfProjection)
    return layer.projection.linear
