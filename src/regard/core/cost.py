"""The declared cost of a mechanism or a layer: FLOPs, memory, parameters, decoding state, path length.

All counts are for one forward call without gradients, padding or score bias, in any dtype:

    matmul_flops           2 per multiply-add of a matrix product
    transcendental_ops     evaluations of exp, tanh, 1/x …; a softmax has one per entry
    elementwise_ops        additions, comparisons, selections …, one per number
    backward_matmul_flops  what training adds to `matmul_flops` when all inputs need gradients: the backward
                           pass, recomputation included; less, if `forward` does less with gradients
    step_matmul_flops      of one `step` of one token with `key_length` tokens in the state
    memory                 peak of newly allocated numbers in forward, the output included
    parameters             trainable numbers
    state                  numbers in the decoding state (KV cache) after `key_length` tokens
    sequential_steps       steps that must run one after the other
    max_path_length        maximum path length: layers until every position has reached every position
                           that the mask allows; 0 if nothing moves between positions

A declared cost is checked against `regard.core.counter`, which has the conventions: matmul FLOPs,
transcendental operations and parameters exactly, total FLOPs within 2 %.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from regard.core.errors import RegardError


@dataclass(frozen=True, kw_only=True)
class AttentionShape:
    """The sizes of one attention call; `num_kv_heads` defaults to `num_heads`, `query_dim` to `key_dim`."""

    batch_size: int = 1
    num_heads: int = 1
    num_kv_heads: int | None = None
    query_length: int
    key_length: int
    key_dim: int
    value_dim: int
    query_dim: int | None = None
    causal: bool = False

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            least = 0 if field.name in ("query_length", "key_length") else 1
            if value is not None and value is not True and value < least and field.name != "causal":
                raise RegardError(f"Shape has {field.name}={value}; it must be {least} or more.")

    @property
    def batch_heads(self) -> int:
        """Batch times heads."""
        return self.batch_size * self.num_heads

    @property
    def batch_kv_heads(self) -> int:
        """Batch times key/value heads."""
        return self.batch_size * (self.num_kv_heads or self.num_heads)

    @property
    def pairs(self) -> int:
        """Query–key pairs per head, masked ones included."""
        return self.query_length * self.key_length

    @property
    def value_numbers(self) -> int:
        """Numbers in all values, and in the cache of them."""
        return self.batch_kv_heads * self.key_length * self.value_dim

    @property
    def output_numbers(self) -> int:
        """Numbers in the output."""
        return self.batch_heads * self.query_length * self.value_dim


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Declared cost of one forward call; `+` adds the costs of two parts that run in sequence."""

    matmul_flops: int = 0
    transcendental_ops: int = 0
    elementwise_ops: int = 0
    backward_matmul_flops: int = 0
    step_matmul_flops: int = 0
    memory: int = 0
    parameters: int = 0
    state: int = 0
    sequential_steps: int = 0
    max_path_length: int = 0

    @property
    def flops(self) -> int:
        """Forward `matmul_flops`, `transcendental_ops` and `elementwise_ops` together."""
        return self.matmul_flops + self.transcendental_ops + self.elementwise_ops

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            matmul_flops=self.matmul_flops + other.matmul_flops,
            transcendental_ops=self.transcendental_ops + other.transcendental_ops,
            elementwise_ops=self.elementwise_ops + other.elementwise_ops,
            backward_matmul_flops=self.backward_matmul_flops + other.backward_matmul_flops,
            step_matmul_flops=self.step_matmul_flops + other.step_matmul_flops,
            memory=self.memory + other.memory,
            parameters=self.parameters + other.parameters,
            state=self.state + other.state,
            sequential_steps=self.sequential_steps + other.sequential_steps,
            # Of two parts of one layer, the shorter path counts.
            max_path_length=min(
                filter(None, (self.max_path_length, other.max_path_length)), default=0
            ),
        )
