"""What the chunked scan asks of a kernel, and the simplest kernel there is."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from torch import Tensor


@runtime_checkable
class ChunkKernel(Protocol):
    """κ(q, k) = curve(t(q)·t(k)) = features(t(q))·features(t(k)), with the derivatives.

    t turns every vector into one of the same width, which is kept; features may be far wider and are
    made anew whenever they are needed. Gradients that are handed in may be overwritten.
    """

    is_transforming: bool  # whether t does anything

    def transform(self, inputs: Tensor, *, out: Tensor) -> None:
        """Write t of a chunk."""
        ...

    def transform_gradient(self, kept: Tensor, gradient: Tensor) -> Tensor:
        """The gradient of the inputs, in the place of that of t."""
        ...

    def features(self, kept: Tensor) -> Tensor:
        """The features, in any memory layout; their gradients arrive in the same one."""
        ...

    def features_gradient(self, kept: Tensor, gradient: Tensor) -> Tensor:
        """The gradient of what was kept, given that of the features."""
        ...

    def curve(self, dots: Tensor) -> Tensor:
        """The kernel at these dot products, which may be overwritten."""
        ...

    def curve_gradient(self, dots: Tensor, gradient: Tensor) -> Tensor:
        """The gradient of the dot products, given that of the curve."""
        ...


class DotProduct:
    """κ(q, k) = q·k: for a kernel whose features were computed beforehand."""

    is_transforming = False

    def transform(self, inputs: Tensor, *, out: Tensor) -> None:
        """Nothing is done."""

    def transform_gradient(self, kept: Tensor, gradient: Tensor) -> Tensor:
        """Nothing was done."""
        return gradient

    def features(self, kept: Tensor) -> Tensor:
        """The vector is its own features."""
        return kept

    def features_gradient(self, kept: Tensor, gradient: Tensor) -> Tensor:
        """The vector is its own features."""
        return gradient

    def curve(self, dots: Tensor) -> Tensor:
        """A straight line."""
        return dots

    def curve_gradient(self, dots: Tensor, gradient: Tensor) -> Tensor:
        """A slope of one."""
        return gradient
