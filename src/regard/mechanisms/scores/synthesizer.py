"""Location attention (Luong et al. 2015) and the Synthesizers (Tay et al. 2021): scores without keys.

    location                W query
    synthesizer_dense       a two-layer network on the query
    synthesizer_random      a learned score for every pair of positions
    synthesizer_factorised  the same as a product of two low-rank factors

They weight positions, not contents, so they have a maximum length and cache only values.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.core.cost import AttentionShape, Cost
from regard.core.mechanism import Capabilities, Key, Query, Role, Weights
from regard.core.options import PositiveInt, validated
from regard.mechanisms.scores.softmax import Positions, ScoredMechanism


class KeylessMechanism(ScoredMechanism):
    """Softmax attention over at most `max_length` positions that does not use the keys."""

    # Scores of pairs of positions are meaningless between two sequences: such a subclass is "self" only.
    roles: ClassVar[frozenset[Role]] = frozenset({"self", "cross"})

    @validated
    def __init__(self, *, num_heads: PositiveInt, max_length: PositiveInt) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.max_length = max_length

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            roles=self.roles,
            score_bias=True,
            dropout=True,
            position_aware=True,
            max_length=self.max_length,
        )

    def project_key(self, key: Key) -> Float[Tensor, "batch kv_heads key_length 0"]:
        return key[..., :0]

    def cached_key_size(self, shape: AttentionShape) -> int:
        return 0


def picked_in_step(shape: AttentionShape, max_length: int) -> int:
    """The number of columns that `pick_columns` multiplies in a decoding step."""
    # The rows of a batch may be at different positions, and then use all columns.
    return shape.key_length + 1 if shape.batch_size == 1 else max_length


def pick_columns(
    rows: Float[Tensor, "batch heads query_length width"],
    columns: Float[Tensor, "_heads width max_length"],
    key_positions: Positions,
) -> Weights:
    """rows @ columns, for the columns at the keys' positions, which may differ between batch rows."""
    positions = key_positions.clamp(min=0)
    if len(positions) == 1:
        return rows @ columns.index_select(-1, positions[0])
    every = rows @ columns
    return every.gather(-1, positions[:, None, None, :].expand(*every.shape[:3], -1))


class DenseSynthesizer(KeylessMechanism):
    """score of position j = (W₂ relu(W₁ query + b₁) + b₂)_j   (Tay et al. 2021, sec. 3)."""

    @validated
    def __init__(
        self,
        *,
        query_dim: PositiveInt,
        hidden_dim: PositiveInt | None = None,
        num_heads: PositiveInt = 1,
        max_length: PositiveInt = 512,
    ) -> None:
        super().__init__(num_heads=num_heads, max_length=max_length)
        hidden_dim = query_dim if hidden_dim is None else hidden_dim
        self.hidden_weight = nn.Parameter(torch.empty(num_heads, query_dim, hidden_dim))
        self.hidden_bias = nn.Parameter(torch.zeros(num_heads, 1, hidden_dim))
        self.output_weight = nn.Parameter(torch.empty(num_heads, hidden_dim, max_length))
        self.output_bias = nn.Parameter(torch.zeros(num_heads, 1, max_length))
        nn.init.normal_(self.hidden_weight, std=query_dim**-0.5)
        nn.init.normal_(self.output_weight, std=hidden_dim**-0.5)

    def scores(
        self, query: Query, cached_key: Key, *, query_positions: Positions, key_positions: Positions
    ) -> Weights:
        hidden = torch.relu(query @ self.hidden_weight + self.hidden_bias)
        bias = self.output_bias.transpose(0, 1)[:, :, key_positions.clamp(min=0)]
        return pick_columns(hidden, self.output_weight, key_positions) + bias.permute(2, 1, 0, 3)

    def score_cost(self, shape: AttentionShape) -> Cost:
        _, query_dim, hidden_dim = self.hidden_weight.shape
        queries, pairs = shape.batch_heads * shape.query_length, shape.batch_heads * shape.pairs
        matmul_flops = 2 * queries * hidden_dim * (query_dim + shape.key_length)
        picked = picked_in_step(shape, self.max_length)
        return Cost(
            matmul_flops=matmul_flops,
            # Both biases, the relu, and the positions clamped twice.
            elementwise_ops=2 * queries * hidden_dim + pairs + 2 * shape.key_length,
            backward_matmul_flops=2 * matmul_flops,
            step_matmul_flops=2 * shape.batch_heads * hidden_dim * (query_dim + picked),
            memory=pairs,
            parameters=self.num_parameters,
        )


class RandomSynthesizer(KeylessMechanism):
    """score of (i, j) = R[i, j], learned, independent of the input   (Tay et al. 2021, sec. 3)."""

    roles: ClassVar[frozenset[Role]] = frozenset({"self"})

    @validated
    def __init__(self, *, num_heads: PositiveInt = 1, max_length: PositiveInt = 512) -> None:
        super().__init__(num_heads=num_heads, max_length=max_length)
        self.table = nn.Parameter(torch.randn(num_heads, max_length, max_length))

    def scores(
        self, query: Query, cached_key: Key, *, query_positions: Positions, key_positions: Positions
    ) -> Weights:
        rows, columns = query_positions.clamp(min=0), key_positions.clamp(min=0)
        picked = self.table[:, rows[:, :, None], columns[:, None, :]].transpose(0, 1)
        return picked.expand(query.shape[0], query.shape[1], -1, -1)

    def score_cost(self, shape: AttentionShape) -> Cost:
        # The scores are shared by all examples of the batch.
        return Cost(
            elementwise_ops=shape.query_length + shape.key_length,  # positions, clamped
            memory=len(self.table) * shape.pairs,
            parameters=self.num_parameters,
        )


class FactorisedSynthesizer(KeylessMechanism):
    """score of (i, j) = R₁[i] · R₂[j]   (Tay et al. 2021, sec. 3, "factorized random").

    It has 2·max_length·rank parameters per head, where `RandomSynthesizer` has max_length².
    """

    roles: ClassVar[frozenset[Role]] = frozenset({"self"})

    @validated
    def __init__(
        self, *, rank: PositiveInt = 8, num_heads: PositiveInt = 1, max_length: PositiveInt = 512
    ) -> None:
        super().__init__(num_heads=num_heads, max_length=max_length)
        # The scores then have unit variance, as in the full table.
        self.row_factors = nn.Parameter(torch.randn(num_heads, max_length, rank) * rank**-0.25)
        self.column_factors = nn.Parameter(torch.randn(num_heads, max_length, rank) * rank**-0.25)

    def scores(
        self, query: Query, cached_key: Key, *, query_positions: Positions, key_positions: Positions
    ) -> Weights:
        rows = self.row_factors[:, query_positions.clamp(min=0)].transpose(0, 1)
        columns = self.column_factors[:, key_positions.clamp(min=0)].transpose(0, 1)
        return (rows @ columns.transpose(-2, -1)).expand(query.shape[0], query.shape[1], -1, -1)

    def score_cost(self, shape: AttentionShape) -> Cost:
        # The scores are shared by all examples of the batch.
        heads, _, rank = self.row_factors.shape
        matmul_flops = 2 * heads * shape.pairs * rank
        return Cost(
            matmul_flops=matmul_flops,
            elementwise_ops=shape.query_length + shape.key_length,  # positions, clamped
            backward_matmul_flops=2 * matmul_flops,
            # While decoding, every example has a position of its own.
            step_matmul_flops=2 * shape.batch_size * heads * (shape.key_length + 1) * rank,
            memory=heads * shape.pairs,
            parameters=self.num_parameters,
        )


class LocationAttention(KeylessMechanism):
    """score of position j = (W query)_j   (Luong et al. 2015, sec. 3.1, "location")."""

    @validated
    def __init__(
        self, *, query_dim: PositiveInt, num_heads: PositiveInt = 1, max_length: PositiveInt = 512
    ) -> None:
        super().__init__(num_heads=num_heads, max_length=max_length)
        self.projection = nn.Parameter(torch.empty(num_heads, query_dim, max_length))
        nn.init.normal_(self.projection, std=query_dim**-0.5)

    def scores(
        self, query: Query, cached_key: Key, *, query_positions: Positions, key_positions: Positions
    ) -> Weights:
        return pick_columns(query, self.projection, key_positions)

    def score_cost(self, shape: AttentionShape) -> Cost:
        pairs, query_dim = shape.batch_heads * shape.pairs, self.projection.shape[1]
        matmul_flops = 2 * pairs * query_dim
        picked = picked_in_step(shape, self.max_length)
        return Cost(
            matmul_flops=matmul_flops,
            elementwise_ops=shape.key_length,  # positions, clamped
            backward_matmul_flops=2 * matmul_flops,
            step_matmul_flops=2 * shape.batch_heads * picked * query_dim,
            memory=pairs,
            parameters=self.num_parameters,
        )
