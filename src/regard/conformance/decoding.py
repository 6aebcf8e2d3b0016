"""One token at a time gives what the causal `forward` gives, however the tokens are cut up."""

from __future__ import annotations

from typing import Any

import torch

from regard.conformance.case import KEYS, KV_HEADS, LONG, Case
from regard.conformance.inputs import Inputs, extend, forward, start, step
from regard.conformance.verdict import NotApplicable, close
from regard.core.masks import Causal, Padding
from regard.core.mechanism import ScoreBias

PIECES = (1, 3, 2, 5)


def decoding_equals_forward(case: Case) -> None:
    """Token by token, and in uneven pieces, `step` gives the rows of the causal `forward`."""
    case.need_mask("causal")
    for kv_heads in (case.num_heads, KV_HEADS):
        _decode(case, case.draw_tokens(KEYS, num_kv_heads=kv_heads), pieces=(1,) * KEYS)
        _decode(case, case.draw_tokens(KEYS, num_kv_heads=kv_heads), pieces=PIECES)
    if case.fits(LONG):
        _decode(case, case.draw_tokens(LONG, batch_size=1), pieces=(LONG,))


def decoding_with_bias(case: Case) -> None:
    """The same with a score bias, which must know at which position the decoding stands."""
    case.need_mask("causal")
    if not case.promised.score_bias:
        raise NotApplicable("it takes no score bias")
    _decode(case, case.draw_tokens(KEYS), pieces=(1,) * KEYS, bias=case.bias())
    _decode(case, case.draw_tokens(KEYS), pieces=PIECES, bias=case.bias())


def extending_in_pieces(case: Case) -> None:
    """After taking keys in by pieces, a read is the last row of a `forward` over all of them."""
    inputs = case.draw_tokens(KEYS)
    state = start(case.mechanism, inputs)
    for piece in _cut(PIECES):
        state = extend(case.mechanism, state, inputs.keys(piece))
    last = inputs.queries(slice(KEYS - 1, None))
    expected = forward(case.mechanism, last, case.open_mask)
    got = case.mechanism.read(state, last.query)
    close(got, expected, f"a read after pieces of {PIECES} against the last row of forward")


def reading_padded_keys(case: Case) -> None:
    """Keys taken in once with `Padding`, then read by many queries, as cross-attention does."""
    case.need_mask("padding")
    inputs = case.draw()
    lengths = torch.tensor([KEYS, 4, 0])
    state = extend(case.mechanism, start(case.mechanism, inputs), inputs, Padding(lengths))
    got = case.mechanism.read(state, inputs.query)
    for row, length in enumerate(lengths.tolist()):
        own = inputs.rows(slice(row, row + 1)).keys(slice(0, length))
        for place in range(inputs.query_length):
            # Each query of a read stands at the last position, as the only query of a call does.
            alone = own.queries(slice(place, place + 1))
            expected = forward(case.mechanism, alone, case.open_mask)
            what = f"query {place} read from the {length} real keys of row {row}"
            close(got[row, :, place], expected[0, :, 0], what)
    if case.takes(Padding(lengths)) and not case.promised.position_aware:
        expected = forward(case.mechanism, inputs, Padding(lengths))
        close(got, expected, "a read of padded keys against forward with the same padding")


def decoding_after_padding(case: Case) -> None:
    """Prompts of different lengths are taken in together, then each continues where it ended."""
    case.need_mask("causal")
    _continue_ragged(case)


def decoding_after_padding_with_bias(case: Case) -> None:
    """The same with a score bias, taken at each row's own positions and not at its slots."""
    case.need_mask("causal")
    if not case.promised.score_bias:
        raise NotApplicable("it takes no score bias")
    _continue_ragged(case, bias=case.bias())


def _continue_ragged(case: Case, *, bias: ScoreBias | None = None) -> None:
    prompt, rest = case.draw_tokens(KEYS), case.draw_tokens(4)
    lengths = case.lengths(prompt)
    state = extend(case.mechanism, start(case.mechanism, prompt), prompt, Padding(lengths))
    got, _ = step(case.mechanism, state, rest, bias)
    for row, length in enumerate(lengths.tolist()):
        own, more = prompt.rows(slice(row, row + 1)), rest.rows(slice(row, row + 1))
        joined = more.with_tensors(
            {
                name: torch.cat([own.tensors()[name][:, :, :length], tensor], dim=2)
                for name, tensor in more.tensors().items()
            }
        )
        expected = forward(case.mechanism, joined, Causal(), bias)[:, :, length:]
        what = f"row {row} decoded after a prompt of {length} tokens against forward over both"
        close(got[row], expected[0], what)


def _decode(
    case: Case, inputs: Inputs, *, pieces: tuple[int, ...], bias: ScoreBias | None = None
) -> None:
    expected = forward(case.mechanism, inputs, Causal(), bias)
    state: Any = start(case.mechanism, inputs)
    for piece in _cut(pieces):
        output, state = step(case.mechanism, state, inputs.tokens(piece), bias)
        what = f"positions {piece.start} to {piece.stop - 1} decoded against the causal forward"
        close(output, expected[:, :, piece], what)


def _cut(pieces: tuple[int, ...]) -> list[slice]:
    ends = torch.tensor(pieces).cumsum(0).tolist()
    return [slice(end - size, end) for end, size in zip(ends, pieces, strict=True)]
