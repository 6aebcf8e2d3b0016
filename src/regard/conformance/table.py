"""Every check: its name, where it lives, and what it demands, in one line.

The table holds strings, so listing the checks imports neither them nor torch. The function has the
name of the entry.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """The module of `regard.conformance` that holds the function, and what the function demands."""

    module: str
    demands: str


CHECKS: dict[str, Check] = {
    "capabilities_well_formed": Check(
        "declared", "capabilities, extras and cost hold values of the declared kinds"
    ),
    "forward_equals_weights": Check(
        "equivalence", "forward is weights @ value under every mask it takes, alone and combined"
    ),
    "weights_are_forward_on_one_hot": Check(
        "equivalence", "values that are one-hot vectors come out as the weights"
    ),
    "grouped_heads": Check(
        "equivalence", "fewer key/value heads give what repeating each for its group gives"
    ),
    "unequal_widths": Check(
        "equivalence", "queries may be wider than keys if the constructor takes both widths"
    ),
    "score_bias_in_both_faces": Check(
        "equivalence", "a score bias changes forward and weights alike, and a zero bias neither"
    ),
    "forward_when_long": Check(
        "equivalence", "forward is weights @ value at every place of 419 tokens, under every mask"
    ),
    "rows_sum_to_one_or_zero": Check(
        "equivalence", "a row of weights sums to one, or to zero with nothing to attend to"
    ),
    "weights_nonnegative": Check("equivalence", "no weight is negative"),
    "causal_leak_values": Check(
        "masking", "later positions leave earlier outputs as they are, however large they are"
    ),
    "causal_leak_gradients": Check(
        "masking", "the gradient of an output with respect to anything later is exactly zero"
    ),
    "causal_alignment": Check(
        "masking", "the last query stands at the last key, with fewer queries or with more"
    ),
    "masked_pairs_have_no_weight": Check("masking", "the weight of a forbidden pair is exactly 0"),
    "masking_is_deleting": Check(
        "masking", "a query reads under a mask what it would read from only the keys it may see"
    ),
    "window_mask": Check(
        "masking", "Window(0) is the own position, a wide window is none, the outside has no say"
    ),
    "window_radii": Check(
        "masking",
        "Window(r) is the band as a boolean mask, for radii from 0 to beyond the length",
    ),
    "allowed_in_every_shape": Check(
        "masking", "a pattern of any shape that broadcasts is the same pattern spelled out"
    ),
    "padding_invariance": Check(
        "masking", "padded keys may hold anything and are as if they were cut off"
    ),
    "fully_masked_rows": Check(
        "masking", "a query with nothing to attend to gets zeros and sends back zeros"
    ),
    "batch_independence": Check("numerics", "a row alone gives what it gives in any batch"),
    "head_independence": Check("numerics", "one head's inputs leave the others as they are"),
    "permutation_behaviour": Check(
        "numerics", "the order of the keys matters if declared position_aware, else not"
    ),
    "decoding_equals_forward": Check(
        "decoding", "token by token, or in pieces, step gives the rows of the causal forward"
    ),
    "decoding_with_bias": Check("decoding", "the same with a score bias"),
    "extending_in_pieces": Check(
        "decoding", "a read after several extends is the last row of forward over all the keys"
    ),
    "reading_padded_keys": Check(
        "decoding", "one padded extend and many reads give what forward gives on the real keys"
    ),
    "decoding_after_padding": Check(
        "decoding", "prompts of different lengths each continue where they ended"
    ),
    "decoding_after_padding_with_bias": Check(
        "decoding", "the same with a score bias, which is taken at each row's own positions"
    ),
    "decoding_when_long": Check(
        "equivalence",
        "after a long prompt in large pieces, steps and a read give the rows of forward",
    ),
    "decoding_nothing": Check("masking", "extending by no tokens changes nothing"),
    "reading_nothing": Check("decoding", "an empty state reads as zeros"),
    "state_form": Check(
        "decoding", "a state is a named tuple of batch-first tensors with position"
    ),
    "state_position": Check("decoding", "position counts the real tokens of each row"),
    "state_select": Check(
        "decoding", "after select(index) decoding continues on the reordered, repeated rows"
    ),
    "state_not_mutated": Check(
        "decoding", "extend and read leave a state as it was, so that it can be branched from"
    ),
    "chunk_size_independence": Check("equivalence", "the attribute chunk_size changes no number"),
    "form_independence": Check("equivalence", "the attribute form changes no number"),
    "gradient_check": Check(
        "gradients", "gradients of every input and parameter are those of finite differences"
    ),
    "gradients_through_weights": Check(
        "gradients", "gradients through forward are those through weights @ value"
    ),
    "gradients_in_a_larger_batch": Check(
        "gradients", "a row of a batch of five sends back what it sends back alone"
    ),
    "every_parameter_learns": Check("gradients", "every parameter receives a nonzero gradient"),
    "lengths_zero_and_one": Check("masking", "no keys, no queries, one of each"),
    "memory_layout": Check("numerics", "transposed, strided and expanded inputs give the same"),
    "inputs_not_mutated": Check("numerics", "no face writes into what it was given"),
    "dtype_preserved": Check("numerics", "the output has the number type of the input"),
    "finite_at_large_scores": Check(
        "numerics", "outputs and gradients stay finite in float32 with inputs 100 times too large"
    ),
    "faces_agree_at_large_scores": Check(
        "numerics",
        "with scores up to ±60 all faces agree in float32 to three digits, rows sum to one",
    ),
    "float32_matches_float64": Check("numerics", "float32 gives float64's output to four digits"),
    "deterministic_in_eval": Check(
        "numerics", "the same call gives the same bits, in training mode too"
    ),
    "extras_at_their_extremes": Check(
        "numerics", "with saturated extras all faces agree, and float32 stays finite"
    ),
    "zero_and_repeated_inputs": Check(
        "numerics",
        "with queries or keys of zero, and repeated keys, all faces agree and are finite",
    ),
    "declared_products": Check("declared_cost", "declared products are exactly those counted"),
    "declared_functions": Check(
        "declared_cost", "declared function evaluations are exactly those counted"
    ),
    "declared_arithmetic": Check(
        "declared_cost",
        "declared products, functions and arithmetic are within 2 % of all operations",
    ),
    "declared_backward": Check(
        "declared_cost", "declared products of the backward pass are exactly those counted"
    ),
    "declared_step": Check(
        "declared_cost", "declared products of decoding one token are exactly those counted"
    ),
    "declared_memory": Check(
        "declared_cost", "declared memory is within a factor of two of the peak"
    ),
    "declared_parameters": Check(
        "declared_cost", "declared parameters are exactly those there are"
    ),
    "declared_state": Check(
        "declared_cost", "declared state is exactly what the decoding state holds"
    ),
    "declared_sequential_steps": Check(
        "declared_cost",
        "sequential steps grow with the length if the chain of dependent operators does",
    ),
    "declared_longest_path": Check(
        "declared_cost", "the longest path is what walking along the nonzero weights takes"
    ),
    "state_dict_round_trip": Check(
        "declared", "saved and loaded into another instance it gives the same output"
    ),
    "refuses_foreign_masks": Check("declared", "a kind of mask that is not declared is refused"),
    "refuses_missing_causal": Check(
        "declared", "a mechanism that requires a causal mask refuses to work without"
    ),
    "refuses_overlong": Check(
        "declared", "more keys than max_length are refused, naming both numbers"
    ),
    "refuses_uneven_heads": Check(
        "declared", "key/value heads that do not divide the query heads are refused"
    ),
    "refuses_unknown_keyword": Check("declared", "a keyword that is not declared is refused"),
}
