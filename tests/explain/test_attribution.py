"""Attributions are complete where the network is linear; importance of inputs by method."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from tests.explain.test_trace import MODELS, TOKENS, build
from torch import Tensor, nn

from regard.core.errors import RegardError
from regard.core.masks import Causal
from regard.explain.attribution import IMPORTANCE_METHODS, attribute, input_importance
from regard.explain.methods import METHODS, rollout
from regard.explain.trace import trace_attention
from regard.layers.blocks import EncoderBlock
from regard.layers.feed_forward import FeedForward
from regard.layers.multi_head import MultiHead
from regard.mechanisms import MECHANISMS
from regard.models import build_model


def _without_feed_forward(model: nn.Module) -> nn.Module:
    """The model with random biases and norms, and feed-forward layers that write a constant."""
    torch.manual_seed(1)
    for name, parameter in model.named_parameters():
        if name.endswith("bias") or "norm" in name:
            nn.init.normal_(parameter, mean=0.5)
    for module in model.modules():
        if isinstance(module, FeedForward):
            nn.init.zeros_(module.narrow.weight)
    return model


@pytest.mark.parametrize("norm_first", [True, False], ids=["pre-norm", "post-norm"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_attention_only_models_are_attributed_completely(mechanism: str, norm_first: bool) -> None:
    torch.manual_seed(0)
    model: Any = build_model(
        "decoder_only",
        source=20,
        target_vocabulary=20,
        model_dim=16,
        num_heads=2,
        num_layers=3,
        mechanism=mechanism,
        norm_first=norm_first,
        position="none" if mechanism == "location" else "rotary",
    )
    model = _without_feed_forward(model.double().eval())
    found = attribute(model, lambda: model(TOKENS, torch.tensor([[1, 5], [1, 7]]))[:, -1, 9])
    assert abs(found.value) > 0.01
    assert found.completeness_error <= 1e-10
    assert found.relative_error == pytest.approx(found.completeness_error / abs(found.value))
    # Padding adds nothing.
    assert found.scores["input"][1, 4:].abs().max() == 0


@pytest.mark.parametrize("name", ["transformer", "vision-transformer", "structured"])
def test_models_with_linear_layers_only_are_attributed_completely(name: str) -> None:
    model, forward = build(name)
    if name == "structured":
        model.recurrent = None  # type: ignore[assignment]
        options = {k: v for k, v in MODELS[name][0].items() if k != "name"}
        model = build_model(name, **options, hidden_dim=0).double().eval()
        forward = lambda: model.classify(TOKENS).logits  # type: ignore[operator] # noqa: E731
    found = attribute(_without_feed_forward(model), lambda: forward()[..., 2])
    assert found.completeness_error <= 1e-10 * max(1, abs(found.value))


def test_relu_networks_are_attributed_completely_and_others_say_how_far() -> None:
    errors = {}
    for activation in ("relu", "gelu"):
        torch.manual_seed(0)
        model: Any = (
            build_model(
                "transformer",
                source=20,
                target_vocabulary=20,
                model_dim=16,
                num_heads=2,
                activation=activation,
            )
            .double()
            .eval()
        )
        found = attribute(model, partial(_logit, model))
        assert set(found.scores) == {"input", "output"}
        errors[activation] = found.completeness_error
    assert errors["relu"] <= 1e-10
    assert errors["gelu"] > 1e-4


def _logit(model: Any) -> Tensor:
    found: Tensor = model(TOKENS, TOKENS.tokens)[0, 0, 5]
    return found


class Own(nn.Module):
    """A user's own module: attention without blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10, 8)
        self.attention = nn.ModuleList(MultiHead(model_dim=8, num_heads=2) for _ in range(2))
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 1)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        for layer in self.attention:
            x = x + layer(x, mask=Causal())
        return self.head(self.norm(x))[:, -1, 0]


def test_modules_of_a_users_own() -> None:
    model = Own().double().eval()
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    found = attribute(model, lambda: model(torch.arange(5)[None]))
    assert found.scores["input"].shape == (1, 5)
    assert found.completeness_error <= 1e-10
    assert not any(parameter.requires_grad for parameter in model.parameters())


def test_errors_of_attribution() -> None:
    block = EncoderBlock(
        attention=MultiHead(model_dim=8, num_heads=2), feed_forward=FeedForward(model_dim=8)
    )
    with pytest.raises(RegardError, match="Linear has neither blocks nor an embedding"):
        attribute(linear := nn.Linear(2, 1), lambda: linear(torch.ones(1, 2)))
    with pytest.raises(RegardError, match="without detach"):
        attribute(block, lambda: block(torch.randn(1, 3, 8)).detach())


@pytest.mark.parametrize("name", MODELS)
def test_importance_of_inputs(name: str) -> None:
    model, forward = build(name)
    length = {"ctc": 9, "vision-transformer": 4}.get(name, 5)
    length = 8 if name == "decoder-only" else length
    found = input_importance(model, lambda: forward().flatten(1)[:, 2], length=length)
    has_layers = bool(MODELS[name][1]) and name != "hierarchical"
    expected = set(IMPORTANCE_METHODS) if has_layers else {"attribution"}
    if name in ("structured", "bahdanau", "luong", "input-feeding", "location"):
        expected.remove("rollout")
    if name == "convnet":
        expected = set()
    assert set(found) == expected
    for method, values in found.items():
        assert values.shape == (2, length), method
        assert values.isfinite().all()
        if name not in ("decoder-only", "vision-transformer", "ctc"):
            assert values[1, 3:].abs().max() == 0, method  # padding
        elif name == "ctc" and method != "rollout":
            assert values[1, 6:].abs().max() == 0


def test_importance_averages_over_the_queries_that_are_read() -> None:
    model, forward = build("text-encoder")  # it classifies the first position
    found = input_importance(model, lambda: forward()[:, 1], length=5)
    with trace_attention(model) as trace:
        trace.backward(forward()[:, 1])
    last = trace["encoder/1"]
    torch.testing.assert_close(found["weights"], last.weights()[:, :, 0].mean(dim=1))
    torch.testing.assert_close(found["rollout"], rollout(trace)["encoder/1"][:, 0, 0])
    both = [METHODS["gradient_attention"].function(call) for call in trace]  # type: ignore[misc]
    torch.testing.assert_close(
        found["gradient_attention"], sum(each.sum(dim=(1, 2)) for each in both)
    )
