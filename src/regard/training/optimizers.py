"""Which parameter is moved by which optimiser, and with which weight decay.

    adamw   AdamW for all (Loshchilov & Hutter 2019)
    muon    Muon for the matrices between input and output (Jordan et al. 2024), AdamW for the rest

Only matrices of linear, convolutional and recurrent layers decay: not biases, norms or embeddings, nor
a matrix that is tied to an embedding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd
from torch.optim import AdamW, Muon, Optimizer

from regard.core.registry import look_up
from regard.training.options import TrainingOptions

DECAYING = (nn.Linear, nn.Bilinear, nn.RNNBase, nn.RNNCellBase, _ConvNd)
EMBEDDINGS = (nn.Embedding, nn.EmbeddingBag)

Named = dict[str, nn.Parameter]


class Kinds(NamedTuple):
    """The trainable parameters of a model by name, in the model's order."""

    hidden: Named  # matrices that decay, between input and output
    decaying: Named  # all other tensors that decay: the output layer, convolutions
    plain: Named  # what does not decay


def kinds(model: nn.Module) -> Kinds:
    """Sort the parameters of a model.

    A linear layer with as many outputs as some embedding has rows is taken for the output layer.
    """
    embeddings = [module for module in model.modules() if isinstance(module, EMBEDDINGS)]
    embedded = {id(module.weight) for module in embeddings}
    vocabularies = {module.num_embeddings for module in embeddings}
    decays: set[int] = set()
    outputs: set[int] = set()
    for module in model.modules():
        if isinstance(module, DECAYING):
            decays |= {id(own) for own in module.parameters(recurse=False) if own.ndim > 1}
        if isinstance(module, nn.Linear) and module.out_features in vocabularies:
            outputs.add(id(module.weight))
    found = Kinds({}, {}, {})
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        if id(parameter) in embedded or id(parameter) not in decays:
            found.plain[name] = parameter
        elif id(parameter) in outputs or parameter.ndim != 2:
            found.decaying[name] = parameter
        else:
            found.hidden[name] = parameter
    return found


def adamw(model: nn.Module, options: TrainingOptions) -> list[Optimizer]:
    """AdamW over everything."""
    found = kinds(model)
    return _adamw(options, decaying={**found.hidden, **found.decaying}, plain=found.plain)


def muon(model: nn.Module, options: TrainingOptions) -> list[Optimizer]:
    """Muon over the hidden matrices, AdamW over the rest."""
    found = kinds(model)
    rest = _adamw(options, decaying=found.decaying, plain=found.plain)
    if not found.hidden:
        return rest
    matrices = Muon(
        [_group(found.hidden, options.muon_learning_rate, options.weight_decay)],
        lr=options.muon_learning_rate,
    )
    return [matrices, *rest]


OPTIMIZERS: dict[str, Callable[[nn.Module, TrainingOptions], list[Optimizer]]] = {
    "adamw": adamw,
    "muon": muon,
}


def build_optimizers(model: nn.Module, options: TrainingOptions) -> list[Optimizer]:
    """The optimisers that together move every trainable parameter once."""
    return look_up("optimizer", options.optimizer, OPTIMIZERS)(model, options)


def set_rates(optimizers: list[Optimizer], factor: float) -> None:
    """Set every learning rate to `factor` of its peak."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = group["peak_rate"] * factor


def state_tensors(optimizers: list[Optimizer], model: nn.Module) -> dict[str, Tensor]:
    """What the optimisers remember, as `<parameter>.<field>`, in the model's order."""
    found = {}
    for name, parameter in model.named_parameters():
        for optimizer in optimizers:
            for field, value in optimizer.state.get(parameter, {}).items():
                found[f"{name}.{field}"] = value
    return found


def load_state_tensors(
    optimizers: list[Optimizer], model: nn.Module, tensors: dict[str, Tensor]
) -> list[str]:
    """Give the optimisers what `state_tensors` told; the names that fit no parameter come back."""
    owner = {
        id(parameter): optimizer
        for optimizer in optimizers
        for group in optimizer.param_groups
        for parameter in group["params"]
    }
    parameters = dict(model.named_parameters())
    strange = []
    for name, value in tensors.items():
        parameter_name, _, field = name.rpartition(".")
        parameter = parameters.get(parameter_name)
        fits = parameter is not None and value.shape in (parameter.shape, torch.Size([]))
        if parameter is None or not fits or id(parameter) not in owner:
            strange.append(name)
            continue
        # A counter of steps stays where the optimiser keeps it: fused kernels want it at the parameter.
        owner[id(parameter)].state[parameter][field] = value.to(parameter.device, copy=True)
    return strange


def _adamw(options: TrainingOptions, *, decaying: Named, plain: Named) -> list[Optimizer]:
    groups = [
        _group(decaying, options.learning_rate, options.weight_decay),
        _group(plain, options.learning_rate, 0.0),
    ]
    groups = [group for group in groups if group["params"]]
    if not groups:
        return []
    # The fused step reads and writes every tensor once.
    return [
        AdamW(
            groups,
            lr=options.learning_rate,
            betas=(options.beta1, options.beta2),
            eps=options.epsilon,
            fused=True,
        )
    ]


def _group(parameters: Named, rate: float, decay: float) -> dict[str, Any]:
    return {
        "params": list(parameters.values()),
        "lr": rate,
        "peak_rate": rate,
        "weight_decay": decay,
    }
