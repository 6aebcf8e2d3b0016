"""Learned positions: a trained vector for each position is added to every token.

(Gehring et al. 2017; BERT and GPT). Unlike sinusoidal positions they end at a greatest length.
"""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.core.cost import Cost
from regard.core.errors import RegardError
from regard.layers.layer_cost import SequenceShape, require_shape
from regard.layers.sequence_input import require_sequence
from regard.layers.size_rules import require_positive
from regard.layers.token_positions import token_positions


class LearnedPositions(nn.Module):
    """Adds the vectors of positions start, start + 1, … (all below `max_length`) to the tokens."""

    def __init__(self, *, model_dim: int, max_length: int = 512) -> None:
        super().__init__()
        require_positive("LearnedPositions", model_dim=model_dim, max_length=max_length)
        self.max_length = max_length
        self.embedding = nn.Embedding(max_length, model_dim)
        # As small as BERT's, so that at first a token's own vector is what is heard.
        nn.init.normal_(self.embedding.weight, std=0.02)

    def forward(
        self, x: Float[Tensor, "batch length model_dim"], start: int | Int[Tensor, " batch"] = 0
    ) -> Float[Tensor, "batch length model_dim"]:
        require_sequence("LearnedPositions", x, width=self.embedding.embedding_dim)
        end = (start if isinstance(start, int) else int(start.max())) + x.shape[1]
        if end > self.max_length:
            raise RegardError(
                f"Learned positions end at max_length={self.max_length}, but the input reaches "
                f"position {end}. Raise max_length, or choose positions without an end: "
                "sinusoidal, rotary, alibi, none."
            )
        positions = token_positions(start=start, length=x.shape[1], device=x.device)
        moved: Tensor = x + self.embedding(positions)
        return moved

    def cost(self, shape: SequenceShape) -> Cost:
        """What `forward` takes; looking a row up is no product."""
        require_shape("LearnedPositions", shape)
        width = self.embedding.embedding_dim
        return Cost(
            arithmetic=shape.length + shape.rows * width,
            memory=(shape.length + shape.rows) * width,
            parameters=self.max_length * width,
        )
