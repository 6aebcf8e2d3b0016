"""Parts of a `LookRecord` that runs and pretrained models have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from jaxtyping import Float, Int
from torch import Tensor

from regard.core.formatting import truncate
from regard.core.records.look import Axis, OutputToken
from regard.explain.trace import AttentionCall

NEW_TOKENS = 20  # that a language model writes, by default
MOST_PROBABLE = 10  # next tokens that are listed
MAX_SHOWN = 60  # characters of an output in a sentence


def centred(
    logits: Float[Tensor, "*rows outputs"], labels: Int[Tensor, "*rows"]
) -> Float[Tensor, "*rows"]:
    """The logit of each label minus the mean of all: adding a number to all logits changes nothing."""
    return logits.gather(-1, labels[..., None])[..., 0] - logits.mean(dim=-1)


def centred_logits(
    logits: Float[Tensor, "rows outputs"], labels: Int[Tensor, " rows"]
) -> Float[Tensor, ""]:
    """The sum of the logits of the labels, each minus the mean of its row; the logit itself of one output.

    >>> import torch
    >>> centred_logits(torch.tensor([[3.0, 1.0]]), torch.tensor([0]))
    tensor(1.)
    """
    return logits.sum() if logits.shape[1] == 1 else centred(logits, labels).sum()


def numbered_axis(noun: str, count: int) -> Axis:
    """Positions without names."""
    return Axis(tokens=tuple(f"{noun} {number + 1}" for number in range(count)))


def axes_of(call: AttentionCall, *, axes: Mapping[str, Axis]) -> tuple[str, str]:
    """The axes of the queries and the keys of a layer, among those of a record."""
    if call.role == "pooling":
        is_upper = call.num_keys != len(axes["input"].tokens)
        return "hops", "sentences" if is_upper else "input"
    if call.role == "cross":
        return "output", "input"
    is_decoder = call.is_causal and "decoder_input" in axes
    return ("output", "decoder_input") if is_decoder else ("input", "input")


def logits_of(output: str) -> str:
    """What is explained."""
    return f"logits of '{truncate(output, MAX_SHOWN)}', minus the mean of all logits"


def other_output_note(output: str) -> str:
    """A note on an output that the model was given."""
    return f"The attention is that of the given output '{truncate(output, MAX_SHOWN)}', not of its own."


def output_tokens(names: Sequence[str], likely: Sequence[float]) -> tuple[OutputToken, ...]:
    """Tokens with their log-probabilities."""
    return tuple(
        OutputToken(token=name, log_probability=value)
        for name, value in zip(names, likely, strict=True)
    )


def most_probable(
    probabilities: Float[Tensor, " vocabulary"], tokens_of: Callable[[list[int]], Sequence[str]]
) -> dict[str, float]:
    """The most probable tokens; of tokens that read alike, such as parts of characters, the first."""
    best = probabilities.topk(min(MOST_PROBABLE, len(probabilities)))
    found: dict[str, float] = {}
    for name, value in zip(tokens_of(best.indices.tolist()), best.values.tolist(), strict=True):
        found.setdefault(name, value)
    return found
