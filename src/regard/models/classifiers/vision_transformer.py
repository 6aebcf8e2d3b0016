"""Vision Transformer (ViT): an encoder over the patches of images, with any mechanism in each layer.

    patches + positions → blocks → class token, mean or attention pooling → classes

(Dosovitskiy et al. 2021; mean pooling: Beyer et al. 2022). Patches are in reading order, which is what
mechanisms with a window see; positions are those of the grid, by row and column.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.core.batches import ImageInput, ImageSpec
from regard.core.errors import RegardError
from regard.core.options import PositiveInt, Probability, validated
from regard.core.protocols import TextAttention
from regard.core.traits import Alternative, Size, Traits
from regard.layers.dropout import Dropout
from regard.layers.pooling import ContextPooling
from regard.layers.positions import NoPositions
from regard.layers.positions_2d import build_position_2d
from regard.layers.rotary import Rotary
from regard.models.classifier import ONE_OUTPUT, Classifier
from regard.models.stack import (
    ENCODER,
    MechanismOptions,
    Mechanisms,
    StackBuilder,
    block_weights,
)
from regard.models.stems import StemOptions, build_stem, grid_of

CLASS_TOKEN_STD = 0.02


class VisionTransformer(Classifier):
    """Vision Transformer.

    feed_forward_dim     width of the feed-forward layers; default: 4 × `model_dim`
    attention_dropout    dropout probability of attention weights
    norm_first           pre-norm blocks and a final norm, instead of post-norm
    position             positions over the grid of patches: sinusoidal, learned, rotary or none
    mechanism            any bidirectional mechanism, with `mechanism_options`; a list is one per layer, see
                         `models.stack`
    bias                 whether linear layers of the blocks have a bias
    pooling              what is classified: the "class_token", the "mean" of the patches, or their weighted
                         mean by a learned query, "attention"
    stem                 options of the stem, or a stem with a `grid`: "patches" of `patch_size`, or
                         "convolutional"; see `models.stems`
    """

    traits: ClassVar[Traits] = Traits(
        inputs=frozenset({"images"}),
        targets=ONE_OUTPUT,
        sizes={
            "model_dim": Size(unit=4, times="num_heads"),
            "feed_forward_dim": Size(follows="model_dim", ratio=4.0),
        },
        slots=(ENCODER,),
        alternatives=(
            Alternative(model="text_encoder", options={"model_dim": "model_dim"}),
            Alternative(model="convnet"),
        ),
    )

    @validated
    def __init__(
        self,
        *,
        source: ImageSpec,
        outputs: PositiveInt,
        model_dim: PositiveInt = 128,
        num_heads: PositiveInt = 4,
        num_layers: PositiveInt = 4,
        feed_forward_dim: PositiveInt | None = None,
        dropout: Probability = 0.1,
        attention_dropout: Probability = 0.0,
        activation: str = "gelu",
        norm_first: bool = True,
        position: Literal["sinusoidal", "learned", "rotary", "none"] = "learned",
        mechanism: Mechanisms = "scaled_dot",
        mechanism_options: MechanismOptions = None,
        num_kv_heads: PositiveInt | None = None,
        bias: bool = True,
        pooling: Literal["class_token", "mean", "attention"] = "class_token",
        stem: StemOptions = None,
    ) -> None:
        super().__init__()
        self.stem = build_stem(
            source, model_dim=model_dim, tokens=lambda _: nn.Identity(), stem=stem
        )
        self.grid = _grid(self.stem)
        self.class_token = None
        if pooling == "class_token":
            self.class_token = nn.Parameter(torch.empty(model_dim))
            nn.init.normal_(self.class_token, std=CLASS_TOKEN_STD)
        num_prefix = 0 if self.class_token is None else 1
        encoding = build_position_2d(
            position,
            model_dim=model_dim,
            head_dim=model_dim // num_heads,
            grid=self.grid,
            num_prefix=num_prefix,
        )
        rotary = encoding if isinstance(encoding, Rotary) else None
        self.position = encoding if rotary is None else NoPositions()
        self.dropout = Dropout(dropout)
        stack = StackBuilder(
            model_dim=model_dim,
            num_heads=num_heads,
            num_kv_heads=num_kv_heads,
            feed_forward_dim=feed_forward_dim,
            position="none" if rotary is None else rotary,
            max_length=num_prefix + self.grid[0] * self.grid[1],
            activation=activation,
            norm_first=norm_first,
            bias=bias,
            dropout=dropout,
            attention_dropout=attention_dropout,
        )
        self.blocks = stack.encoder(ENCODER, mechanism, mechanism_options, num_layers)
        self.norm = stack.final_norm()
        self.pooling = ContextPooling(model_dim=model_dim) if pooling == "attention" else None
        self.head = nn.Linear(model_dim, outputs)

    def hidden(self, input: ImageInput) -> Float[Tensor, "batch positions model_dim"]:
        """Features of the class token, if there is one, and of every patch."""
        x = self._embed(input)
        for block in self.blocks:
            x = block(x)
        normed: Tensor = self.norm(x)
        return normed

    def features(self, input: ImageInput) -> Float[Tensor, "batch model_dim"]:
        """The pooled vector of each image, with dropout."""
        hidden = self.hidden(input)
        if self.class_token is not None:
            pooled = hidden[:, 0]
        elif self.pooling is not None:
            pooled = self.pooling(hidden).context[:, 0]
        else:
            pooled = hidden.mean(dim=1)
        features: Tensor = self.dropout(pooled)
        return features

    def text_attention(self, input: ImageInput) -> TextAttention:
        """The weight of each patch in attention pooling; otherwise in the last block, one hop per head.

        In the last block it is the attention of what is pooled: of the class token, or the mean over all
        patches. Blocks have mixed the patches before, so it is not a full attribution.
        """
        if self.pooling is not None:
            return TextAttention(self.pooling(self.hidden(input)).weights, grid=self.grid)
        last = self.weights(input)[f"encoder/{len(self.blocks) - 1}"]
        patches = last.mean(dim=2) if self.class_token is None else last[:, :, 0, 1:]
        return TextAttention(patches, grid=self.grid)

    def weights(
        self, input: ImageInput
    ) -> dict[str, Float[Tensor, "batch heads positions positions"]]:
        """Attention weights of each block, "encoder/0", …; a class token is position 0."""
        return block_weights(self.blocks, self._embed(input))[0]

    def _embed(self, input: ImageInput) -> Float[Tensor, "batch positions model_dim"]:
        x = self.position(self.stem(input).frames)
        if self.class_token is not None:
            x = torch.cat([self.class_token.expand(len(x), 1, -1), x], dim=1)
        embedded: Tensor = self.dropout(x)
        return embedded


def _grid(stem: nn.Module) -> tuple[int, int]:
    grid = grid_of(stem)
    if grid is None:
        raise RegardError(
            f"The stem {type(stem).__name__} has no `grid`: a vision_transformer needs the rows and "
            "columns of its vectors. Set self.grid = (rows, columns) in the stem."
        )
    return grid
