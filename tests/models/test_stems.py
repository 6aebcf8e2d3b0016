"""The convolutional stems: against plain convolutions, padding, lengths, cost, options."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.batches import FrameInput, FrameSpec, ImageInput, ImageSpec
from regard.core.counting import count_call
from regard.core.errors import RegardError
from regard.models.stems import (
    ConvolutionalStem,
    FrameStem,
    ImageConvolutionalStem,
    SpectrogramStem,
    build_stem,
)

FEATURES, MODEL_DIM, FRAMES = 5, 8, 13
LENGTHS = torch.tensor([13, 6, 1, 11])

shapes = pytest.mark.parametrize(
    ("kernel_size", "strides"),
    [(3, (1, 2)), (5, (2, 2)), (3, (3,)), (7, (1, 1, 2))],
    ids=str,
)


def build(**options: Any) -> ConvolutionalStem:
    torch.manual_seed(0)
    stem = ConvolutionalStem(features=FEATURES, model_dim=MODEL_DIM, **options)
    return stem.double().eval()


def build_2d(**options: Any) -> SpectrogramStem:
    torch.manual_seed(0)
    stem = SpectrogramStem(features=FEATURES, model_dim=MODEL_DIM, **options)
    # Norms whose bias is not zero, which would hide padding that is not zeroed.
    for norm in stem.norms:
        nn.init.normal_(norm.bias)
    return stem.double().eval()


shapes_2d = pytest.mark.parametrize(
    "options",
    [
        {"channels": (2, 3, 4)},
        {"channels": (3,), "strides": (1,), "band_strides": (1,)},
        {"channels": (2, 3), "strides": (2, 2), "band_strides": (1, 3), "kernel_size": 5},
    ],
    ids=str,
)


def frames(*, extra: int = 0, fill: float = 0.0) -> FrameInput:
    generator = torch.Generator().manual_seed(1)
    x = F.pad(torch.randn(4, FRAMES, FEATURES, generator=generator).double(), (0, 0, 0, extra))
    padding = torch.arange(FRAMES + extra) >= LENGTHS[:, None]
    return FrameInput(x.masked_fill(padding[:, :, None], fill), LENGTHS)


@shapes
def test_one_row_is_convolved_as_by_pytorch(kernel_size: int, strides: tuple[int, ...]) -> None:
    stem, x = build(kernel_size=kernel_size, strides=strides), frames().frames[:1]
    expected = x.transpose(1, 2)
    for convolution in stem.convolutions:
        linear = convolution.linear
        expected = F.gelu(
            F.conv1d(
                expected,
                linear.weight,
                linear.bias,
                stride=linear.stride,
                padding=kernel_size // 2,
            )
        )
    expected = F.layer_norm(expected.transpose(1, 2), (MODEL_DIM,))
    found = stem(FrameInput(x, LENGTHS[:1]))
    torch.testing.assert_close(found.frames, expected)
    assert found.lengths.tolist() == [expected.shape[1]]
    norms = found.frames.norm(dim=-1)
    torch.testing.assert_close(norms, torch.full_like(norms, MODEL_DIM**0.5), rtol=0.01, atol=0)


@shapes
def test_padding_changes_neither_vectors_nor_gradients(
    kernel_size: int, strides: tuple[int, ...]
) -> None:
    _assert_padding_invariant(build(kernel_size=kernel_size, strides=strides), strides)


@shapes_2d
def test_padding_of_spectrograms_changes_neither_vectors_nor_gradients(
    options: dict[str, Any],
) -> None:
    _assert_padding_invariant(build_2d(**options), options.get("strides", (1, 2, 1)))


def _assert_padding_invariant(stem: nn.Module, strides: tuple[int, ...]) -> None:
    def results(*inputs: FrameInput) -> tuple[Tensor, ...]:
        """The vectors of all rows without padding, and gradients of a function of them."""
        rows = [
            row[:length]
            for stemmed in map(stem, inputs)
            for row, length in zip(stemmed.frames, stemmed.lengths, strict=True)
        ]
        vectors = torch.cat(rows)
        value = (vectors * torch.arange(vectors.numel()).view_as(vectors).cos()).sum()
        return vectors, *torch.autograd.grad(value, list(stem.parameters()))

    together = results(frames())
    assert len(together[0]) == sum(_after(int(length), strides) for length in LENGTHS)
    alone = results(*(frames().select(slice(row, row + 1)) for row in range(4)))
    for other in (alone, results(frames(extra=4)), results(frames(extra=3, fill=math.inf))):
        torch.testing.assert_close(other, together, rtol=0, atol=1e-10)


def _after(length: int, strides: tuple[int, ...]) -> int:
    for stride in strides:
        length = math.ceil(length / stride)
    return length


def test_parameters_and_flops() -> None:
    stem, x = build(strides=(1, 2)), frames()
    first, second = 3 * FEATURES * MODEL_DIM, 3 * MODEL_DIM * MODEL_DIM
    parameters = first + second + 2 * MODEL_DIM + 2 * MODEL_DIM
    assert sum(parameter.numel() for parameter in stem.parameters()) == parameters
    counted = count_call(lambda: stem(x).frames, backward=False)
    assert counted.matmul_flops == 2 * 4 * (FRAMES * first + 7 * second)


@shapes_2d
def test_one_spectrogram_is_convolved_as_by_pytorch(options: dict[str, Any]) -> None:
    stem, x = build_2d(**options), frames().frames[:1]
    y = x[:, None]
    for convolution, norm in zip(stem.convolutions, stem.norms, strict=True):
        y = F.conv2d(
            y,
            convolution.weight,
            convolution.bias,
            stride=convolution.stride,
            padding=convolution.kernel_size[0] // 2,
        )
        channels = (y.shape[1],)
        y = F.layer_norm(y.movedim(1, -1), channels, norm.weight, norm.bias).movedim(-1, 1)
        y = F.gelu(y)
    rows = [stem.linear(y[0, :, frame].T.flatten()) for frame in range(y.shape[2])]
    expected = F.layer_norm(torch.stack(rows)[None], (MODEL_DIM,))
    found = stem(FrameInput(x, LENGTHS[:1]))
    torch.testing.assert_close(found.frames, expected)
    assert found.lengths.tolist() == [expected.shape[1]]


def test_parameters_and_flops_of_spectrograms() -> None:
    stem, x = build_2d(channels=(2, 3), strides=(1, 2), band_strides=(2, 1)), frames()
    first, second, linear = 9 * 2, 9 * 2 * 3, 3 * 3 * MODEL_DIM
    parameters = first + second + linear + 3 * (2 + 3) + 3 * MODEL_DIM
    assert sum(parameter.numel() for parameter in stem.parameters()) == parameters
    counted = count_call(lambda: stem(x).frames, backward=False)
    assert counted.matmul_flops == 2 * 4 * (FRAMES * 3 * first + 7 * (3 * second + linear))


def test_types_and_defaults() -> None:
    spec = FrameSpec(FEATURES)

    def stem_of(options: Any) -> Any:
        return build_stem(spec, model_dim=8, tokens=lambda _: nn.Identity(), stem=options)

    assert isinstance(stem_of(None), FrameStem)
    assert stem_of({"type": "linear", "stride": 3}).stride == 3
    built = stem_of({"type": "convolutional"})
    assert isinstance(built, ConvolutionalStem)
    assert [each.linear.stride for each in built.convolutions] == [(1,), (2,)]
    assert [each.linear.kernel_size for each in built.convolutions] == [(3,), (3,)]
    spectrogram = stem_of({"type": "convolutional_2d"})
    assert isinstance(spectrogram, SpectrogramStem)
    assert [each.stride for each in spectrogram.convolutions] == [(1, 2), (2, 2), (1, 2)]
    listed = stem_of({"type": "convolutional", "strides": [2, 2], "activation": "relu"})
    assert [each.linear.stride for each in listed.convolutions] == [(2,), (2,)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"type": "recurrent"},
            "'recurrent'. Choose from: convolutional, convolutional_2d, linear",
        ),
        ({"type": "patches"}, "stem type 'patches'"),
        ({"type": None}, "stem type 'None'"),
        ({"type": "convolutional", "stride": 2}, "'stem.stride'. Did you mean 'stem.strides'"),
        ({"type": "convolutional", "features": 3}, "'stem.features'"),
        ({"type": "convolutional", "kernel_size": 4}, "stem.kernel_size=4: it must be odd"),
        ({"type": "convolutional", "kernel_size": 1}, "stem.kernel_size=1: it must be odd"),
        ({"type": "convolutional", "strides": []}, "stem.strides="),
        ({"type": "convolutional", "strides": [1, 0]}, "stem.strides="),
        ({"type": "convolutional", "strides": 2}, "stem.strides=2: it must be a list"),
        ({"type": "convolutional", "activation": "gelou"}, "'gelou'. Did you mean 'gelu'"),
        ({"type": "convolutional_2d", "kernel_size": 2}, "stem.kernel_size=2: it must be odd"),
        ({"type": "convolutional_2d", "channels": [4, 8]}, "one value per convolution"),
        ({"type": "convolutional_2d", "band_strides": [0, 1, 1]}, "stem.band_strides="),
        ({"kernel_size": 3}, "'stem.kernel_size'.*stem.stride"),
    ],
)
def test_invalid_options(options: Any, message: str) -> None:
    with pytest.raises(RegardError, match=message):
        build_stem(FrameSpec(3), model_dim=8, tokens=lambda _: nn.Identity(), stem=options)


def test_images_are_convolved_as_by_pytorch() -> None:
    torch.manual_seed(0)
    stem = ImageConvolutionalStem(
        channels=3, height=9, width=14, model_dim=MODEL_DIM, filters=(4, 6, 5), strides=(2, 1, 2)
    ).double()
    pixels = torch.randn(2, 3, 9, 14, dtype=torch.float64)
    expected = pixels
    for convolution, channels in zip(stem.convolutions, (4, 6, 5), strict=True):
        own = convolution.weight, convolution.bias, convolution.stride
        maps = F.conv2d(expected, *own, padding=1).permute(0, 2, 3, 1)
        expected = F.layer_norm(maps, (channels,)).relu().permute(0, 3, 1, 2)
    assert stem.grid == expected.shape[2:] == (3, 4)
    linear = F.linear(expected.flatten(2).transpose(1, 2), stem.linear.weight, stem.linear.bias)
    found = stem(ImageInput(pixels))
    torch.testing.assert_close(found.frames, F.layer_norm(linear, (MODEL_DIM,)))
    assert (found.lengths.tolist(), found.padded) == ([12, 12], False)
    # Every second row and column of both dimensions, then of both again.
    per_image = 5 * 7 * 9 * (3 * 4 + 4 * 6) + 3 * 4 * (9 * 6 * 5 + 5 * MODEL_DIM)
    assert count_call(lambda: stem(ImageInput(pixels))).matmul_flops == 2 * 2 * per_image


def test_invalid_input() -> None:
    with pytest.raises(RegardError, match=r"3 features.*built for 5"):
        build()(FrameInput(torch.zeros(1, 4, 3).double(), torch.tensor([4])))
    with pytest.raises(
        RegardError, match=r"stem type 'linear'\. Choose from: convolutional, patches"
    ):
        build_stem(
            ImageSpec(1, 8, 8),
            model_dim=8,
            tokens=lambda _: nn.Identity(),
            stem={"type": "linear"},
        )


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("linear", {"stride": 3}),
        ("convolutional", {"strides": [1, 2]}),
        ("convolutional", {"strides": [2, 2], "kernel_size": 5}),
        ("convolutional_2d", {"channels": [2, 3], "strides": [1, 2], "band_strides": [1, 1]}),
    ],
)
def test_positions_are_centred_at_their_frames(kind: str, options: dict[str, Any]) -> None:
    """The frames on which position 5 depends lie around frame 5 · frame_stride + frame_offset."""
    torch.manual_seed(0)
    stem: Any = build_stem(
        FrameSpec(4), model_dim=6, tokens=torch.nn.Identity, stem={"type": kind, **options}
    ).double()
    frames = torch.randn(1, 40, 4, dtype=torch.float64, requires_grad=True)
    stem(FrameInput(frames, torch.tensor([40]))).frames[0, 5].square().sum().backward()
    assert frames.grad is not None
    seen = frames.grad[0].abs().sum(dim=1).nonzero().flatten().double()
    assert float(seen.mean()) == 5 * stem.frame_stride + stem.frame_offset
