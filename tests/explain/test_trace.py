"""Traces of all models with attention: names, weights, gradients, leaves; modules of a user's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.core.batches import FrameInput, FrameSpec, ImageInput, ImageSpec, TokenInput
from regard.core.errors import RegardError
from regard.core.masks import Causal
from regard.explain.interventions import ZeroHead
from regard.explain.trace import trace_attention
from regard.layers.blocks import EncoderBlock
from regard.layers.feed_forward import FeedForward
from regard.layers.multi_head import MultiHead
from regard.models import build_model
from regard.models.generation.search import decode

TOKENS = TokenInput(torch.tensor([[5, 6, 7, 8, 2], [5, 6, 2, 0, 0]]), torch.tensor([5, 3]))
TARGET = torch.tensor([[1, 5, 6, 7], [1, 5, 6, 0]])
FRAMES = FrameInput(torch.rand(2, 9, 6, dtype=torch.float64), torch.tensor([9, 6]))
IMAGES = ImageInput(torch.rand(2, 1, 8, 8, dtype=torch.float64))
SMALL: dict[str, Any] = {"model_dim": 8, "num_heads": 2, "num_layers": 2, "feed_forward_dim": 8}
PAIRS: dict[str, Any] = {"source": 20, "target_vocabulary": 20}
RECURRENT: dict[str, Any] = {**PAIRS, "name": "recurrent", "embedding_dim": 6, "hidden_dim": 8}
CLASSES: dict[str, Any] = {"source": 20, "outputs": 3, "model_dim": 8}
PATCHES: dict[str, Any] = {"source": ImageSpec(1, 8, 8), "outputs": 3, **SMALL}
ENCODER, DECODER, CROSS = (
    ("encoder/0", "encoder/1"),
    ("decoder/0", "decoder/1"),
    ("cross/0", "cross/1"),
)

# Options of a model, the names of its layers and of its streams.
MODELS: dict[str, tuple[dict[str, Any], set[str], set[str]]] = {
    "transformer": (
        {"name": "transformer", **PAIRS, **SMALL},
        {*ENCODER, *DECODER, *CROSS},
        {"input", "output"},
    ),
    "decoder-only": ({"name": "decoder_only", **PAIRS, **SMALL}, {*DECODER}, {"input"}),
    "bahdanau": (RECURRENT, {"cross/0"}, {"input", "output"}),
    "luong": ({**RECURRENT, "attention_style": "luong"}, {"cross/0"}, {"input", "output"}),
    "input-feeding": (
        {**RECURRENT, "attention_style": "luong", "input_feeding": True},
        {"cross/0"},
        {"input", "output"},
    ),
    "location": ({**RECURRENT, "mechanism": "location"}, {"cross/0"}, {"input", "output"}),
    "no-attention": ({**RECURRENT, "mechanism": "none"}, set(), {"input", "output"}),
    "hybrid": (
        {"name": "transformer_recurrent", **PAIRS, **SMALL},
        {*ENCODER, "cross/0"},
        {"input", "output"},
    ),
    "ctc": (
        {"name": "ctc", "source": FrameSpec(6), "target_vocabulary": 20, **SMALL},
        {*ENCODER},
        {"input"},
    ),
    "text-encoder": ({"name": "text_encoder", **CLASSES, **SMALL}, {*ENCODER}, {"input"}),
    "structured": ({"name": "structured", **CLASSES}, {"pooling/0"}, {"input"}),
    "hierarchical": ({"name": "hierarchical", **CLASSES}, {"sentence_pooling"}, {"input"}),
    "bilstm": ({"name": "bilstm", **CLASSES}, set(), {"input"}),
    "vision-transformer": (
        {"name": "vision_transformer", **PATCHES, "pooling": "attention"},
        {*ENCODER, "pooling/0"},
        {"input"},
    ),
    "convnet": ({"name": "convnet", "source": ImageSpec(1, 8, 8), "outputs": 3}, set(), set()),
}


def build(name: str) -> tuple[nn.Module, Callable[[], Tensor]]:
    """A model in float64, and a forward pass."""
    torch.manual_seed(0)
    options, _, _ = MODELS[name]
    model: Any = build_model(options["name"], **{k: v for k, v in options.items() if k != "name"})
    model = model.double().eval()
    inputs = {FrameSpec: FRAMES, ImageSpec: IMAGES, int: TOKENS}[type(options["source"])]
    if hasattr(model, "classify"):
        return model, lambda: model.classify(inputs).logits
    return model, (lambda: model(inputs).exp()) if name == "ctc" else (
        lambda: model(inputs, TARGET)
    )


@pytest.mark.parametrize("hold", [False, True], ids=["", "hold"])
@pytest.mark.parametrize("name", MODELS)
def test_traces_of_models(name: str, hold: bool) -> None:
    model, forward = build(name)
    expected = forward()
    with trace_attention(model, hold=hold) as trace:
        output = forward()
    torch.testing.assert_close(output, expected, atol=1e-12, rtol=0)
    _, layers, streams = MODELS[name]
    assert set(trace.calls) == layers
    assert set(trace.embedded) == (streams if hold else set())
    trace.backward(output.tanh())
    for call in trace:
        torch.testing.assert_close(call.weights() @ call.value, call.output, atol=1e-12, rtol=0)
        assert call.gradient.abs().sum() > 0
    assert all(parameter.grad is None for parameter in model.parameters())
    # The hooks are gone.
    torch.testing.assert_close(forward(), expected, atol=0, rtol=0)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    assert not any(
        {"forward", "hidden", "classify", "embed"} & vars(each).keys() - each._modules.keys()
        for each in model.modules()
    )


def test_weights_are_those_of_the_model() -> None:
    for name in ("transformer", "bahdanau", "luong", "input-feeding", "hybrid", "location"):
        model, forward = build(name)
        with trace_attention(model) as trace:
            forward()
        for layer, weights in model.weights(TOKENS, TARGET).items():  # type: ignore[operator]
            torch.testing.assert_close(trace[layer].weights(), weights, atol=1e-12, rtol=0)


def test_gradients_are_those_of_the_outputs() -> None:
    layer = MultiHead(model_dim=8, num_heads=2).double()
    x, towards = torch.randn(1, 3, 8).double(), torch.randn(1, 3, 8).double()
    with trace_attention(layer) as trace:
        trace.backward((layer(x) * towards).sum())
    heads = (towards @ layer.output.weight.detach()).unflatten(2, (2, 4)).transpose(1, 2)
    torch.testing.assert_close(trace["encoder/0"].gradient, heads)
    trace.backward((layer(x) * towards).sum() * 0)  # of another pass: nothing flows here
    assert not trace["encoder/0"].gradient.any()


@pytest.mark.parametrize("name", ["luong", "transformer", "hybrid"])
def test_held_weights_are_constants(name: str) -> None:
    model, forward = build(name)
    with trace_attention(model, hold=True) as trace:
        forward()
    call = trace["cross/0"]
    read = torch.cat(call.outputs, dim=2).sum()
    (memory,) = torch.autograd.grad(read, call.value, retain_graph=True)
    expected = call.weights().sum(dim=2)[..., None].expand_as(memory)
    torch.testing.assert_close(memory, expected)
    with pytest.raises(RuntimeError, match="not have been used"):
        torch.autograd.grad(read, trace.embedded["output"])


class Shared(nn.Module):
    """One attention layer, called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10, 8)
        self.attention = MultiHead(model_dim=8, num_heads=2)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        return self.attention(x + self.attention(x), mask=Causal())


def test_a_layer_that_is_called_twice() -> None:
    model, tokens = Shared(), torch.arange(4)[None]
    with trace_attention(model, hold=True) as trace:
        model(tokens)
        model(tokens[:, :3])
    assert list(trace.calls) == ["encoder/0", "decoder/0"]
    assert trace["encoder/0"].num_keys == 3
    assert trace.embedded["input"].shape == (1, 3, 8)


class Repeated(Shared):
    """The same layer three times, in the same way."""

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        for _ in range(3):
            x = x + self.attention(x)
        return x


def test_calls_of_one_layer_are_numbered_and_changed_apart() -> None:
    model, tokens = Repeated().double(), torch.arange(4)[None]
    with trace_attention(model, interventions=[ZeroHead("encoder/0#2")]) as trace:
        model(tokens)
        model(tokens)
    assert list(trace.calls) == ["encoder/0", "encoder/0#2", "encoder/0#3"]
    assert [bool(call.output.any()) for call in trace] == [True, False, True]


class Two(nn.Module):
    """Two stacks, whose layers have the same numbers, and a layer with a name of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = (
            nn.ModuleList([MultiHead(model_dim=8, num_heads=2)]) for _ in "ab"
        )
        self.compare = MultiHead(model_dim=8, num_heads=1, role="cross")

    def forward(self, x: Tensor) -> Tensor:
        return self.compare(self.first[0](x), self.second[0](x))


def test_names_of_layers_are_unique() -> None:
    model = Two()
    with trace_attention(model) as trace:
        model(torch.randn(1, 3, 8))
    assert list(trace.calls) == ["encoder/0", "second.0", "compare"]


def test_a_mechanism_that_is_called_with_keywords() -> None:
    layer = MultiHead(model_dim=8, num_heads=2)
    block = EncoderBlock(attention=layer, feed_forward=FeedForward(model_dim=8))
    with trace_attention(block, hold=True) as trace:
        block(torch.randn(1, 3, 8), mask=Causal())
    assert list(trace.calls) == ["decoder/0"]
    assert list(trace.embedded) == ["input"]


def test_decoding_without_a_cache_is_traced() -> None:
    for name in ("transformer", "bahdanau"):
        model: Any = build(name)[0]
        with trace_attention(model) as trace:
            (first, _) = decode(model, TOKENS, use_cache=False, max_length=4)
        assert first == decode(model, TOKENS, max_length=4)[0]
        assert trace["cross/0"].num_queries == 4
        assert trace["cross/0"].weights().shape[2] == 4


def test_unknown_layers() -> None:
    model, forward = build("transformer")
    expected = r"Unknown attention layer 'encoder/2'. Did you mean"
    edits = [ZeroHead("encoder/2")]
    with pytest.raises(RegardError, match=expected), trace_attention(model, interventions=edits):
        forward()
    with trace_attention(model) as trace:
        forward()
    with pytest.raises(RegardError, match="Choose from: cross/0, cross/1, decoder/0"):
        trace["cross/7"]
