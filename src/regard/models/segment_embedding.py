"""Segment embedding: a learned vector for the text a token belongs to, added to the token's own.

Two texts that are read together are told apart by it (Devlin et al. 2019, section 3).
"""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.core.cost import Cost
from regard.core.errors import RegardError
from regard.layers.layer_cost import SequenceShape
from regard.layers.size_rules import require_positive


class SegmentEmbedding(nn.Module):
    """Adds the vector of each token's segment; where none are given, all are of segment 0."""

    def __init__(self, *, num_segments: int, model_dim: int) -> None:
        super().__init__()
        require_positive("SegmentEmbedding", num_segments=num_segments, model_dim=model_dim)
        self.table = nn.Embedding(num_segments, model_dim)
        # As small as BERT's, so that at first a token's own vector is heard.
        nn.init.normal_(self.table.weight, std=0.02)

    def forward(
        self,
        x: Float[Tensor, "batch length model_dim"],
        segments: Int[Tensor, "batch length"] | None,
    ) -> Float[Tensor, "batch length model_dim"]:
        if segments is None:
            return x + self.table.weight[0]
        if segments.shape != x.shape[:2]:
            raise RegardError(
                f"segments have the shape {tuple(segments.shape)} and tokens {tuple(x.shape[:2])}: "
                "give one segment a token, or none for a single text."
            )
        try:
            moved: Tensor = x + self.table(segments)
        except IndexError:
            raise RegardError(
                f"Segments from {int(segments.min())} to {int(segments.max())} were given to a "
                f"model with num_segments={self.table.num_embeddings}: they must be from 0 to below "
                "that. Build the model with as many segments as there are texts in a row."
            ) from None
        return moved

    def cost(self, shape: SequenceShape) -> Cost:
        """What `forward` takes where segments are given; looking one up is no product."""
        numbers = shape.rows * self.table.embedding_dim
        return Cost(arithmetic=numbers, memory=2 * numbers, parameters=self.table.weight.numel())
