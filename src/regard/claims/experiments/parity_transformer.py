"""A Transformer of fixed size that recognises PARITY at every length, its weights set by hand.

    START x₁ … x_m, n = m + 1 places;  each place knows i/n and (−1)^i beside its symbol
    layer 1   uniform attention: k/n, the share of ones, and 1/n        → told to every place
              feed-forward: hit_i = [i = k]/n = relu(k−i−1)/n − 2·relu(k−i)/n + relu(k−i+1)/n
    layer 2   a head that prefers even places minus one that prefers odd ones, reading hit
              → above zero exactly if k, the number of ones, is even

(Chiang and Cholak 2022, section 3.1), of `MultiHead` and `FeedForward` layers as every model here has them.
What it says falls as 1/n²: the hit is a share 1/n, of which another share 1/n is read. A layer norm of the
scores, without its epsilon, brings them back to ±1.
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

# The features of a place, one each.
ONE, START, PLACE, SIGN, SHARE, UNIT, HIT, SAID = range(8)
WIDTH = 8
LENGTHS_AT_A_TIME = 8


class ParityMachine(nn.Module):
    """From rows of bits, padded to one length, to the scores of "even" and of "odd".

    preference       how much the heads of layer 2 prefer one kind of place, as a score
    norm_epsilon     of a layer norm of the two scores; no norm unless given
    """

    def __init__(self, *, preference: float = 2.0, norm_epsilon: float | None = None) -> None:
        super().__init__()
        self.norm_epsilon = norm_epsilon
        self.counting = _attention(values=(ONE, START), to=((SHARE, 1.0), (UNIT, 1.0)))
        self.hitting = FeedForward(model_dim=WIDTH, hidden_dim=3)
        self.comparing = _attention(values=(HIT, HIT), to=((SAID, 1.0), (SAID, -1.0)))
        with torch.no_grad():
            for parameter in self.hitting.parameters():
                parameter.zero_()
            for row, (units, slope) in enumerate(((-1.0, 1.0), (0.0, -2.0), (1.0, 1.0))):
                self.hitting.widen.weight[row, [SHARE, PLACE, UNIT]] = torch.tensor(
                    [1.0, -1.0, units]
                )
                self.hitting.narrow.weight[HIT, row] = slope
            linear = _maps(self.comparing)
            linear.bias[:2] = torch.tensor([preference, -preference])  # what the two heads ask
            linear.weight[2:4, SIGN] = 1.0  # what every place offers
        self.double()

    def forward(
        self, bits: Int[Tensor, "batch longest"], lengths: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch 2"]:
        places = placed(bits, lengths)
        told = self._read_by_start(self.counting, places, lengths)
        # In layer 1 every place asks the same, namely nothing, so one reading serves them all.
        counted = places + told.expand_as(places)
        hit = counted + self.hitting(counted)
        said = self._read_by_start(self.comparing, hit, lengths)[:, 0, SAID]
        scores = torch.stack([said, -said], dim=-1)
        if self.norm_epsilon is None:
            return scores
        return nn.functional.layer_norm(scores, (2,), eps=self.norm_epsilon)

    def _read_by_start(self, layer: MultiHead, x: Tensor, lengths: Tensor) -> Tensor:
        """What the first place reads of all, which is all that is needed of the layer's output."""
        state = layer.extend(layer.start(len(x)), x, Padding(lengths + 1))
        return layer.read(state, x[:, :1])


def placed(
    bits: Int[Tensor, "batch longest"], lengths: Int[Tensor, " batch"]
) -> Float[Tensor, "batch places 8"]:
    """START and the bits, each with its features; what stands behind a row's length is never read."""
    batch, longest = bits.shape
    places = torch.zeros(batch, longest + 1, WIDTH, dtype=torch.float64)
    index = torch.arange(longest + 1, dtype=torch.float64)
    places[:, 1:, ONE] = bits.double()
    places[:, 0, START] = 1.0
    places[:, :, PLACE] = index / (lengths[:, None] + 1)
    places[:, :, SIGN] = 1.0 - 2.0 * (index % 2)
    return places


def probing_strings(length: int, *, seed: int) -> Int[Tensor, "strings length"]:
    """Strings on which a rule would go wrong first, and four random ones.

    None or all ones; a single one at either end; ones at every other place.
    """
    hard = torch.zeros(5, length, dtype=torch.int64)
    hard[1] = 1
    hard[2, 0] = hard[3, -1] = 1
    hard[4, ::2] = 1
    generator = torch.Generator().manual_seed(seed)
    return torch.cat([hard, torch.randint(0, 2, (4, length), generator=generator)])


class AtLength(NamedTuple):
    """How the machine does at one length; `margin` is the least difference of its two scores."""

    length: int
    strings: int
    wrong: int
    margin: float


@cache
def at_lengths(
    lengths: Sequence[int], *, preference: float = 2.0, norm_epsilon: float | None = None
) -> tuple[AtLength, ...]:
    """The machine on the probing strings of each of these lengths."""
    machine = ParityMachine(preference=preference, norm_epsilon=norm_epsilon)
    found: list[AtLength] = []
    for first in range(0, len(lengths), LENGTHS_AT_A_TIME):
        some = lengths[first : first + LENGTHS_AT_A_TIME]
        rows = [row for length in some for row in probing_strings(length, seed=length)]
        bits = nn.utils.rnn.pad_sequence(rows, batch_first=True)
        with torch.inference_mode():
            scores = machine(bits, torch.tensor([len(row) for row in rows]))
        wrong = (scores.argmax(dim=-1) != bits.sum(dim=-1) % 2).view(len(some), -1)
        margins = (scores[:, 0] - scores[:, 1]).abs().view(len(some), -1).amin(dim=-1)
        for length, faults, margin in zip(some, wrong, margins, strict=True):
            found.append(AtLength(length, len(faults), int(faults.sum()), float(margin)))
    return tuple(found)


def _attention(
    *, values: tuple[int, int], to: tuple[tuple[int, float], tuple[int, float]]
) -> MultiHead:
    """Two heads of width 1 that read one feature each; what they read goes, with a factor, to another."""
    layer = MultiHead(model_dim=WIDTH, num_heads=2, head_dim=1, value_dim=1, mechanism="dot")
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
        for head, (value, (target, factor)) in enumerate(zip(values, to, strict=True)):
            _maps(layer).weight[4 + head, value] = 1.0
            layer.output.weight[target, head] = factor
    return layer


def _maps(layer: MultiHead) -> nn.Linear:
    """What makes queries, keys and values: two rows each."""
    assert isinstance(layer.projection, SelfProjection)
    return layer.projection.linear
