"""The attention workbench: build, train, compare, inspect and cost attention mechanisms.

    from regard import MultiHead, build_mechanism

`regard.train`, `cross_validate`, `predict`, `look`, `serve`, `study`, `report`, `plan`, `cost`,
`check`, `overview` and `list_names`, `regard.claims.run` and `regard.data.describe` are the verbs of the
command line.

Names are imported on first use: `import regard` does not import torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.core.exports import lazy_exports

if TYPE_CHECKING:
    from regard import claims as claims, data as data
    from regard.api import (
        check as check,
        cost as cost,
        cross_validate as cross_validate,
        list_mechanisms as list_mechanisms,
        list_names as list_names,
        list_settings as list_settings,
        look as look,
        overview as overview,
        plan as plan,
        predict as predict,
        report as report,
        serve as serve,
        study as study,
        train as train,
    )
    from regard.conformance.suite import check_mechanism as check_mechanism
    from regard.core.cost import AttentionShape as AttentionShape, Cost as Cost
    from regard.core.counter import Counter as Counter
    from regard.core.errors import RegardError as RegardError
    from regard.core.malloc import keep_freed_memory as keep_freed_memory
    from regard.core.masks import (
        Allowed as Allowed,
        Causal as Causal,
        Mask as Mask,
        Padding as Padding,
        Window as Window,
    )
    from regard.core.mechanism import Mechanism as Mechanism
    from regard.layers.alibi import Alibi as Alibi
    from regard.layers.blocks import DecoderBlock as DecoderBlock, EncoderBlock as EncoderBlock
    from regard.layers.convolution import Convolution as Convolution
    from regard.layers.cost import SequenceShape as SequenceShape
    from regard.layers.dropout import Dropout as Dropout
    from regard.layers.feed_forward import FeedForward as FeedForward
    from regard.layers.multi_head import MultiHead as MultiHead
    from regard.layers.pooling import (
        ContextPooling as ContextPooling,
        StructuredPooling as StructuredPooling,
        frobenius_penalty as frobenius_penalty,
        pairwise_kl_penalty as pairwise_kl_penalty,
    )
    from regard.layers.positions import (
        LearnedPositions as LearnedPositions,
        SinusoidalPositions as SinusoidalPositions,
        build_position as build_position,
    )
    from regard.layers.recurrent import Recurrent as Recurrent
    from regard.layers.rotary import Rotary as Rotary
    from regard.mechanisms import MECHANISMS as MECHANISMS, build_mechanism as build_mechanism
    from regard.models import MODELS as MODELS, build_model as build_model
    from regard.models.autoencoders.linear import LinearAutoencoder as LinearAutoencoder
    from regard.models.generation.search import decode as decode
    from regard.models.seq2seq.recurrent import RecurrentEncoderDecoder as RecurrentEncoderDecoder
    from regard.models.seq2seq.transformer import Transformer as Transformer
    from regard.runs.load import load as load
    from regard.runs.spec import RunSpec as RunSpec

__version__ = "0.2.0"

__all__, __getattr__, __dir__ = lazy_exports(__name__)
