"""Mechanisms with wrong declared costs."""

from __future__ import annotations

from dataclasses import replace

from tests.conformance.broken.sound import Plain, Prefix

from regard.core.cost import AttentionShape, Cost
from regard.core.masks import Window


class CountsMultipliesOnly(Plain):
    """A multiply-add is counted as one."""

    def cost(self, shape: AttentionShape) -> Cost:
        cost = super().cost(shape)
        return replace(cost, matmul_flops=cost.matmul_flops // 2)


class CountsNoExponentials(Plain):
    """The softmax is free."""

    def cost(self, shape: AttentionShape) -> Cost:
        return replace(super().cost(shape), transcendental_ops=0)


class CountsNoElementwise(Plain):
    """Elementwise operations are not counted."""

    def cost(self, shape: AttentionShape) -> Cost:
        return replace(super().cost(shape), elementwise_ops=0)


class CountsOneGradient(Plain):
    """Only one of the two gradients of a matmul is counted."""

    def cost(self, shape: AttentionShape) -> Cost:
        cost = super().cost(shape)
        return replace(cost, backward_matmul_flops=cost.matmul_flops)


class OmitsOwnTokenFromStep(Plain):
    """The attention of the new token to itself is not counted."""

    def cost(self, shape: AttentionShape) -> Cost:
        width = shape.key_dim + shape.value_dim
        step = 2 * shape.batch_heads * shape.key_length * width
        return replace(super().cost(shape), step_matmul_flops=step)


class ClaimsNoMemory(Plain):
    """Only the output is counted."""

    def cost(self, shape: AttentionShape) -> Cost:
        return replace(super().cost(shape), memory=shape.batch_heads * shape.query_length)


class ForgetsItsParameters(Plain):
    """The temperature is not counted."""

    def cost(self, shape: AttentionShape) -> Cost:
        return replace(super().cost(shape), parameters=0)


class CountsTheStateForEveryHead(Plain):
    """The state is counted per query head instead of per key/value head."""

    def cost(self, shape: AttentionShape) -> Cost:
        numbers = shape.batch_heads * shape.key_length * (shape.key_dim + shape.value_dim)
        return replace(super().cost(shape), state=numbers)


class ClaimsOneStep(Prefix):
    """The running sum is declared parallel."""

    def cost(self, shape: AttentionShape) -> Cost:
        return replace(super().cost(shape), sequential_steps=1)


class ClaimsALongPath(Plain):
    """All positions see each other directly, but a long path is declared."""

    def cost(self, shape: AttentionShape) -> Cost:
        return replace(super().cost(shape), max_path_length=shape.key_length)


class ClaimsPathLengthOne(Plain):
    """A query sees its own position only, but one layer is declared."""

    window = Window(0)


class ClaimsDisconnected(Plain):
    """All positions see each other directly, but none is declared."""

    def cost(self, shape: AttentionShape) -> Cost:
        return replace(super().cost(shape), max_path_length=0)
