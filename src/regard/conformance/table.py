"""The conformance checks: name, module and one-line description.

The table holds strings, so that listing the checks does not import torch. An entry has the name of its
function.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """The module of `regard.conformance` that defines the check, and what it verifies."""

    module: str
    description: str


CHECKS: dict[str, Check] = {
    "capabilities_well_formed": Check(
        "declared", "capabilities, gates and cost have values of the declared types"
    ),
    "forward_equals_weights": Check(
        "equivalence",
        "forward equals weights @ value under every supported mask, alone and combined",
    ),
    "weights_are_forward_on_one_hot": Check(
        "equivalence", "forward on one-hot values equals weights"
    ),
    "grouped_heads": Check(
        "equivalence", "grouped-query attention equals repeating each key/value head for its group"
    ),
    "unequal_widths": Check(
        "equivalence", "queries may be wider than keys if the constructor takes both widths"
    ),
    "score_bias_in_forward_and_weights": Check(
        "equivalence", "a score bias affects forward and weights alike; a zero bias changes nothing"
    ),
    "forward_on_long_sequences": Check(
        "equivalence",
        "forward equals weights @ value at every position of 419 tokens, under every mask",
    ),
    "rows_sum_to_one_or_zero": Check(
        "equivalence", "a row of weights sums to one, or to zero if it is fully masked"
    ),
    "weights_nonnegative": Check("equivalence", "no weight is negative"),
    "causal_leak_values": Check(
        "masking", "later positions do not affect earlier outputs, however large they are"
    ),
    "causal_leak_gradients": Check(
        "masking", "the gradient of an output with respect to later inputs is exactly zero"
    ),
    "causal_alignment": Check(
        "masking",
        "the last query is aligned with the last key, with fewer or more queries than keys",
    ),
    "masked_pairs_have_zero_weight": Check("masking", "masked weights are exactly zero"),
    "masking_equals_deleting": Check("masking", "masking keys equals deleting them"),
    "window_mask": Check(
        "masking",
        "Window(0) is the query's own position; a window wider than the sequence has no effect",
    ),
    "window_radii": Check(
        "masking",
        "Window(r) equals the band as a boolean mask, for radii from 0 to beyond the length",
    ),
    "boolean_mask_broadcasting": Check(
        "masking", "a boolean mask of any broadcastable shape equals the expanded mask"
    ),
    "padding_invariance": Check(
        "masking", "padded keys do not affect the output, whatever they contain"
    ),
    "fully_masked_rows": Check("masking", "a fully masked query has zero output and zero gradient"),
    "batch_independence": Check(
        "numerics", "the output of an example does not depend on the rest of the batch"
    ),
    "head_independence": Check(
        "numerics", "the output of a head does not depend on the inputs of other heads"
    ),
    "permutation_behaviour": Check(
        "numerics",
        "the order of the keys changes the output if and only if position_aware is declared",
    ),
    "decoding_equals_forward": Check(
        "decoding", "token by token, or in chunks, step equals the causal forward"
    ),
    "decoding_with_bias": Check("decoding", "the same with a score bias"),
    "extending_in_chunks": Check(
        "decoding", "read after several extend calls equals the last row of forward over all keys"
    ),
    "reading_padded_keys": Check(
        "decoding", "one padded extend and many reads equal forward on the unpadded keys"
    ),
    "decoding_after_padding": Check(
        "decoding", "prompts of different lengths in one batch each continue where they ended"
    ),
    "decoding_after_padding_with_bias": Check(
        "decoding", "the same with a score bias, at each example's own positions"
    ),
    "decoding_long_sequences": Check(
        "equivalence",
        "after a long prompt in large chunks, step and read equal the last rows of forward",
    ),
    "decoding_no_tokens": Check("masking", "extending by no tokens changes nothing"),
    "reading_an_empty_state": Check("decoding", "an empty state reads as zeros"),
    "state_form": Check(
        "decoding", "a state is a named tuple of batch-first tensors with a field position"
    ),
    "state_position": Check(
        "decoding", "position counts the tokens of each example, without padding"
    ),
    "state_select": Check(
        "decoding", "after select(index), decoding continues on the reordered, repeated examples"
    ),
    "state_not_mutated": Check(
        "decoding", "extend and read do not modify a state, so that it can be reused"
    ),
    "chunk_size_independence": Check(
        "equivalence", "the attribute chunk_size does not change the output"
    ),
    "form_independence": Check("equivalence", "the attribute form does not change the output"),
    "gradient_check": Check(
        "gradients", "gradients of every input and parameter match finite differences"
    ),
    "gradients_through_weights": Check(
        "gradients", "gradients through forward equal those through weights @ value"
    ),
    "gradients_in_a_larger_batch": Check(
        "gradients", "an example has the same gradients in a batch of five as alone"
    ),
    "every_parameter_has_gradient": Check(
        "gradients", "every parameter receives a finite, nonzero gradient"
    ),
    "lengths_zero_and_one": Check(
        "masking", "sequences of no keys, no queries, one key and one query"
    ),
    "memory_layout": Check(
        "numerics", "transposed, strided and expanded inputs give the same output"
    ),
    "inputs_not_mutated": Check("numerics", "no method modifies its inputs"),
    "dtype_preserved": Check("numerics", "the output has the dtype of the input"),
    "finite_at_large_scores": Check(
        "numerics", "outputs and gradients stay finite in float32 with inputs 100 times too large"
    ),
    "methods_agree_at_large_scores": Check(
        "numerics",
        "with scores up to ±60, all methods agree in float32 to three digits, and rows sum to one",
    ),
    "float32_matches_float64": Check(
        "numerics", "float32 matches the float64 output to four digits"
    ),
    "deterministic_in_eval": Check(
        "numerics", "repeated calls are bit-identical, in training mode too"
    ),
    "saturated_gates": Check(
        "numerics", "with saturated gates, all methods agree and float32 stays finite"
    ),
    "zero_and_repeated_inputs": Check(
        "numerics", "with zero queries or keys, and repeated keys, all methods agree and are finite"
    ),
    "declared_matmul_flops": Check("declared_cost", "declared matmul FLOPs equal those counted"),
    "declared_transcendental_ops": Check(
        "declared_cost", "declared evaluations of exp, tanh and the like equal those counted"
    ),
    "declared_flops": Check("declared_cost", "declared FLOPs are within 2 % of those counted"),
    "declared_backward_matmul_flops": Check(
        "declared_cost", "declared matmul FLOPs of the backward pass equal those counted"
    ),
    "declared_step_matmul_flops": Check(
        "declared_cost", "declared matmul FLOPs of one decoding step equal those counted"
    ),
    "declared_memory": Check(
        "declared_cost", "declared memory is within a factor of two of the peak"
    ),
    "declared_parameters": Check(
        "declared_cost", "declared parameters equal the number of trainable parameters"
    ),
    "declared_state": Check(
        "declared_cost", "declared state equals the number of elements of the decoding state"
    ),
    "declared_sequential_steps": Check(
        "declared_cost",
        "sequential steps grow with the length if and only if the chain of dependent operators does",
    ),
    "declared_max_path_length": Check(
        "declared_cost",
        "the maximum path length is the number of layers that connects all visible positions",
    ),
    "state_dict_round_trip": Check(
        "declared", "saved and loaded into another instance, it gives the same output"
    ),
    "rejects_undeclared_masks": Check(
        "declared", "a kind of mask that is not declared raises an error"
    ),
    "rejects_missing_causal": Check(
        "declared", "a causal-only mechanism raises an error without a causal mask"
    ),
    "rejects_overlong": Check(
        "declared", "more keys than max_length raise an error that contains both numbers"
    ),
    "rejects_uneven_heads": Check(
        "declared", "key/value heads that do not divide the query heads raise an error"
    ),
    "rejects_unknown_keyword": Check("declared", "an undeclared keyword raises an error"),
}
