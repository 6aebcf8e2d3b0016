"""A recurrence over chunks of a sequence, trained without storing its states.

`step(state, chunk) -> (output, state)` handles one chunk of every sequence in parallel form. Forward
runs it along the sequence and keeps only the inputs. Backward runs it again to find the state before
each chunk, then walks back, differentiating one chunk at a time: memory is linear in length, and the
intermediate tensors of only one chunk are alive at any moment.

The causal kernel sums have a scan of their own, because their state is a plain sum and needs no replay.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from regard.core.first_order import first_order

Tensors = tuple[Tensor, ...]
ChunkStep = Callable[[Tensors, Tensors], tuple[Tensor, Tensors]]


def chunked_scan(step: ChunkStep, state: Tensors, sequences: Tensors, *, chunk_size: int) -> Tensor:
    """The outputs of all chunks, joined. Sequences and outputs run along dimension 2.

    Gradients flow to the sequences; the first state is a constant.
    """
    output: Tensor = _Scan.apply(step, state, chunk_size, *sequences)  # type: ignore[no-untyped-call]
    return output


def _chunks(sequences: Tensors, chunk_size: int) -> list[Tensors]:
    return list(zip(*(sequence.split(chunk_size, dim=2) for sequence in sequences), strict=True))


class _Scan(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, step: ChunkStep, state: Tensors, chunk_size: int, *sequences: Tensor
    ) -> Tensor:
        ctx.step, ctx.state, ctx.chunk_size = step, state, chunk_size
        ctx.save_for_backward(*sequences)
        outputs = []
        for chunk in _chunks(sequences, chunk_size):
            output, state = step(state, chunk)
            outputs.append(output)
        return torch.cat(outputs, dim=2)

    @staticmethod
    @first_order
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        chunks = _chunks(ctx.saved_tensors, ctx.chunk_size)
        states = [ctx.state]
        for chunk in chunks[:-1]:
            states.append(ctx.step(states[-1], chunk)[1])
        gradients = [torch.zeros_like(sequence) for sequence in ctx.saved_tensors]
        pieces = _chunks(tuple(gradients), ctx.chunk_size)
        state_gradient = tuple(torch.zeros_like(part) for part in ctx.state)
        for index in reversed(range(len(chunks))):
            before = tuple(part.detach().requires_grad_() for part in states.pop())
            chunk = tuple(part.detach().requires_grad_() for part in chunks[index])
            with torch.enable_grad():
                output, after = ctx.step(before, chunk)
            found = torch.autograd.grad(
                (output, *after),
                (*before, *chunk),
                (gradient.split(ctx.chunk_size, dim=2)[index], *state_gradient),
                allow_unused=True,
                materialize_grads=True,
            )
            state_gradient = found[: len(before)]
            for piece, part in zip(pieces[index], found[len(before) :], strict=True):
                piece.copy_(part)
        return (None, None, None, *gradients)
