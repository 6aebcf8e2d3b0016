"""Real-valued input and images in every model: shapes, padding, strides, decoding, traits."""

from __future__ import annotations

from typing import Any, get_args

import pytest
import torch
from torch import nn

from regard.core.batches import (
    FrameInput,
    FrameSpec,
    ImageInput,
    ImageSpec,
    Input,
    TokenInput,
)
from regard.core.errors import RegardError
from regard.core.options import options_of
from regard.core.traits import InputKind, TargetKind, traits_of
from regard.models import DATA_ARGUMENTS, MODELS, build_model, model_class
from regard.models.generation.search import decode
from regard.models.stems import FrameStem, PatchStem

FEATURES, OUTPUTS, VOCABULARY = 5, 3, 11
LENGTHS = torch.tensor([7, 4, 2])
SMALL: dict[str, dict[str, Any]] = {
    "transformer": {"model_dim": 12, "num_heads": 3, "num_layers": 2},
    "recurrent": {"embedding_dim": 6, "hidden_dim": 8},
    "transformer_recurrent": {"model_dim": 12, "num_heads": 3, "num_layers": 2},
    "text_encoder": {"model_dim": 12, "num_heads": 3, "num_layers": 2},
    "structured": {"model_dim": 10, "hidden_dim": 6, "hops": 3, "attention_dim": 5},
    "bag_of_words": {"model_dim": 10},
    "bilstm": {"model_dim": 10, "hidden_dim": 6},
    "convolutional": {"model_dim": 10, "filters": 4, "widths": [3, 5]},
}


def built(name: str, source: Any, **options: Any) -> Any:
    torch.manual_seed(0)
    is_sequence = "sequence" in traits_of(model_class(name)).targets
    target = {"target_vocabulary": VOCABULARY} if is_sequence else {"outputs": OUTPUTS}
    return build_model(name, source=source, **target, **(SMALL[name] | options)).double().eval()


def frames(extra: int = 0, fill: float = 0.0) -> FrameInput:
    """Three rows; padding holds `fill`."""
    x = torch.randn(3, 7, FEATURES, generator=torch.Generator().manual_seed(1)).double()
    x = nn.functional.pad(x, (0, 0, 0, extra))
    padding = torch.arange(7 + extra) >= LENGTHS[:, None]
    return FrameInput(x.masked_fill(padding[:, :, None], fill), LENGTHS)


def images() -> ImageInput:
    generator = torch.Generator().manual_seed(1)
    return ImageInput(torch.randn(3, 2, 8, 12, generator=generator).double())


def outputs(model: Any, source: Input) -> torch.Tensor:
    if hasattr(model, "step"):
        tokens = torch.arange(4, 9).expand(source.shape[0], -1)
        found: torch.Tensor = model(source, tokens)
        return found
    output = model.classify(source)
    return torch.cat([output.logits, output.penalty[:, None]], dim=1)


@pytest.mark.parametrize(
    "stem",
    [
        None,
        {"stride": 2},
        {"stride": 3},
        {"type": "convolutional"},
        {"type": "convolutional_2d", "channels": [2, 3, 4]},
    ],
    ids=str,
)
@pytest.mark.parametrize("name", SMALL)
def test_frames_are_padding_invariant(name: str, stem: dict[str, Any] | None) -> None:
    model = built(name, FrameSpec(FEATURES), stem=stem)
    source = frames()
    with torch.no_grad():
        together = outputs(model, source)
        assert together.shape[:1] == (3,)
        assert together.isfinite().all()
        for other in (frames(extra=5), frames(extra=2, fill=9.0)):
            torch.testing.assert_close(outputs(model, other), together, rtol=0, atol=1e-10)
        for row in range(3):
            alone = outputs(model, source.select(slice(row, row + 1)))
            torch.testing.assert_close(alone[0], together[row], rtol=0, atol=1e-10)
    assert (together[0] - together[1]).abs().max() > 1e-6


@pytest.mark.parametrize("name", SMALL)
def test_images(name: str) -> None:
    model = built(name, ImageSpec(channels=2, height=8, width=12))
    found = outputs(model, images())
    assert found.shape[0] == 3
    found.square().sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    one = outputs(model, images().select(slice(1, 2)))
    torch.testing.assert_close(one[0], found[1], rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", ["transformer", "recurrent", "transformer_recurrent"])
@pytest.mark.parametrize("beam_size", [1, 3])
def test_decoding_from_frames_and_images(name: str, beam_size: int) -> None:
    image = ImageSpec(channels=2, height=8, width=12)
    for spec, source in ((FrameSpec(FEATURES), frames()), (image, images())):
        stem = {"stride": 2} if isinstance(spec, FrameSpec) else {"patch_size": 4}
        model = built(name, spec, stem=stem)
        cached = decode(model, source, beam_size=beam_size, max_length=6)
        without = decode(model, source, beam_size=beam_size, max_length=6, use_cache=False)
        assert [one.tokens for one in cached] == [one.tokens for one in without]


def test_pooling_of_the_text_encoder() -> None:
    spec = FrameSpec(FEATURES)
    mean, first = built("text_encoder", spec), built("text_encoder", spec, pooling="first")
    assert (mean.pooling, first.pooling) == ("mean", "first")
    assert built("text_encoder", VOCABULARY).pooling == "first"
    assert mean.segment is None
    hidden = mean.hidden(frames())
    by_hand = torch.stack([hidden[row, :length].mean(0) for row, length in enumerate(LENGTHS)])
    torch.testing.assert_close(mean.features(frames()), torch.tanh(mean.pooler(by_hand)))
    for model in (mean, first):
        attention = model.text_attention(frames()).tokens
        torch.testing.assert_close(attention.sum(-1), torch.ones_like(attention.sum(-1)))
        assert not attention[2, :, 2:].any()
    with pytest.raises(RegardError, match="no token_head"):
        mean.token_logits(hidden)
    with pytest.raises(RegardError, match="max_length=6"):
        built("text_encoder", spec, max_length=6).classify(frames())


def test_one_output_is_a_number() -> None:
    model = build_model("bilstm", source=VOCABULARY, outputs=1)
    assert model(TokenInput(torch.tensor([[4, 5]]), torch.tensor([2]))).shape == (1, 1)


def test_stride_stacks_frames() -> None:
    stem = FrameStem(features=1, model_dim=2, stride=2).double()
    stem.linear.weight.data, stem.linear.bias.data = torch.eye(2).double(), torch.zeros(2).double()
    stem.norm = nn.Identity()  # type: ignore[assignment]
    x = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])[:, :, None].double()
    found = stem(FrameInput(x, torch.tensor([3, 1])))
    assert found.frames.tolist() == [[[1, 2], [3, 0]], [[4, 0], [0, 0]]]
    assert found.lengths.tolist() == [2, 1]


def test_own_stem() -> None:
    class Doubled(nn.Module):
        def forward(self, input: FrameInput) -> FrameInput:
            return FrameInput(2 * input.frames, input.lengths, input.padded)

    model = built("bilstm", FrameSpec(FEATURES), model_dim=FEATURES, stem=Doubled())
    assert model.classify(frames()).logits.shape == (3, OUTPUTS)


@pytest.mark.parametrize(
    ("source", "stem", "message"),
    [
        (VOCABULARY, {"stride": 2}, "stem="),
        (FrameSpec(FEATURES), {"stride": 0}, "stride=0"),
        (FrameSpec(FEATURES), {"patch_size": 2}, "patch_size"),
        (ImageSpec(2, 8, 12), {"patch_size": 5}, "patch_size=5"),
        (0, None, "source=0"),
    ],
)
def test_invalid_stems(source: Any, stem: Any, message: str) -> None:
    with pytest.raises(RegardError, match=message):
        built("bilstm", source, stem=stem)


def test_invalid_frames() -> None:
    model = built("bilstm", FrameSpec(FEATURES + 1))
    with pytest.raises(RegardError, match=f"{FEATURES} features"):
        model.classify(frames())
    for name in ("hierarchical", "recursive_autoencoder"):
        with pytest.raises(RegardError, match="source="):
            build_model(name, source=FrameSpec(3), outputs=2)


def test_patches_are_in_reading_order() -> None:
    stem = PatchStem(channels=1, height=4, width=6, model_dim=3, patch_size=2)
    assert stem.grid == (2, 3)
    x = torch.randn(1, 1, 4, 6)
    moved = x.clone()
    moved[..., 2:, :2] += 1  # the first patch of the second row
    difference = (stem(ImageInput(moved)).frames - stem(ImageInput(x)).frames).abs().amax(-1)
    assert difference.nonzero().tolist() == [[0, 3]]


@pytest.mark.parametrize("name", MODELS)
def test_traits(name: str) -> None:
    kind: Any = model_class(name)
    traits = traits_of(kind)
    assert traits.inputs <= set(get_args(InputKind))
    assert traits.targets <= set(get_args(TargetKind))
    assert traits.sizes
    arguments = {"source", "target_vocabulary" if "sequence" in traits.targets else "outputs"}
    assert arguments <= set(DATA_ARGUMENTS)
    named: list[str | None] = [*traits.sizes, *traits.tied, *(slot.option for slot in traits.slots)]
    named += [size.times or size.follows for size in traits.sizes.values()]
    values = dict.fromkeys(traits.sizes, 8)
    options = options_of(kind, section="model", reserved=DATA_ARGUMENTS)(**values)
    assert {name: getattr(options, name) for name in values} == values
    schema = set(kind.__init__.__annotations__)
    assert {option for option in named if option} <= schema
    for other in traits.alternatives:
        theirs = set(model_class(other.model).__init__.__annotations__)
        assert {*other.options, *other.fixed} <= theirs
        assert set(other.options.values()) <= schema


def test_missing_traits() -> None:
    with pytest.raises(RegardError, match="Linear declares no traits"):
        traits_of(nn.Linear)
