"""Costs that are not what runs."""

from __future__ import annotations

from dataclasses import replace

from tests.conformance.broken.sound import Plain, Prefix

from regard.core.cost import AttentionShape, Cost
from regard.core.masks import Window


class CountsMultipliesOnly(Plain):
    """A multiply-add is counted as one."""

    def cost(self, shape: AttentionShape) -> Cost:
        cost = super().cost(shape)
        return replace(cost, products=cost.products // 2)


class CountsNoExponentials(Plain):
    """The softmax is free."""

    def cost(self, shape: AttentionShape) -> Cost:
        return replace(super().cost(shape), functions=0)


class CountsNoArithmetic(Plain):
    """What is neither a product nor a function is left out."""

    def cost(self, shape: AttentionShape) -> Cost:
        return replace(super().cost(shape), arithmetic=0)


class GivesOneGradientOnly(Plain):
    """A product has two factors, and each wants its gradient; one is counted."""

    def cost(self, shape: AttentionShape) -> Cost:
        cost = super().cost(shape)
        return replace(cost, backward_products=cost.products)


class DoesNotSeeItself(Plain):
    """The new token reads what came before it, and also itself, which is not counted."""

    def cost(self, shape: AttentionShape) -> Cost:
        width = shape.key_dim + shape.value_dim
        step = 2 * shape.rows * shape.key_length * width
        return replace(super().cost(shape), step_products=step)


class ClaimsNoMemory(Plain):
    """Only the output is counted."""

    def cost(self, shape: AttentionShape) -> Cost:
        return replace(super().cost(shape), memory=shape.rows * shape.query_length)


class ForgetsItsParameters(Plain):
    """The temperature is not counted."""

    def cost(self, shape: AttentionShape) -> Cost:
        return replace(super().cost(shape), parameters=0)


class CountsTheStateForEveryHead(Plain):
    """The state is counted for query heads, though it is kept for key/value heads."""

    def cost(self, shape: AttentionShape) -> Cost:
        numbers = shape.rows * shape.key_length * (shape.key_dim + shape.value_dim)
        return replace(super().cost(shape), state=numbers)


class ClaimsOneStep(Prefix):
    """The running sum is called parallel."""

    def cost(self, shape: AttentionShape) -> Cost:
        return replace(super().cost(shape), sequential_steps=1)


class ClaimsALongPath(Plain):
    """Every position sees every other at once, but this is not what it says."""

    def cost(self, shape: AttentionShape) -> Cost:
        return replace(super().cost(shape), longest_path=shape.key_length)


class ClaimsToBeReached(Plain):
    """A query sees its own position only, so nothing is ever passed on; it claims one layer."""

    sight = Window(0)


class ClaimsToBeOutOfReach(Plain):
    """Every position sees every other at once; it claims that none ever does."""

    def cost(self, shape: AttentionShape) -> Cost:
        return replace(super().cost(shape), longest_path=0)
