"""Masks in every shape they may have: patterns that broadcast, windows narrow and wide."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.conformance.case import KEYS, QUERIES, Case
from regard.conformance.inputs import Inputs, forward, weights
from regard.conformance.verdict import close, same, zero
from regard.core.masks import Allowed, Mask, Window

# Long enough for two blocks of 64 and a rest; radii on both sides of such a block, and of the length.
WINDOWED = 150
RADII = (0, 1, 20, 63, 64, 65, WINDOWED - 1, WINDOWED, 1000)


def allowed_in_every_shape(case: Case) -> None:
    """A pattern of any shape that broadcasts gives what the same pattern spelled out gives."""
    case.need_mask("allowed")
    inputs = case.draw()
    full = (inputs.query.shape[0], case.num_heads, QUERIES, KEYS)
    for bits in range(2 ** len(full)):
        # Each of the four dimensions is there in full, or is one.
        shape = tuple(size if bits >> place & 1 else 1 for place, size in enumerate(full))
        _as_spelled_out(case, inputs, _pattern(case, shape), full)
    for shape in ((QUERIES, KEYS), (1, KEYS), (QUERIES, 1)):
        _as_spelled_out(case, inputs, _pattern(case, shape), full)


def window_radii(case: Case) -> None:
    """`Window(r)` is the band of pairs at most r apart, whatever r is."""
    case.need_mask("window")
    case = case.sized(max_length=WINDOWED)
    length = WINDOWED if case.fits(WINDOWED) else KEYS
    inputs = case.draw_tokens(length, batch_size=1)
    apart = (torch.arange(length)[:, None] - torch.arange(length)).abs()
    for radius in RADII:
        mask, band = Window(radius) & case.open_mask, apart <= radius
        shown = weights(case.mechanism, inputs, mask)
        output = forward(case.mechanism, inputs, mask)
        zero(shown.masked_fill(band, 0.0), f"weights of pairs more than {radius} apart")
        close(output, shown @ inputs.value, f"forward against weights @ value under {mask}")
        spelled_out = Allowed(band) & case.open_mask
        if case.takes(spelled_out):
            what = f"forward under {mask} against the same band as a boolean mask"
            close(output, forward(case.mechanism, inputs, spelled_out), what)
        if not case.promised.position_aware:
            _only_the_band(case, inputs, mask, output)


def _pattern(case: Case, shape: tuple[int, ...]) -> Tensor:
    return torch.rand(shape, generator=case.generator) < 0.6


def _as_spelled_out(
    case: Case, inputs: Inputs, pattern: Tensor, full: tuple[int, int, int, int]
) -> None:
    short = Allowed(pattern) & case.open_mask
    whole = Allowed(pattern.expand(full).contiguous()) & case.open_mask
    what = f"under a pattern of shape {tuple(pattern.shape)} against the same spelled out"
    got, expected = (forward(case.mechanism, inputs, mask) for mask in (short, whole))
    same(got, expected, f"forward {what}")
    got, expected = (weights(case.mechanism, inputs, mask) for mask in (short, whole))
    same(got, expected, f"weights {what}")


def _only_the_band(case: Case, inputs: Inputs, mask: Mask, output: Tensor) -> None:
    """The first, a middle and the last query against a call that has only the keys they may see."""
    length = inputs.key_length
    allowed = mask.boolean(length, length)
    assert allowed is not None
    for place in (0, length // 2, length - 1):
        kept = allowed[0, 0, place].nonzero()[:, 0]
        alone = inputs.keys(kept).queries(slice(place, place + 1))
        expected = forward(case.mechanism, alone, case.open_mask)
        what = f"query {place} under {mask} against only the keys it may see"
        close(output[:, :, place : place + 1], expected, what)
