"""Build, train, check, price and look into attention mechanisms, on evidence.

    from regard import MultiHead, build_mechanism

Names arrive on first use: `import regard` alone does not import torch, so that the command line
answers at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regard.conformance import check_mechanism
    from regard.core.allocator import keep_freed_memory
    from regard.core.cost import AttentionShape, Cost
    from regard.core.counter import Counter
    from regard.core.errors import RegardError
    from regard.core.masks import Allowed, Causal, Mask, Padding, Window
    from regard.core.mechanism import Mechanism
    from regard.layers.alibi import Alibi
    from regard.layers.context_pooling import ContextPooling
    from regard.layers.convolution import Convolution
    from regard.layers.decoder_block import DecoderBlock
    from regard.layers.dropout import Dropout
    from regard.layers.encoder_block import EncoderBlock
    from regard.layers.feed_forward import FeedForward
    from regard.layers.layer_cost import SequenceShape
    from regard.layers.learned import LearnedPositions
    from regard.layers.multi_head import MultiHead
    from regard.layers.penalties import frobenius_penalty, pairwise_kl_penalty
    from regard.layers.positions import build_position
    from regard.layers.recurrent import Recurrent
    from regard.layers.rotary import Rotary
    from regard.layers.sinusoidal import SinusoidalPositions
    from regard.layers.structured_pooling import StructuredPooling
    from regard.mechanisms import MECHANISMS, build_mechanism
    from regard.models import MODELS, build_model
    from regard.models.decoding import decode
    from regard.models.linear_autoencoder import LinearAutoencoder
    from regard.models.recurrent import RecurrentEncoderDecoder
    from regard.models.transformer import Transformer
    from regard.runs.spec import RunSpec
    from regard.runs.trained import load

__version__ = "0.1.0"

__all__ = [
    "MECHANISMS",
    "MODELS",
    "Alibi",
    "Allowed",
    "AttentionShape",
    "Causal",
    "ContextPooling",
    "Convolution",
    "Cost",
    "Counter",
    "DecoderBlock",
    "Dropout",
    "EncoderBlock",
    "FeedForward",
    "LearnedPositions",
    "LinearAutoencoder",
    "Mask",
    "Mechanism",
    "MultiHead",
    "Padding",
    "Recurrent",
    "RecurrentEncoderDecoder",
    "RegardError",
    "Rotary",
    "RunSpec",
    "SequenceShape",
    "SinusoidalPositions",
    "StructuredPooling",
    "Transformer",
    "Window",
    "build_mechanism",
    "build_model",
    "build_position",
    "check_mechanism",
    "decode",
    "frobenius_penalty",
    "keep_freed_memory",
    "load",
    "pairwise_kl_penalty",
]

_MODULE_OF = {
    "Alibi": "regard.layers.alibi",
    "Allowed": "regard.core.masks",
    "AttentionShape": "regard.core.cost",
    "Causal": "regard.core.masks",
    "ContextPooling": "regard.layers.context_pooling",
    "Convolution": "regard.layers.convolution",
    "Cost": "regard.core.cost",
    "Counter": "regard.core.counter",
    "DecoderBlock": "regard.layers.decoder_block",
    "Dropout": "regard.layers.dropout",
    "EncoderBlock": "regard.layers.encoder_block",
    "FeedForward": "regard.layers.feed_forward",
    "LearnedPositions": "regard.layers.learned",
    "MECHANISMS": "regard.mechanisms",
    "MODELS": "regard.models",
    "LinearAutoencoder": "regard.models.linear_autoencoder",
    "Mask": "regard.core.masks",
    "Mechanism": "regard.core.mechanism",
    "MultiHead": "regard.layers.multi_head",
    "Padding": "regard.core.masks",
    "Recurrent": "regard.layers.recurrent",
    "RecurrentEncoderDecoder": "regard.models.recurrent",
    "RegardError": "regard.core.errors",
    "Rotary": "regard.layers.rotary",
    "RunSpec": "regard.runs.spec",
    "SequenceShape": "regard.layers.layer_cost",
    "SinusoidalPositions": "regard.layers.sinusoidal",
    "StructuredPooling": "regard.layers.structured_pooling",
    "Transformer": "regard.models.transformer",
    "Window": "regard.core.masks",
    "build_mechanism": "regard.mechanisms",
    "build_model": "regard.models",
    "build_position": "regard.layers.positions",
    "check_mechanism": "regard.conformance",
    "decode": "regard.models.decoding",
    "frobenius_penalty": "regard.layers.penalties",
    "keep_freed_memory": "regard.core.allocator",
    "load": "regard.runs.trained",
    "pairwise_kl_penalty": "regard.layers.penalties",
}


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        from difflib import get_close_matches

        near = get_close_matches(name, __all__, n=1)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        # Given the name, the interpreter does not add a guess of its own to a traceback.
        raise AttributeError(
            f"module 'regard' has no attribute '{name}'. It exports: {', '.join(__all__)}.{hint}",
            name=name,
        )
    value: object = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value  # the next use does not come through here
    return value


def __dir__() -> list[str]:
    # What this file itself imports is not for its users.
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
