"""Everything the mechanism has learned or drawn is in its state_dict, and is used from there."""

from __future__ import annotations

import torch
from safetensors.torch import load, save

from regard.conformance.case import KEYS, Case
from regard.conformance.inputs import forward
from regard.conformance.verdict import demand, same


def state_dict_round_trip(case: Case) -> None:
    """Saved as safetensors and loaded into an instance that began otherwise: the same output."""
    inputs = case.draw_tokens(KEYS)
    expected = forward(case.mechanism, inputs, case.open_mask)
    state = {name: tensor.contiguous() for name, tensor in case.mechanism.state_dict().items()}
    fresh = case.build(seed=case.seed + 1)
    fresh.load_state_dict(load(save(state)), strict=True)
    same(forward(fresh, inputs, case.open_mask), expected, "the output after saving and loading")
    for name, tensor in state.items():
        if not tensor.is_floating_point():
            continue
        noise = torch.randn(tensor.shape, generator=case.generator, dtype=tensor.dtype)
        fresh.load_state_dict({**state, name: tensor + noise}, strict=True)
        changed = not torch.equal(forward(fresh, inputs, case.open_mask), expected)
        demand(changed, f"loading another '{name}' changes nothing: what is used is kept elsewhere")
