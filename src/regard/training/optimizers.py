"""Optimizers and their parameter groups.

    adamw   AdamW for all parameters (Loshchilov & Hutter 2019)
    muon    Muon for hidden matrices (Jordan et al. 2024), AdamW for the rest
    sgd     stochastic gradient descent with momentum for all parameters

Weight decay applies to the matrices of linear, convolutional and recurrent layers only: not to biases,
norms, embeddings, or matrices tied to an embedding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd
from torch.optim import SGD, AdamW, Muon, Optimizer

from regard.core.registry import lookup
from regard.training.options import TrainingOptions

DECAYING = (nn.Linear, nn.Bilinear, nn.RNNBase, nn.RNNCellBase, _ConvNd)
EMBEDDINGS = (nn.Embedding, nn.EmbeddingBag)

NamedParameters = dict[str, nn.Parameter]


class ParameterGroups(NamedTuple):
    """The trainable parameters of a model by name, in the model's order."""

    hidden: NamedParameters  # matrices with weight decay, between input and output
    decay: NamedParameters  # other tensors with weight decay: the output layer, convolutions
    no_decay: NamedParameters


def parameter_groups(model: nn.Module) -> ParameterGroups:
    """Group the parameters of a model.

    A linear layer whose outputs are as many as an embedding's rows counts as the output layer.
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
    groups = ParameterGroups({}, {}, {})
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        if id(parameter) in embedded or id(parameter) not in decays:
            groups.no_decay[name] = parameter
        elif id(parameter) in outputs or parameter.ndim != 2:
            groups.decay[name] = parameter
        else:
            groups.hidden[name] = parameter
    return groups


def adamw(model: nn.Module, options: TrainingOptions) -> list[Optimizer]:
    """AdamW for all parameters."""
    groups = parameter_groups(model)
    return _adamw(options, decay={**groups.hidden, **groups.decay}, no_decay=groups.no_decay)


def muon(model: nn.Module, options: TrainingOptions) -> list[Optimizer]:
    """Muon for hidden matrices, AdamW for the rest."""
    groups = parameter_groups(model)
    rest = _adamw(options, decay=groups.decay, no_decay=groups.no_decay)
    if not groups.hidden:
        return rest
    matrices = Muon(
        [_group(groups.hidden, options.muon_learning_rate, options.weight_decay)],
        lr=options.muon_learning_rate,
    )
    return [matrices, *rest]


def sgd(model: nn.Module, options: TrainingOptions) -> list[Optimizer]:
    """SGD with momentum for all parameters."""
    groups = parameter_groups(model)
    found = _groups(options, decay={**groups.hidden, **groups.decay}, no_decay=groups.no_decay)
    return [SGD(found, lr=options.learning_rate, momentum=options.momentum)] if found else []


OPTIMIZERS: dict[str, Callable[[nn.Module, TrainingOptions], list[Optimizer]]] = {
    "adamw": adamw,
    "muon": muon,
    "sgd": sgd,
}


def build_optimizers(model: nn.Module, options: TrainingOptions) -> list[Optimizer]:
    """The optimizers of `options.optimizer`, which together cover every trainable parameter once."""
    return lookup("optimizer", options.optimizer, OPTIMIZERS)(model, options)


def set_learning_rates(optimizers: list[Optimizer], factor: float) -> None:
    """Set every learning rate to `factor` times its peak."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = group["peak_lr"] * factor


def optimizer_state(optimizers: list[Optimizer], model: nn.Module) -> dict[str, Tensor]:
    """The optimizer state as `<parameter>.<field>`, in the model's order."""
    found = {}
    for name, parameter in model.named_parameters():
        for optimizer in optimizers:
            for field, value in optimizer.state.get(parameter, {}).items():
                found[f"{name}.{field}"] = value
    return found


def load_optimizer_state(
    optimizers: list[Optimizer], model: nn.Module, tensors: dict[str, Tensor]
) -> list[str]:
    """Restore `optimizer_state`; returns the names that match no parameter."""
    owner = {
        id(parameter): optimizer
        for optimizer in optimizers
        for group in optimizer.param_groups
        for parameter in group["params"]
    }
    parameters = dict(model.named_parameters())
    unexpected = []
    for name, value in tensors.items():
        parameter_name, _, field = name.rpartition(".")
        parameter = parameters.get(parameter_name)
        matches = parameter is not None and value.shape in (parameter.shape, torch.Size([]))
        if parameter is None or not matches or id(parameter) not in owner:
            unexpected.append(name)
            continue
        # On the parameter's device, where fused kernels need the step counter too.
        owner[id(parameter)].state[parameter][field] = value.to(parameter.device, copy=True)
    return unexpected


def _adamw(
    options: TrainingOptions, *, decay: NamedParameters, no_decay: NamedParameters
) -> list[Optimizer]:
    groups = _groups(options, decay=decay, no_decay=no_decay)
    if not groups:
        return []
    # The fused kernel reads and writes every tensor once.
    return [
        AdamW(
            groups,
            lr=options.learning_rate,
            betas=(options.beta1, options.beta2),
            eps=options.epsilon,
            fused=True,
        )
    ]


def _groups(
    options: TrainingOptions, *, decay: NamedParameters, no_decay: NamedParameters
) -> list[dict[str, Any]]:
    groups = (
        _group(decay, options.learning_rate, options.weight_decay),
        _group(no_decay, options.learning_rate, 0.0),
    )
    return [group for group in groups if group["params"]]


def _group(parameters: NamedParameters, rate: float, decay: float) -> dict[str, Any]:
    return {
        "params": list(parameters.values()),
        "lr": rate,
        "peak_lr": rate,
        "weight_decay": decay,
    }
