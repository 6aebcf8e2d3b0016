"""Decoding token by token equals the causal forward, for every mechanism, position and grouping."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.core.counter import Counter
from regard.core.masks import Causal, Padding
from regard.core.mechanism import State, state_size
from regard.layers.alibi import Alibi
from regard.layers.cost import SequenceShape
from regard.layers.multi_head import MultiHead
from regard.layers.rotary import Rotary
from regard.mechanisms import MECHANISMS

BATCH, LENGTH, CONTEXT = 2, 7, 5
HEADS, HEAD_DIM, MODEL_DIM = 3, 10, 30
Stir = Callable[[torch.nn.Module], None]
POSITIONS: dict[str, Callable[[], Any]] = {
    "none": lambda: None,
    "rotary": lambda: Rotary(head_dim=HEAD_DIM),
    "alibi": lambda: Alibi(num_heads=HEADS),
}


def build(name: str, stir: Stir, **options: Any) -> MultiHead:
    """A layer with noisy parameters in float64, where agreement means the same formula."""
    layer = MultiHead(
        model_dim=MODEL_DIM, num_heads=HEADS, mechanism=name, max_length=13, value_dim=11, **options
    )
    stir(layer)
    return layer.double()


def tokens(length: int = LENGTH, width: int = MODEL_DIM) -> Tensor:
    return torch.randn(BATCH, length, width, dtype=torch.float64)


def stepped(layer: MultiHead, state: State, x: Tensor) -> tuple[Tensor, State]:
    rows = []
    for token in x.unbind(1):
        output, state = layer.step(state, token[:, None])
        rows.append(output)
    return torch.cat(rows, dim=1), state


def takes(name: str, *, position: str = "none", role: str = "self") -> bool:
    """Whether the mechanism supports it."""
    plain = MultiHead(model_dim=MODEL_DIM, num_heads=HEADS, mechanism=name, max_length=13)
    promised = plain.mechanism.capabilities
    return (
        role in promised.roles
        and "causal" in promised.masks
        and (position != "alibi" or promised.score_bias)
    )


@pytest.mark.parametrize("num_kv_heads", [1, 3])
@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("name", MECHANISMS)
def test_steps_equal_causal_forward(
    name: str, position: str, num_kv_heads: int, stir: Stir
) -> None:
    if not takes(name, position=position):
        return
    layer = build(name, stir, position=POSITIONS[position](), num_kv_heads=num_kv_heads)
    x = tokens()
    expected = layer(x, mask=Causal())
    output, state = stepped(layer, layer.start(BATCH), x)
    torch.testing.assert_close(output, expected)
    assert state.position.tolist() == [LENGTH] * BATCH
    # Several tokens in one step, and after a reordering of the rows, as beam search does.
    first = layer.step(layer.start(BATCH), x[:, :3])
    swap = torch.tensor([1, 0])
    rest = layer.step(first.state.select(swap), x[swap, 3:])
    torch.testing.assert_close(rest.output, expected[swap, 3:])


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("name", MECHANISMS)
def test_decoding_continues_a_padded_prompt(name: str, position: str, stir: Stir) -> None:
    if not takes(name, position=position):
        return
    layer = build(name, stir, position=POSITIONS[position]())
    x, lengths = tokens(), torch.tensor([4, 2])
    prompt = x[:, :4].clone()
    prompt[1, 2:] = 7.0  # padding may hold any value
    state = layer.extend(layer.start(BATCH), prompt, Padding(lengths))
    assert state.position.tolist() == [4, 2]
    more = tokens(length=3)
    output, _ = stepped(layer, state, more)
    for row, length in enumerate(lengths.tolist()):
        whole = torch.cat([x[row : row + 1, :length], more[row : row + 1]], dim=1)
        expected = layer(whole, mask=Causal())[0, length:]
        torch.testing.assert_close(output[row], expected)


@pytest.mark.parametrize("num_kv_heads", [1, 3])
@pytest.mark.parametrize("name", MECHANISMS)
def test_cross_attention_extends_once_then_reads(name: str, num_kv_heads: int, stir: Stir) -> None:
    if not takes(name, role="cross"):
        return
    layer = build(name, stir, role="cross", context_dim=13, num_kv_heads=num_kv_heads)
    x, context, padding = tokens(), tokens(CONTEXT, 13), Padding(torch.tensor([5, 3]))
    expected = layer(x, context, padding)
    state = layer.extend(layer.start(BATCH), context, padding)
    output = torch.cat([layer.read(state, token[:, None]) for token in x.unbind(1)], dim=1)
    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(layer.read(state, x), expected)


def test_read_does_not_project_the_context(stir: Stir) -> None:
    layer = build("scaled_dot", stir, role="cross", context_dim=13)
    state = layer.extend(layer.start(BATCH), tokens(CONTEXT, 13))
    with Counter() as counter:
        layer.read(state, tokens(1))
    projections = 2 * BATCH * MODEL_DIM * (HEADS * HEAD_DIM + HEADS * 11)
    assert counter.matmul_flops == projections + 2 * BATCH * HEADS * CONTEXT * (HEAD_DIM + 11)


@pytest.mark.parametrize("name", MECHANISMS)
def test_the_declared_state_size(name: str, stir: Stir) -> None:
    layer = build(name, stir)
    _, state = stepped(layer, layer.start(BATCH), tokens())
    shape = SequenceShape(batch_size=BATCH, length=LENGTH, causal=True)
    assert isinstance(state, tuple)
    assert layer.cost(shape).state == state_size(state)
