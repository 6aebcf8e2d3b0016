"""The shortest sequences: nothing to read, nobody to read it, one of each."""

from __future__ import annotations

from regard.conformance.case import HEADS, KEYS, Case
from regard.conformance.inputs import extend, forward, start, step, weights
from regard.conformance.verdict import same, zero


def lengths_zero_and_one(case: Case) -> None:
    """No keys give zeros, no queries give nothing, one key is read whole where rows sum to one."""
    for mask in case.plain_masks:
        for queries, keys in ((7, 0), (0, KEYS), (0, 0), (1, 1), (7, 1), (1, KEYS)):
            inputs = case.draw(query_length=queries, key_length=keys)
            expected = weights(case.mechanism, inputs, mask) @ inputs.value
            output = forward(case.mechanism, inputs, mask)
            same(output, expected, f"forward of {queries} queries and {keys} keys under {mask}")
            if keys == 0:
                zero(output, f"outputs without any key under {mask}")
            if keys == queries == 1 and case.promised.rows_sum_to_one:
                same(output, inputs.value.expand(-1, HEADS, -1, -1), f"one key read under {mask}")


def decoding_nothing(case: Case) -> None:
    """Taking in no tokens changes nothing; a step of no tokens gives no outputs."""
    inputs, none = case.draw_tokens(5), case.draw_tokens(0)
    state = extend(case.mechanism, start(case.mechanism, inputs), inputs)
    output, after = step(case.mechanism, extend(case.mechanism, state, none), none)
    same(output, none.value.expand(-1, HEADS, -1, -1), "the output of a step of no tokens")
    expected = case.mechanism.read(state, inputs.query)
    same(case.mechanism.read(after, inputs.query), expected, "a read after taking in no tokens")
    same(after.position, state.position, "the position after taking in no tokens")
