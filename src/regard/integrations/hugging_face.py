"""Tracing the attention of Hugging Face models, while their fused kernel computes it.

    with trace_hugging_face(model) as trace, torch.no_grad():
        model(**tokenizer("a text", return_tensors="pt"))
    trace["encoder/0"].weights()         (batch, heads, queries, keys)

For the time of the trace, the attention functions that `transformers` calls also record their arguments by
reference; the kernel stays `scaled_dot_product_attention`. Weights are computed for a layer when they are
asked for. Interventions and `hold` are those of `regard.explain.trace_attention`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.core.errors import MissingDependencyError
from regard.core.masks import Mask
from regard.core.mechanism import repeat_heads
from regard.core.registry import lookup
from regard.explain.trace import AttentionCall, Intervention, Trace, held_norm, intervene

Kind = Literal["encoder", "decoder", "seq2seq"]

# model_type of a configuration → what its stack of layers is.
ARCHITECTURES: dict[str, Kind] = {
    "bert": "encoder",
    "roberta": "encoder",
    "xlm-roberta": "encoder",
    "gpt2": "decoder",
    "llama": "decoder",
    "mistral": "decoder",
    "qwen2": "decoder",
    "qwen3": "decoder",
    "t5": "seq2seq",
    "mt5": "seq2seq",
}

# The name of our attention function and of its mask function, which has to be the same: without the second,
# transformers passes no mask. A name with "sdpa" in it would be checked as that implementation.
NAME = "regard_trace"
INSTALL = "pip install 'regard[pretrained]'"

# The trace of each attention layer of the models that are being traced.
_TRACERS: dict[nn.Module, _Tracer] = {}


def import_transformers() -> Any:
    """The library, or an error that says how to install it."""
    try:
        import transformers
    except ImportError as error:
        raise MissingDependencyError(
            f"Hugging Face models are read with transformers, which cannot be imported ({error}). "
            f"Run: {INSTALL}"
        ) from error
    return transformers


def architecture_kind(model_type: str) -> Kind:
    """What a model of this type is; an error names the supported ones."""
    kind: Kind = lookup("Hugging Face architecture", model_type, ARCHITECTURES)
    return kind


@contextmanager
def trace_hugging_face(
    model: Any, *, interventions: Iterable[Intervention] = (), hold: bool = False
) -> Iterator[Trace]:
    """Record the attention of a `PreTrainedModel` inside the `with` block.

    A later call of a layer replaces an earlier one. Layers are named "encoder/0", "decoder/0", "cross/0".
    With `hold`, queries, keys, position biases and the scales of layer norms are constants of the
    backward pass, and the inputs of the first blocks are leaves (`Trace.embedded`). The model should be
    in evaluation mode. Inside the block it uses the kernel `scaled_dot_product_attention`, as it does by
    default. Interventions of one query need `use_cache=False` in `generate`.
    """
    library = import_transformers()
    architecture_kind(model.config.model_type)
    library.AttentionInterface.register(NAME, _attend)
    library.AttentionMaskInterface.register(NAME, library.AttentionMaskInterface()["sdpa"])
    tracer = _Tracer(
        model,
        interventions=tuple(interventions),
        hold=hold,
        attend=library.AttentionInterface()["sdpa"],
    )
    outer = dict(_TRACERS)
    previous = model.config._attn_implementation
    with ExitStack() as stack:
        for handle in tracer.hooks():
            stack.callback(handle)
        stack.callback(model.set_attn_implementation, previous)
        stack.callback(_TRACERS.update, {m: outer[m] for m in tracer.paths if m in outer})
        stack.callback(lambda: [_TRACERS.pop(module) for module in tracer.paths])
        _TRACERS.update(dict.fromkeys(tracer.paths, tracer))
        model.set_attn_implementation(NAME)
        yield tracer.trace
    for intervention in tracer.interventions:
        intervention.validate(tracer.trace[intervention.layer])


def attention_weights(
    query: Float[Tensor, "batch heads queries key_dim"],
    key: Float[Tensor, "batch kv_heads keys key_dim"],
    mask: Bool[Tensor, "#batch #heads #queries keys"]
    | Float[Tensor, "#batch #heads #queries keys"]
    | None,
    *,
    scaling: float,
    is_causal: bool,
    position_bias: Float[Tensor, "#batch heads queries keys"] | None,
) -> Float[Tensor, "batch heads queries keys"]:
    """The weights that the kernel applies to the values. A row in which all is masked is 0."""
    scores = query @ repeat_heads(key, query.shape[1]).mT * scaling
    if is_causal:
        mask = torch.ones(scores.shape[2:], dtype=torch.bool, device=scores.device).tril()
    if position_bias is not None:
        # As transformers adds the two: such a mask has a finite minimum.
        lowest = torch.finfo(scores.dtype).min
        if mask is None or mask.dtype != torch.bool:
            mask = position_bias if mask is None else position_bias + mask
        else:
            mask = torch.where(mask, position_bias, lowest)
    if mask is None:
        return scores.softmax(dim=-1)
    if mask.dtype != torch.bool:
        return (scores + mask).softmax(dim=-1)
    weights = scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)
    return weights.masked_fill(~mask, 0.0)


def _attend(module: nn.Module, *inputs: Any, **options: Any) -> tuple[Tensor, None]:
    return _TRACERS[module].attended(module, *inputs, **options)


class _Tracer:
    """The attention layers of a model, and what is recorded of them."""

    def __init__(
        self,
        model: Any,
        *,
        interventions: tuple[Intervention, ...],
        hold: bool,
        attend: Callable[..., tuple[Tensor, None]],
    ) -> None:
        self.model: Any = model
        self.interventions, self.hold, self.attend = interventions, hold, attend
        self.trace = Trace()
        self.paths = {
            module: path
            for path, module in model.named_modules()
            if hasattr(module, "scaling") and hasattr(module, "is_causal")
        }

    def hooks(self) -> Iterator[Callable[[], object]]:
        """With `hold`, hold the scales of norms and detach the inputs of the first blocks."""
        if not self.hold:
            return
        for module in self.model.modules():
            if isinstance(module, nn.LayerNorm):
                yield module.register_forward_hook(held_norm).remove
            elif hasattr(module, "variance_epsilon"):
                yield module.register_forward_hook(_held_rms_norm).remove
        blocks = dict.fromkeys(
            found[1] for path in self.paths.values() if (found := re.match(r"(.*?\b0)\.", path))
        )
        is_seq2seq = self.model.config.is_encoder_decoder
        for path in blocks:
            stream = "output" if is_seq2seq and "decoder" in path else "input"
            hook = partial(self._embedded, stream)
            yield self.model.get_submodule(path).register_forward_pre_hook(hook).remove

    def attended(
        self,
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        *,
        scaling: float | None = None,
        position_bias: Tensor | None = None,
        is_causal: bool | None = None,
        **options: Any,
    ) -> tuple[Tensor, None]:
        """Attend with the fused kernel, and record the call."""
        if self.hold:
            query, key = query.detach(), key.detach()
            position_bias = None if position_bias is None else position_bias.detach()
        causal = bool(module.is_causal if is_causal is None else is_causal)
        written, _ = self.attend(
            module,
            query,
            key,
            value,
            mask,
            scaling=scaling,
            position_bias=position_bias,
            is_causal=is_causal,
            **options,
        )
        # The kernel is causal by itself without a mask, except for one query; the keys behind the last
        # query are then empty positions of a static cache.
        is_prefix = causal and mask is None and query.shape[2] > 1
        if is_prefix:
            key, value = key[:, :, : query.shape[2]], value[:, :, : query.shape[2]]
            position_bias = None if position_bias is None else position_bias[..., : query.shape[2]]
        path, heads = self.paths[module], query.shape[1]
        is_cross = "cross" in path.lower() or "EncDec" in path
        projection = _projection(self.model, path)
        weight = projection.weight.t() if isinstance(projection, nn.Linear) else projection.weight
        call = AttentionCall(
            name=f"{'cross' if is_cross else 'decoder' if causal else 'encoder'}/{_block_number(path)}",
            role="cross" if is_cross else "self",
            value=repeat_heads(value, heads),
            outputs=(written.transpose(1, 2),),
            projection=weight.unflatten(0, (heads, -1)),
            bias=projection.bias,
            mask=_mask(mask, is_causal=is_prefix),
            is_causal=causal,
            compute_weights=partial(
                attention_weights,
                query,
                key,
                mask,
                scaling=query.shape[-1] ** -0.5 if scaling is None else scaling,
                is_causal=is_prefix,
                position_bias=position_bias,
            ),
        )
        self.trace.calls[call.name], output = intervene(call, self.interventions)
        return output.transpose(1, 2), None

    def _embedded(self, stream: str, module: nn.Module, inputs: tuple[Any, ...]) -> Any:
        leaf = inputs[0].detach().requires_grad_()
        self.trace.embedded[stream] = leaf
        return (leaf, *inputs[1:])


def _projection(model: nn.Module, path: str) -> Any:
    """The layer after the heads: of BERT it is beside the attention layer, of the others in it."""
    module = model.get_submodule(path)
    for name in ("o_proj", "c_proj", "o"):
        if hasattr(module, name):
            return getattr(module, name)
    return model.get_submodule(f"{path.rpartition('.')[0]}.output.dense")


def _mask(mask: Tensor | None, *, is_causal: bool) -> Mask:
    """The mask of a call as `regard` has it."""
    if mask is None:
        return Mask(causal=is_causal)
    return Mask(
        allowed=mask if mask.dtype == torch.bool else mask > torch.finfo(mask.dtype).min / 2
    )


def _block_number(path: str) -> str:
    """The number of the block that a layer is in.

    >>> _block_number("decoder.block.3.layer.1.EncDecAttention")
    '3'
    """
    return next(each for each in path.split(".") if each.isdigit())


def _held_rms_norm(module: Any, inputs: tuple[Tensor], output: Tensor) -> Tensor:
    mean_square = inputs[0].detach().pow(2).mean(dim=-1, keepdim=True)
    scale = (mean_square + module.variance_epsilon).rsqrt()
    held: Tensor = module.weight * (inputs[0] * scale)
    # The values are those of the fast path to the last bit.
    return held + (output - held).detach()
