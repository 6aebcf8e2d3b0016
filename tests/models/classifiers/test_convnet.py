"""ConvNet: parameter counts, least sizes, parity with plain PyTorch, FLOPs, independence of the batch."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regard.core.batches import ImageInput, ImageSpec
from regard.core.counting import count_call
from regard.core.errors import RegardError
from regard.models import build_model
from regard.models.classifiers.convnet import ConvNet

GREY = ImageSpec(channels=1, height=28, width=28)
LARGER = {
    "channels": 6,
    "num_layers": 3,
    "padding": (1, 1, 1),
    "norm": True,
    "activation": "gelu",
}
FORMS: dict[str, dict[str, Any]] = {
    "pooled": {},
    "strided": {"downsampling": "stride"},
    "unpadded": {"padding": 0},
    "larger": LARGER,
    "global pooling": {**LARGER, "global_pooling": True, "hidden_dim": 0, "feed_forward_dim": 0},
}
forms = pytest.mark.parametrize("form", FORMS)


def built(source: ImageSpec = GREY, **options: Any) -> ConvNet:
    torch.manual_seed(0)
    return ConvNet(source=source, outputs=4, **options).double().eval()


def images(rows: int = 3, source: ImageSpec = GREY) -> ImageInput:
    generator = torch.Generator().manual_seed(1)
    shape = (rows, source.channels, source.height, source.width)
    return ImageInput(torch.randn(shape, generator=generator, dtype=torch.float64))


def plain(form: str) -> nn.Sequential:
    """The three forms, of PyTorch's layers alone."""
    stride = 2 if form == "strided" else 1
    pool: list[nn.Module] = [] if form == "strided" else [nn.MaxPool2d(2)]
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, stride=stride, padding=0 if form == "unpadded" else 1),
        nn.ReLU(),
        *pool,
        nn.Conv2d(8, 16, 3, stride=stride),
        nn.ReLU(),
        *pool,
        nn.Flatten(),
        nn.Linear(400 if form == "unpadded" else 576, 320),
        nn.ReLU(),
        nn.Dropout(0.7),
        nn.Linear(320, 120),
        nn.ReLU(),
        nn.Linear(120, 4),
    )


@pytest.mark.parametrize(
    ("form", "parameters"), [("pooled", 224_892), ("strided", 224_892), ("unpadded", 168_572)]
)
def test_parameter_counts(form: str, parameters: int) -> None:
    with torch.device("meta"):
        model = ConvNet(source=GREY, outputs=4, **FORMS[form])
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters


@pytest.mark.parametrize("form", ["pooled", "strided", "unpadded"])
def test_parity_with_plain_layers(form: str) -> None:
    model, reference = built(**FORMS[form]), plain(form).double().eval()
    values = zip(reference.parameters(), model.parameters(), strict=True)
    with torch.no_grad():
        for theirs, ours in values:
            theirs.copy_(ours)
    torch.testing.assert_close(model(images()), reference(images().pixels), rtol=0, atol=1e-12)
    # Convolutions and fully connected layers, forward and backward; pixels have no gradient.
    found, expected = (
        count_call(call, backward=True).matmul_flops
        for call in (lambda: model(images()), lambda: reference(images().pixels))
    )
    assert found == expected


def test_flops_by_hand() -> None:
    """Of a pooled ConvNet on 8×8 images, forward: 8×8 and 2×2 positions, then 16 features."""
    source = ImageSpec(1, 8, 8)
    model = built(source)
    counted = count_call(lambda: model(images(5, source)))
    per_image = 64 * 9 * 8 + 4 * 72 * 16 + 16 * 320 + 320 * 120 + 120 * 4
    assert counted.matmul_flops == 5 * 2 * per_image
    written = 64 * 8 + 4 * 16 + 320 + 120  # bias and ReLU each; max pooling reads what they wrote
    assert counted.elementwise_ops == 5 * (2 * written + 4 + 64 * 8 + 4 * 16)


def test_flops_of_norms() -> None:
    """Seven operations per number that is normalised, as of a layer norm."""
    source = ImageSpec(1, 8, 8)
    plain, normed = (
        count_call(partial(built(source, norm=norm), images(5, source))) for norm in (False, True)
    )
    assert normed.matmul_flops == plain.matmul_flops
    assert normed.elementwise_ops - plain.elementwise_ops == 7 * 5 * (64 * 8 + 4 * 16)


@forms
def test_a_row_does_not_depend_on_its_batch(form: str) -> None:
    model = built(**FORMS[form])
    together = model.classify(images()).logits
    assert together.shape == (3, 4)
    for row in range(3):
        alone = model.classify(images().select(slice(row, row + 1))).logits
        torch.testing.assert_close(alone[0], together[row], rtol=0, atol=1e-12)


@forms
def test_every_parameter_has_a_gradient_and_round_trips(form: str) -> None:
    model = built(**FORMS[form])
    model(images()).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name
    torch.manual_seed(5)
    other = ConvNet(source=GREY, outputs=4, **FORMS[form]).double().eval()
    assert not torch.equal(other(images()), model(images()))
    other.load_state_dict(model.state_dict())
    assert torch.equal(other(images()), model(images()))


@pytest.mark.parametrize(("form", "least"), [("pooled", 8), ("strided", 5), ("unpadded", 10)])
def test_least_size(form: str, least: int) -> None:
    source = ImageSpec(1, least, least)
    assert built(source, **FORMS[form])(images(2, source)).shape == (2, 4)
    for height, width in ((least - 1, least), (28, least - 1), (1, 1)):
        with pytest.raises(RegardError, match=rf"{height}×{width} pixels.*is {least}×{least}"):
            built(ImageSpec(1, height, width), **FORMS[form])


def test_feature_maps() -> None:
    model = built()
    maps = model.feature_maps(images())
    assert maps.shape == (3, 8, 28, 28)
    convolution = model.blocks[0].convolution
    expected = F.conv2d(images().pixels, convolution.weight, convolution.bias, padding=1)
    torch.testing.assert_close(maps, expected.relu())
    assert built(downsampling="stride").feature_maps(images()).shape == (3, 8, 14, 14)
    assert model.text_attention(images()) is None


def test_colour_images_that_are_not_square() -> None:
    source = ImageSpec(3, 20, 33)
    assert built(source)(images(2, source)).shape == (2, 4)
    assert built(source, downsampling="stride")(images(2, source)).shape == (2, 4)


def test_dropout_in_training_only() -> None:
    model = built()
    assert torch.equal(model(images()), model(images()))
    model.train()
    assert not torch.equal(model(images()), model(images()))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"padding": (1, 1, 1)}, r"padding=\[1, 1, 1\], num_layers=2: give one padding"),
        ({"padding": -1}, "padding=-1"),
        ({"downsampling": "mean"}, "downsampling=mean: it must be 'pool' or 'stride'"),
        ({"activation": "rely"}, "'rely'. Did you mean 'relu'"),
        ({"channels": 0}, "channels=0"),
        ({"dropout": 1.0}, "dropout=1.0"),
        ({"source": 9}, "source=9"),
    ],
)
def test_invalid_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(RegardError, match=message):
        build_model("convnet", **{"source": GREY, "outputs": 4, **options})


def test_images_of_another_size() -> None:
    with pytest.raises(RegardError, match=r"20×28 pixels and 1 channel.*28×28 and 1"):
        built()(ImageInput(torch.zeros(1, 1, 20, 28).double()))
