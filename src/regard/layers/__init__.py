"""Layers: multi-head attention, position encodings, Transformer blocks, pooling; RNN, convolution, MLP.

Every layer takes (batch, length, width) and has `cost(SequenceShape(...))`, so that any two can be
compared.
"""

from typing import TYPE_CHECKING

from regard.core.exports import lazy_exports

if TYPE_CHECKING:
    from regard.layers.alibi import Alibi as Alibi
    from regard.layers.blocks import (
        DecoderBlock as DecoderBlock,
        EncoderBlock as EncoderBlock,
        Residual as Residual,
    )
    from regard.layers.convolution import Convolution as Convolution
    from regard.layers.cost import SequenceShape as SequenceShape
    from regard.layers.dropout import Dropout as Dropout
    from regard.layers.feed_forward import FeedForward as FeedForward
    from regard.layers.multi_head import MultiHead as MultiHead
    from regard.layers.names import POOLING as POOLING, POSITIONS as POSITIONS
    from regard.layers.pooling import (
        ContextPooling as ContextPooling,
        StructuredPooling as StructuredPooling,
        frobenius_penalty as frobenius_penalty,
        pairwise_kl_penalty as pairwise_kl_penalty,
    )
    from regard.layers.positions import (
        LearnedPositions as LearnedPositions,
        NoPositions as NoPositions,
        SinusoidalPositions as SinusoidalPositions,
        build_position as build_position,
    )
    from regard.layers.positions_2d import (
        Rotary2D as Rotary2D,
        SinusoidalPositions2D as SinusoidalPositions2D,
        build_position_2d as build_position_2d,
    )
    from regard.layers.recurrent import (
        BidirectionalRecurrent as BidirectionalRecurrent,
        Recurrent as Recurrent,
    )
    from regard.layers.rotary import Rotary as Rotary
    from regard.layers.sentence_pooling import SentencePooling as SentencePooling

__all__, __getattr__, __dir__ = lazy_exports(__name__)
