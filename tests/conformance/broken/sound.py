"""Small correct mechanisms, from which the broken ones are derived."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn

from regard.core.cost import AttentionShape, Cost
from regard.core.masks import NO_MASK, Mask
from regard.core.mechanism import Capabilities, Mechanism, repeat_heads, select_rows
from regard.mechanisms.scores.softmax import ScoredMechanism


class Plain(ScoredMechanism):
    """Scaled dot attention with a learned temperature per head."""

    def __init__(self, *, num_heads: int) -> None:
        super().__init__()
        self.temperature = nn.Parameter(1.0 + torch.rand(num_heads, 1, 1))

    def scores(self, query: Tensor, cached_key: Tensor, **_: Any) -> Tensor:
        scaled: Tensor = query * self.temperature * query.shape[-1] ** -0.5
        return scaled @ cached_key.transpose(-2, -1)

    def score_cost(self, shape: AttentionShape) -> Cost:
        pairs = shape.batch_heads * shape.pairs
        matmul_flops = 2 * pairs * shape.key_dim
        return Cost(
            matmul_flops=matmul_flops,
            elementwise_ops=2 * shape.batch_heads * shape.query_length * shape.key_dim,
            backward_matmul_flops=2 * matmul_flops,
            step_matmul_flops=2 * shape.batch_heads * (shape.key_length + 1) * shape.key_dim,
            memory=2 * pairs,
            parameters=self.num_parameters,
            sequential_steps=1,
        )


class SumState(NamedTuple):
    """The sums of `Prefix`."""

    memory: Tensor
    total: Tensor
    position: Tensor

    def select(self, index: Tensor) -> Self:
        return select_rows(self, index)


def divide(total: Tensor, denominator: Tensor) -> Tensor:
    """The quotient; zero where there is nothing to divide by."""
    return total / torch.where(denominator == 0, torch.ones_like(denominator), denominator)


class Prefix(Mechanism):
    """Linear attention with φ = sigmoid, causal only, in chunks with a running sum."""

    def __init__(self, *, chunk_size: int = 16) -> None:
        super().__init__()
        self.chunk_size = chunk_size

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            roles=frozenset({"self"}), masks=frozenset({"causal", "padding"}), requires_causal=True
        )

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Mask = NO_MASK, *_: Any
    ) -> Tensor:
        self.validate_call(query, key, value, mask)
        features, key_features = torch.sigmoid(query), self.key_features(key, mask)
        key_features = repeat_heads(key_features, query.shape[1])
        with_one = torch.cat([value, torch.ones_like(value[..., :1])], dim=-1)
        sums = self.sums(features, key_features, repeat_heads(with_one, query.shape[1]))
        return divide(sums[..., :-1], sums[..., -1:])

    def sums(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Σ_{j ≤ i} (query_i · key_j) value_j, chunk by chunk of the keys."""
        queries, keys = query.shape[2], key.shape[2]
        ahead = keys - queries
        memory = query.new_zeros(*query.shape[:2], query.shape[3], value.shape[3])
        outputs = [query.new_zeros(*query.shape[:2], max(-ahead, 0), value.shape[3])]
        for start in range(0, keys, self.chunk_size):
            stop = min(start + self.chunk_size, keys)
            first, last = max(start - ahead, 0), max(stop - ahead, 0)
            rows = query[:, :, first:last]
            pairs = rows @ key[:, :, start:stop].mT
            pairs = pairs.tril(first + ahead - start)
            outputs.append(rows @ memory + pairs @ value[:, :, start:stop])
            memory = memory + key[:, :, start:stop].mT @ value[:, :, start:stop]
        return torch.cat(outputs, dim=2)

    def key_features(self, key: Tensor, mask: Mask) -> Tensor:
        features = torch.sigmoid(key)
        if mask.lengths is None:
            return features
        return features * mask.keep(key.shape[2])[:, None, :, None]

    def weights(self, query: Tensor, key: Tensor, mask: Mask = NO_MASK, *_: Any) -> Tensor:
        self.validate_call(query, key, None, mask)
        key_features = repeat_heads(self.key_features(key, mask), query.shape[1])
        pairs = torch.sigmoid(query) @ key_features.mT
        pairs = pairs.tril(key.shape[2] - query.shape[2])
        return divide(pairs, pairs.sum(dim=-1, keepdim=True))

    def start(
        self,
        *,
        batch_size: int,
        num_kv_heads: int,
        key_dim: int,
        value_dim: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> SumState:
        size = (batch_size, num_kv_heads, key_dim)
        return SumState(
            memory=torch.zeros(*size, value_dim, dtype=dtype, device=device),
            total=torch.zeros(size, dtype=dtype, device=device),
            position=torch.zeros(batch_size, dtype=torch.long, device=device),
        )

    def extend(
        self, state: SumState, key: Tensor, value: Tensor, mask: Mask = NO_MASK, *_: Any
    ) -> SumState:
        features = self.key_features(key, mask)
        taken = key.shape[2] if mask.lengths is None else mask.lengths
        return SumState(
            memory=state.memory + features.mT @ value,
            total=state.total + features.sum(dim=2),
            position=state.position + taken,
        )

    def read(self, state: SumState, query: Tensor, *_: Any) -> Tensor:
        features = torch.sigmoid(query)
        memory = repeat_heads(state.memory, query.shape[1])
        total = repeat_heads(state.total[..., None], query.shape[1])
        return divide(features @ memory, features @ total)

    def cost(self, shape: AttentionShape) -> Cost:
        keys, ahead = shape.key_length, shape.key_length - shape.query_length
        width, features = shape.value_dim + 1, shape.key_dim
        matmul_flops = elementwise_ops = backward = steps = 0
        for start in range(0, keys, self.chunk_size):
            stop = min(start + self.chunk_size, keys)
            rows = max(stop - ahead, 0) - max(start - ahead, 0)
            within = 2 * rows * (stop - start) * (features + width)
            read, written = 2 * rows * features * width, 2 * (stop - start) * features * width
            matmul_flops += within + read + written
            elementwise_ops += (rows + features) * width
            # The first memory is a constant, and the last is not used.
            backward += 2 * within + (2 if start else 1) * read
            backward += 2 * written if stop < keys else 0
            steps += 1
        return Cost(
            matmul_flops=shape.batch_heads * matmul_flops,
            transcendental_ops=(
                shape.batch_heads * shape.query_length + shape.batch_kv_heads * keys
            )
            * shape.key_dim
            + shape.batch_heads * shape.query_length * shape.value_dim,
            elementwise_ops=shape.batch_heads * (elementwise_ops + 2 * shape.query_length),
            backward_matmul_flops=shape.batch_heads * backward,
            step_matmul_flops=2
            * features
            * (shape.batch_heads * width + shape.batch_kv_heads * shape.value_dim),
            memory=shape.batch_heads * (shape.query_length + keys) * (features + width),
            state=shape.batch_kv_heads * shape.key_dim * (shape.value_dim + 1),
            sequential_steps=max(steps, 1),
            max_path_length=1,
        )


SOUND: tuple[type[Mechanism], ...] = (Plain, Prefix)
