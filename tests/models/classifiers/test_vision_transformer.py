"""Vision Transformer: shapes, positions, permutations, exact attention, and where a trained one attends."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.batches import FrameInput, ImageInput, ImageSpec
from regard.core.counting import count_call
from regard.core.errors import RegardError
from regard.core.protocols import TextAttention
from regard.layers.multi_head import MultiHead
from regard.mechanisms.compatibility import compatible_mechanisms, mechanism_name
from regard.models import build_model
from regard.models.classifiers.vision_transformer import VisionTransformer

SOURCE = ImageSpec(channels=2, height=8, width=12)
GRID, PATCHES = (2, 3), 6
SMALL: dict[str, Any] = {"model_dim": 24, "num_heads": 3, "num_layers": 2, "feed_forward_dim": 20}
POOLINGS = ("class_token", "mean", "attention")
POSITIONS = ("sinusoidal", "learned", "rotary", "none")
MECHANISMS = compatible_mechanisms(role="self", causal=False, masks=frozenset({"padding"}))

poolings = pytest.mark.parametrize("pooling", POOLINGS)
positions = pytest.mark.parametrize("position", POSITIONS)
mechanisms = pytest.mark.parametrize("mechanism", MECHANISMS)


def built(**options: Any) -> VisionTransformer:
    torch.manual_seed(0)
    model = VisionTransformer(source=SOURCE, outputs=5, **{**SMALL, **options})
    return model.double().eval()


def images(rows: int = 3) -> ImageInput:
    generator = torch.Generator().manual_seed(1)
    return ImageInput(torch.randn(rows, 2, 8, 12, generator=generator, dtype=torch.float64))


def permuted(input: ImageInput, order: Tensor, size: int = 4) -> ImageInput:
    """The images with their patches in another order."""
    patches = F.unfold(input.pixels, size, stride=size)[:, :, order]
    return ImageInput(F.fold(patches, input.pixels.shape[2:], size, stride=size))


@poolings
@positions
@pytest.mark.parametrize("stem", [None, {"type": "convolutional", "filters": [3, 5]}], ids=str)
def test_shapes_gradients_and_batches(pooling: str, position: str, stem: Any) -> None:
    model = built(pooling=pooling, position=position, stem=stem)
    logits = model.classify(images()).logits
    assert logits.shape == (3, 5)
    for row in range(3):
        alone = model(images().select(slice(row, row + 1)))
        torch.testing.assert_close(alone[0], logits[row], rtol=0, atol=1e-12)
    logits.square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name
    positions = PATCHES + (pooling == "class_token")
    assert model.hidden(images()).shape == (3, positions, 24)
    weights = model.weights(images())
    assert list(weights) == ["encoder/0", "encoder/1"]
    assert weights["encoder/1"].shape == (3, 3, positions, positions)
    attention = model.text_attention(images())
    assert attention.maps().shape == (3, 1 if pooling == "attention" else 3, *GRID)


@mechanisms
@poolings
def test_every_mechanism(mechanism: str, pooling: str) -> None:
    model = built(mechanism=mechanism, pooling=pooling, position="sinusoidal")
    together, alone = model(images()), model(images().select(slice(1, 2)))
    assert together.isfinite().all()
    torch.testing.assert_close(alone[0], together[1], rtol=0, atol=1e-10)


def test_mechanism_per_layer_and_refusals() -> None:
    model = built(mechanism=["window", "elu"])
    names = [mechanism_name(block.attention.mechanism) for block in model.blocks]
    assert names == ["window", "elu"]
    with pytest.raises(RegardError, match=r"slot 'encoder'.*'retention'.*causal only"):
        built(mechanism="retention")
    assert built(mechanism="synthesizer_random")(images()).shape == (3, 5)


@mechanisms
@poolings
def test_weights_are_exact(mechanism: str, pooling: str) -> None:
    """weights @ values is the output of each attention layer, and of attention pooling."""
    model = built(mechanism=mechanism, pooling=pooling, position="learned")
    weights = model.weights(images())
    outputs: dict[str, tuple[Tensor, Tensor]] = {}
    for name, block in zip(weights, model.blocks, strict=True):

        def keep(_: object, inputs: Any, output: Tensor, name: str = name) -> None:
            outputs[name] = (inputs[0], output)

        block.attention.register_forward_hook(keep)
    hidden = model.hidden(images())
    assert list(outputs) == list(weights)
    for block, (name, (x, output)) in zip(model.blocks, outputs.items(), strict=True):
        layer: MultiHead = block.attention
        value = layer.projection(x, x).value
        by_hand = layer.output((weights[name] @ value).transpose(1, 2).flatten(2))
        torch.testing.assert_close(by_hand, output, rtol=0, atol=1e-10)
    attention = model.text_attention(images()).tokens
    if pooling == "class_token":
        assert torch.equal(attention, weights["encoder/1"][:, :, 0, 1:])
    elif pooling == "attention":
        torch.testing.assert_close(attention.sum(-1), torch.ones(3, 1).double())
        pooled = (attention @ hidden)[:, 0]
        torch.testing.assert_close(pooled, model.features(images()), rtol=0, atol=1e-10)
    else:
        assert torch.equal(attention, weights["encoder/1"].mean(2))


@pytest.mark.parametrize("pooling", ["mean", "attention", "class_token"])
@pytest.mark.parametrize("mechanism", ["scaled_dot", "elu", "additive"])
def test_without_positions_patches_have_no_order(pooling: str, mechanism: str) -> None:
    order = torch.tensor([4, 2, 0, 5, 1, 3])
    moved = permuted(images(), order)
    plain = built(position="none", pooling=pooling, mechanism=mechanism)
    torch.testing.assert_close(plain(moved), plain(images()), rtol=0, atol=1e-10)
    maps, moved_maps = (plain.text_attention(each).tokens for each in (images(), moved))
    torch.testing.assert_close(moved_maps, maps[:, :, order], rtol=0, atol=1e-10)
    for position in ("sinusoidal", "learned", "rotary"):
        model = built(position=position, pooling=pooling, mechanism=mechanism)
        assert (model(moved) - model(images())).abs().max() > 1e-6


def test_rotary_weights_of_equal_patches_depend_on_offsets_only() -> None:
    model = built(position="rotary", pooling="mean", stem={"patch_size": 2})
    rows, columns = model.grid
    assert (rows, columns) == (4, 6)
    weights = model.weights(ImageInput(torch.ones(1, 2, 8, 12).double()))["encoder/0"][0]
    # Without the sum of the row, which depends on where the edges of the image are.
    scores = weights.log() - weights.diagonal(dim1=1, dim2=2).log()[:, :, None]
    maps = scores.view(3, rows, columns, rows, columns)
    torch.testing.assert_close(maps[:, 1:, 1:, 1:, 1:], maps[:, :-1, :-1, :-1, :-1])
    assert (maps[:, 0, 0, 0, 1] - maps[:, 0, 0, 1, 0]).abs().max() > 1e-6


def test_class_token() -> None:
    model, mean = built(), built(pooling="mean")
    assert model.class_token is not None
    assert mean.class_token is None
    counts = [sum(each.numel() for each in one.parameters()) for one in (model, mean)]
    assert counts[0] - counts[1] == 24
    before = model(images())
    with torch.no_grad():
        model.class_token.add_(torch.randn(24))
    assert (model(images()) - before).abs().max() > 1e-6


def test_parameter_count_by_hand() -> None:
    with torch.device("meta"):
        model = VisionTransformer(source=ImageSpec(1, 28, 28), outputs=4)
    stem = 16 * 128 + 128 + 2 * 128
    block = 4 * (128 * 128 + 128) + 2 * 128 * 512 + 512 + 128 + 4 * 128
    found = sum(parameter.numel() for parameter in model.parameters())
    assert found == stem + 128 + 49 * 128 + 4 * block + 2 * 128 + 128 * 4 + 4


def test_matmul_flops_by_hand() -> None:
    model = built(position="learned", pooling="mean")
    per_patch = 2 * (32 * 24 + 2 * (4 * 24 * 24 + 2 * 24 * 20))
    attention = 2 * 2 * PATCHES**2 * 2 * 24
    counted = count_call(lambda: model(images()))
    assert counted.matmul_flops == 3 * (PATCHES * per_patch + attention + 2 * 24 * 5)


def test_state_dict_round_trip() -> None:
    model = built(position="rotary", stem={"type": "convolutional"})
    torch.manual_seed(9)
    other = VisionTransformer(
        source=SOURCE, outputs=5, position="rotary", stem={"type": "convolutional"}, **SMALL
    )
    other.double().eval().load_state_dict(model.state_dict())
    assert torch.equal(other(images()), model(images()))


def test_grid_of_other_models() -> None:
    sizes = {"source": SOURCE, "outputs": 2, "model_dim": 8}
    for name, options in (
        ("text_encoder", {"num_heads": 2, "num_layers": 1}),
        ("structured", {"hidden_dim": 3, "hops": 2}),
    ):
        model: Any = build_model(name, **sizes, **options).double().eval()
        assert model.text_attention(images()).maps().shape[2:] == GRID
    with pytest.raises(RegardError, match="no grid"):
        TextAttention(torch.ones(1, 1, 1)).maps()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"position": "alibi"}, "position=alibi: it must be 'sinusoidal', 'learned', 'rotary' or"),
        ({"pooling": "first"}, "pooling=first"),
        ({"model_dim": 18, "position": "rotary"}, "head_dim=6: it must be a multiple of 4"),
        ({"stem": {"patch_size": 5}}, "patch_size=5"),
        ({"stem": {"type": "convolutional", "filters": [4]}}, "one value per convolution"),
        ({"stem": nn.Identity()}, "stem Identity has no `grid`"),
        ({"source": 9}, "source=9"),
    ],
    ids=str,
)
def test_invalid_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(RegardError, match=message):
        build_model("vision_transformer", **{"source": SOURCE, "outputs": 2, **SMALL, **options})


def test_images_of_another_size() -> None:
    for stem in (None, {"type": "convolutional"}):
        with pytest.raises(RegardError, match=r"8×8 pixels and 2 channel.*8×12 and 2"):
            built(stem=stem)(ImageInput(torch.zeros(1, 2, 8, 8).double()))


def test_own_stem_with_a_grid() -> None:
    class Columns(nn.Module):
        grid = (1, 12)

        def forward(self, input: ImageInput) -> FrameInput:
            vectors = input.pixels.flatten(1, 2).transpose(1, 2)
            return FrameInput(vectors, torch.full((len(vectors),), 12))

    model = built(model_dim=16, num_heads=2, stem=Columns(), position="rotary")
    assert model.text_attention(images()).maps().shape == (3, 2, 1, 12)


BITS, SIZE, LENGTH = 4, 4, 16


def marked_images(rows: int, generator: torch.Generator) -> tuple[ImageInput, Tensor, Tensor]:
    """Every patch shows four bits; the label is the number in the marked patch, which is returned too."""
    seeded = torch.Generator().manual_seed(9)
    signs = torch.linalg.qr(torch.randn(LENGTH, BITS + 1, generator=seeded)).Q.T
    bits = torch.randint(2, (rows, LENGTH, BITS), generator=generator)
    marked = torch.randint(LENGTH, (rows,), generator=generator)
    row = torch.arange(rows)
    patches = 2 * (2.0 * bits - 1) @ signs[:BITS]
    patches += 0.2 * torch.randn(patches.shape, generator=generator)
    patches[row, marked] += 4 * signs[BITS]
    side = SIZE * SIZE
    pixels = F.fold(patches.transpose(1, 2), (side, side), SIZE, stride=SIZE)
    return ImageInput(pixels), bits[row, marked] @ (2 ** torch.arange(BITS)), marked


@pytest.mark.parametrize("mechanism", ["scaled_dot", "elu"])
def test_a_trained_model_attends_to_the_marked_patch(mechanism: str) -> None:
    """The pointing game: the largest weight of the class token is on the patch with the label."""
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    model = VisionTransformer(
        source=ImageSpec(1, 16, 16),
        outputs=2**BITS,
        model_dim=32,
        num_heads=1,
        num_layers=1,
        dropout=0.0,
        mechanism=mechanism,
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(200):
        input, labels, _ = marked_images(64, generator)
        optimizer.zero_grad()
        F.cross_entropy(model(input), labels).backward()
        optimizer.step()
    input, labels, marked = marked_images(400, generator)
    with torch.no_grad():
        accuracy = (model(input).argmax(1) == labels).double().mean()
        pointed = model.text_attention(input).maps().flatten(2).mean(1).argmax(1)
    assert accuracy > 0.95
    assert (pointed == marked).double().mean() >= 0.95
