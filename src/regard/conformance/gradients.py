"""Checks of gradients: finite differences, `forward` against `weights @ value`, batch independence."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.autograd.gradcheck import GradcheckError, gradcheck
from torch.func import functional_call

from regard.conformance.case import (
    KEYS,
    KV_HEADS,
    LONG,
    Case,
    CheckFailed,
    Inputs,
    NotApplicable,
    assert_close,
    require,
)
from regard.core.masks import Mask
from regard.core.mechanism import repeat_heads


def gradient_check(case: Case) -> None:
    """Gradients of every input and parameter match finite differences."""
    small = case.sized(num_heads=2, key_dim=3, query_dim=3, value_dim=2, max_length=5)
    inputs = small.draw(batch_size=2, query_length=5, key_length=5).leaves()
    parameters = dict(small.mechanism.named_parameters())
    for mask in small.masks(inputs):
        for name, tensor in {**inputs.tensors(), **parameters}.items():
            if not tensor.requires_grad:
                continue
            try:
                gradcheck(_ForwardOf(small, inputs, mask, name), tensor, fast_mode=True)
            except GradcheckError as error:
                numbers = " ".join(str(error).split())
                raise CheckFailed(f"gradient of {name} under {mask}: {numbers}") from error


def gradients_through_weights(case: Case) -> None:
    """Gradients through forward equal those through weights @ value."""
    lengths = (KEYS, LONG) if case.fits(LONG) else (KEYS,)
    for length in lengths:
        inputs = case.draw_tokens(length, batch_size=2, num_kv_heads=KV_HEADS).leaves()
        bias = case.bias() if case.capabilities.score_bias else None
        named = {**inputs.tensors(), **dict(case.mechanism.named_parameters())}
        if bias is not None:
            named["bias"] = bias.slopes.requires_grad_()
        for mask in case.masks(inputs):
            output = case.forward(inputs, mask, bias)
            value = repeat_heads(inputs.value, case.num_heads)
            other = case.weights(inputs, mask, bias) @ value
            direction = torch.randn(output.shape, generator=case.generator, dtype=output.dtype)
            got, expected = (
                _gradients(output, direction, named),
                _gradients(other, direction, named),
            )
            for name, gradient in got.items():
                what = f"gradient of {name} through forward against through weights under {mask}"
                assert_close(gradient, expected[name], what)


def gradients_in_a_larger_batch(case: Case) -> None:
    """An example has the same gradients in a batch of five as alone."""
    inputs = case.draw_tokens(KEYS, batch_size=5).leaves()
    parameters = dict(case.mechanism.named_parameters())
    named = {**inputs.tensors(), **parameters}
    for mask in case.plain_masks:
        output = case.forward(inputs, mask)
        direction = torch.randn(output.shape, generator=case.generator, dtype=output.dtype)
        whole = _gradients(output, direction, named)
        shown = case.weights(inputs, mask)
        what = f"gradient of the values in a batch of 5 against weightsᵀ @ g under {mask}"
        assert_close(whole["value"], shown.mT @ direction, what)
        sums = {name: torch.zeros_like(parameter) for name, parameter in parameters.items()}
        for row in range(len(direction)):
            own = inputs.examples(slice(row, row + 1)).leaves()
            alone = _gradients(
                case.forward(own, mask), direction[row : row + 1], {**own.tensors(), **parameters}
            )
            for name in own.tensors():
                what = f"gradient of {name}, row {row} of 5 against that row alone under {mask}"
                assert_close(whole[name][row], alone[name][0], what)
            sums = {name: total + alone[name] for name, total in sums.items()}
        for name, total in sums.items():
            what = f"gradient of {name} from a batch of 5 against the sum of its rows under {mask}"
            assert_close(whole[name], total, what)


def every_parameter_has_gradient(case: Case) -> None:
    """Every parameter receives a finite, nonzero gradient."""
    parameters = {n: p for n, p in case.mechanism.named_parameters() if p.requires_grad}
    if not parameters:
        raise NotApplicable("it has no trainable parameters")
    output = case.forward(case.draw_tokens(KEYS), case.open_mask)
    require(output.requires_grad, "the output depends on none of its parameters")
    direction = torch.randn(output.shape, generator=case.generator, dtype=output.dtype)
    for name, gradient in _gradients(output, direction, parameters).items():
        require(bool(gradient.isfinite().all()), f"the gradient of {name} is not finite")
        require(bool((gradient != 0).any()), f"the parameter {name} receives no gradient")


def _gradients(output: Tensor, direction: Tensor, named: Mapping[str, Tensor]) -> dict[str, Tensor]:
    # Unused tensors have a zero gradient.
    gradients = torch.autograd.grad(
        output, list(named.values()), direction, retain_graph=True, materialize_grads=True
    )
    return dict(zip(named, gradients, strict=True))


class _ForwardOf:
    """`forward` as a function of one of its tensors."""

    def __init__(self, case: Case, inputs: Inputs, mask: Mask, name: str) -> None:
        self.case, self.inputs, self.mask, self.name = case, inputs, mask, name

    def __call__(self, tensor: Tensor) -> Tensor:
        if self.name in self.inputs.tensors():
            return self.case.forward(self.inputs.with_tensors({self.name: tensor}), self.mask)
        args = (self.inputs.query, self.inputs.key, self.inputs.value, self.mask)
        output: Tensor = functional_call(
            self.case.mechanism, {self.name: tensor}, args, dict(self.inputs.gates)
        )
        return output
