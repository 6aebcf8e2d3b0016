"""Methods in float64, for every mechanism, against a second computation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.core.errors import RegardError
from regard.core.masks import NO_MASK, Causal, Mask, Padding
from regard.explain.methods import METHODS, contributions, method_maps, rollout
from regard.explain.trace import AttentionCall, trace_attention
from regard.layers.multi_head import MultiHead
from regard.mechanisms import MECHANISMS
from regard.models import TextEncoder

WIDTH, LENGTH, CONTEXT_LENGTH, LENGTHS = 16, 6, 7, (6, 4)


@dataclass(frozen=True)
class Case:
    """A layer and a call that its mechanism supports."""

    mechanism: str
    role: str = "self"
    causal: bool = False
    padded: bool = False
    num_kv_heads: int | None = None
    position: str | None = None

    def __str__(self) -> str:
        extras = [f"{self.num_kv_heads}-kv-heads" if self.num_kv_heads else None, self.position]
        mask = "-".join(["causal"] * self.causal + ["padded"] * self.padded)
        return "-".join(each for each in (self.mechanism, self.role, mask, *extras) if each)

    def build(self) -> tuple[MultiHead, tuple[Any, ...], Mask]:
        """The layer in float64, its inputs and its mask."""
        torch.manual_seed(0)
        layer = MultiHead(
            model_dim=WIDTH,
            num_heads=4,
            mechanism=self.mechanism,
            role=self.role,  # type: ignore[arg-type]
            num_kv_heads=self.num_kv_heads,
            position=self.position,
            max_length=16,
        )
        for parameter in layer.parameters():  # biases that are not zero
            torch.nn.init.normal_(parameter, std=0.4)
        x = torch.randn(2, LENGTH, WIDTH, dtype=torch.float64)
        context = torch.randn(2, CONTEXT_LENGTH, WIDTH, dtype=torch.float64)
        mask = Padding(torch.tensor(LENGTHS)) if self.padded else NO_MASK
        mask = mask & Causal() if self.causal else mask
        inputs = (x, context) if self.role == "cross" else (x,)
        return layer.double().eval(), inputs, mask

    @property
    def is_supported(self) -> bool:
        """Whether the mechanism declares this call."""
        layer = MultiHead(model_dim=WIDTH, num_heads=4, mechanism=self.mechanism, max_length=16)
        declared = layer.mechanism.capabilities
        return (
            self.role in declared.roles
            and (self.causal or not declared.requires_causal)
            and (not self.causal or "causal" in declared.masks)
            and (not self.padded or "padding" in declared.masks)
            and (self.position != "alibi" or declared.score_bias)
        )


def _cases() -> Iterator[Case]:
    for name in MECHANISMS:
        for padded in (False, True):
            yield Case(name, causal=True, padded=padded)
            yield Case(name, padded=padded)
            yield Case(name, role="cross", padded=padded)
        yield Case(name, causal=True, num_kv_heads=2)
        yield Case(name, causal=True, position="rotary")
        yield Case(name, causal=True, position="alibi")


CASES = [case for case in _cases() if case.is_supported]


@pytest.fixture(params=CASES, ids=str)
def traced(request: pytest.FixtureRequest) -> tuple[AttentionCall, Tensor]:
    """A call of each case, and the output of its layer."""
    layer, inputs, mask = request.param.build()
    with trace_attention(layer) as trace:
        output = layer(*inputs, mask=mask)
    (call,) = trace
    return call, output.detach()


def test_every_mechanism_has_cases() -> None:
    assert {case.mechanism for case in CASES} == set(MECHANISMS)


def test_contributions_and_bias_sum_to_the_output(traced: tuple[AttentionCall, Tensor]) -> None:
    call, output = traced
    assert call.bias is not None
    for query in range(call.num_queries):
        added = contributions(call, query).sum(dim=(1, 2)) + call.bias.detach()
        torch.testing.assert_close(added, output[:, query], atol=1e-10, rtol=0)
    torch.testing.assert_close(call.written(), output, atol=1e-10, rtol=0)


def test_contribution_norms(traced: tuple[AttentionCall, Tensor]) -> None:
    call, _ = traced
    norms = METHODS["contribution_norm"].function(call)  # type: ignore[misc]
    for query in range(call.num_queries):
        vectors = contributions(call, query)
        torch.testing.assert_close(norms[:, :, query], vectors.norm(dim=-1), atol=1e-10, rtol=0)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_value_zeroing_in_closed_form_equals_recomputation(case: Case) -> None:
    layer, inputs, mask = case.build()
    with trace_attention(layer) as trace:
        output = layer(*inputs, mask=mask).detach()
    (call,) = trace
    found = METHODS["value_zeroing"].function(call)  # type: ignore[misc]
    assert found.shape == (2, 1, call.num_queries, call.num_keys)
    for key in range(call.num_keys):
        without = _run_without_value(layer, inputs, mask, key)
        expected = 1 - torch.cosine_similarity(output, without, dim=-1, eps=1e-300)
        torch.testing.assert_close(found[:, 0, :, key], expected, atol=1e-10, rtol=0)


def _run_without_value(layer: MultiHead, inputs: Any, mask: Mask, key: int) -> Tensor:
    """The layer run again with the value of one key set to zero."""

    def zero(_: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        query, keys, value, *rest = arguments
        value = value.clone()
        value[:, :, key] = 0
        return (query, keys, value, *rest)

    handle = layer.mechanism.register_forward_pre_hook(zero)
    try:
        return layer(*inputs, mask=mask).detach()
    finally:
        handle.remove()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradient_attention_equals_autograd_through_explicit_weights(case: Case) -> None:
    layer, inputs, mask = case.build()
    towards = torch.randn(2, LENGTH, WIDTH, dtype=torch.float64)
    with trace_attention(layer) as trace:
        value = (layer(*inputs, mask=mask).tanh() * towards).sum()
    trace.backward(value)
    (call,) = trace
    found = METHODS["gradient_attention"].function(call)  # type: ignore[misc]

    leaf = call.weights().requires_grad_()
    heads = (leaf @ call.value.detach()).transpose(1, 2).flatten(2)
    (layer.output(heads).tanh() * towards).sum().backward()
    assert leaf.grad is not None
    torch.testing.assert_close(found, leaf.detach() * leaf.grad, atol=1e-8, rtol=0)
    assert all(parameter.grad is None for parameter in layer.mechanism.parameters())


def test_value_zeroing_of_the_only_key_leaves_nothing() -> None:
    layer = MultiHead(model_dim=8, num_heads=2, bias=False)
    with trace_attention(layer) as trace:
        layer(torch.randn(1, 3, 8), mask=Causal())
    found = method_maps(trace, "value_zeroing")["decoder/0"][0, 0]
    assert found[0].tolist() == [1.0, 0.0, 0.0]


def test_value_zeroing_takes_long_inputs_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = MultiHead(model_dim=8, num_heads=2)
    with trace_attention(layer) as trace:
        layer(torch.randn(2, 5, 8))
    whole = method_maps(trace, "value_zeroing")["encoder/0"]
    monkeypatch.setattr("regard.explain.methods.CHUNK_NUMBERS", 50)
    torch.testing.assert_close(method_maps(trace, "value_zeroing")["encoder/0"], whole)


def test_rollout_follows_the_paper_for_softmax_weights() -> None:
    torch.manual_seed(0)
    model = TextEncoder(source=20, model_dim=8, num_heads=2, num_layers=3).double().eval()
    with trace_attention(model) as trace:
        model(_tokens(5))
    expected = torch.eye(5, dtype=torch.float64)
    for number in range(3):
        mean = trace[f"encoder/{number}"].weights()[0].mean(dim=0)
        expected = (mean + torch.eye(5, dtype=torch.float64)) / 2 @ expected
        torch.testing.assert_close(rollout(trace)[f"encoder/{number}"][0, 0], expected)
    assert list(method_maps(trace, "rollout")) == ["encoder/0", "encoder/1", "encoder/2"]
    torch.testing.assert_close(expected.sum(dim=-1), torch.ones(5, dtype=torch.float64))


def _tokens(length: int) -> Any:
    from regard.core.batches import TokenInput

    return TokenInput(torch.arange(4, 4 + length)[None], torch.tensor([length]))


def test_unknown_methods_and_queries() -> None:
    layer = MultiHead(model_dim=8, num_heads=2)
    with trace_attention(layer) as trace:
        layer(torch.randn(1, 3, 8))
    with pytest.raises(RegardError, match=r"Unknown method 'wieghts'. Did you mean 'weights'"):
        method_maps(trace, "wieghts")
    with pytest.raises(RegardError, match=r"query=3: the layer 'encoder/0' has 3 queries"):
        contributions(trace["encoder/0"], 3)
