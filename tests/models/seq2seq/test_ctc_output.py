"""Joint training with CTC, a head that learns its alignment, token dropout: padding, costs, errors."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from regard.core.batches import (
    END,
    PAD,
    START,
    UNKNOWN,
    Batch,
    FrameInput,
    FrameSpec,
    SequenceTarget,
)
from regard.core.counting import training_flops
from regard.core.errors import RegardError
from regard.core.protocols import JointModel, SequenceModel
from regard.models import build_model
from regard.models.embeddings import drop_tokens
from regard.models.seq2seq.ctc import CTC
from regard.models.seq2seq.ctc_output import CTCOutput
from regard.tasks.sequence import sequence_loss

FEATURES, VOCABULARY, FRAMES, MODEL_DIM = 5, 9, 13, 12
LENGTHS = torch.tensor([13, 6, 9])
TARGETS = [[4, 5, 5, 8], [7, 3], [6]]
COUNTS = torch.tensor([4, 2, 1])
WEIGHT = 0.3

joint = pytest.mark.parametrize(
    ("name", "options"),
    [
        ("transformer", {"tie": "target"}),
        ("transformer_recurrent", {}),
        ("transformer_recurrent", {"cross_mechanism": "none"}),
    ],
    ids=["transformer", "recurrent", "without attention"],
)


def build(name: str, **options: Any) -> Any:
    """A float64 model in training mode, without dropout of features."""
    torch.manual_seed(0)
    sizes: dict[str, Any] = {
        "source": FrameSpec(FEATURES),
        "target_vocabulary": VOCABULARY,
        "model_dim": MODEL_DIM,
        "num_heads": 3,
        "num_layers": 2,
        "feed_forward_dim": 7,
        "dropout": 0.0,
        "stem": {"type": "convolutional", "strides": [1, 2]},
    }
    return build_model(name, **(sizes | options)).double().train()


def batch(*, extra: int = 0, fill: float = 0.0) -> Batch:
    generator = torch.Generator().manual_seed(1)
    x = F.pad(
        torch.randn(3, FRAMES, FEATURES, generator=generator).double(), (0, 0, 0, extra)
    ).masked_fill((torch.arange(FRAMES + extra) >= LENGTHS[:, None])[:, :, None], fill)
    tokens = [[START, *row, END, *[PAD] * (4 - len(row))] for row in TARGETS]
    return Batch(
        FrameInput(x, LENGTHS), SequenceTarget(torch.tensor(tokens), torch.tensor([6, 4, 3]))
    )


def total(model: Any, given: Batch, label_smoothing: float = 0.0) -> torch.Tensor:
    return sequence_loss(model, given, label_smoothing=label_smoothing).total


@joint
def test_joint_loss_by_hand(name: str, options: dict[str, Any]) -> None:
    model, given = build(name, **options, ctc_weight=WEIGHT), batch()
    assert all(isinstance(model, protocol) for protocol in (JointModel, SequenceModel))
    logits = model(given.input, given.target.decoder_input)
    attention = torch.tensor(0.0).double()
    for row, tokens in enumerate(TARGETS):
        labels = torch.tensor([*tokens, END])
        attention += F.cross_entropy(
            logits[row, : len(labels)], labels, reduction="sum", label_smoothing=0.1
        )
    scores = F.linear(model.encode(given.input).frames, model.ctc.weight, model.ctc.bias)
    ctc = F.ctc_loss(
        scores.log_softmax(-1).transpose(0, 1),
        torch.tensor([token - END for row in TARGETS for token in row]),
        (LENGTHS + 1) // 2,
        COUNTS,
        reduction="sum",
    )
    loss = sequence_loss(model, given, label_smoothing=0.1)
    expected = (1 - WEIGHT) * attention + WEIGHT * ctc
    torch.testing.assert_close(loss.total, expected, rtol=0, atol=1e-10)
    assert loss.num_predictions == 10
    # In evaluation mode, the loss is that of the decoder, which can be compared with others.
    without = F.cross_entropy(given.target.predicted(logits), given.target.labels, reduction="sum")
    torch.testing.assert_close(total(model.eval(), given, 0.1), without, rtol=0, atol=1e-10)


@joint
def test_padding_changes_neither_loss_nor_gradients(name: str, options: dict[str, Any]) -> None:
    model = build(name, **options, ctc_weight=WEIGHT)
    results = []
    for given in (batch(), batch(extra=4), batch(extra=3, fill=9.0)):
        loss = total(model, given)
        results.append((loss, *torch.autograd.grad(loss, list(model.parameters()))))
    rows = [total(model, batch().select(torch.tensor([row]))) for row in range(3)]
    alone = torch.stack(rows).sum()
    results.append((alone, *torch.autograd.grad(alone, list(model.parameters()))))
    for other in results[1:]:
        torch.testing.assert_close(other, results[0], rtol=0, atol=1e-10)


@joint
def test_parameters_and_flops_of_the_ctc_output(name: str, options: dict[str, Any]) -> None:
    plain, model = build(name, **options), build(name, **options, ctc_weight=WEIGHT)
    added = set(model.state_dict()) - set(plain.state_dict())
    assert added == {"ctc.weight", "ctc.bias"}
    outputs = VOCABULARY - END
    assert model.ctc.weight.numel() == outputs * MODEL_DIM
    flops = [training_flops(partial(total, one, batch())) for one in (plain, model)]
    # The products forwards, and backwards to the weight and to the frames; and the softmax.
    products = 3 * 2 * 3 * ((FRAMES + 1) // 2) * outputs * MODEL_DIM
    assert products < flops[1] - flops[0] < 1.3 * products


def test_row_without_a_path_has_no_ctc_loss() -> None:
    model, given = build("transformer", tie="target", ctc_weight=WEIGHT), batch()
    assert isinstance(given.input, FrameInput)
    short = FrameInput(given.input.frames[:, :5], torch.tensor([5, 5, 5]))
    losses = model.ctc.losses(model.encode(short), given.target)
    assert losses[0] == 0  # five frames for "4 5 blank 5 8" after a stem that halves them
    assert bool((losses[1:] > 0).all())
    loss = total(model, Batch(short, given.target))
    assert all(one.isfinite().all() for one in torch.autograd.grad(loss, list(model.parameters())))


def test_ctc_output_is_that_of_the_ctc_model() -> None:
    model, given = build("ctc"), batch()
    assert isinstance(model, CTC)
    assert isinstance(model.output, CTCOutput)
    losses = model.output.losses(model.encode(given.input), given.target)
    torch.testing.assert_close(losses.sum(), model.sequence_loss(given).total, rtol=0, atol=0)


@joint
def test_token_dropout_is_off_in_evaluation(name: str, options: dict[str, Any]) -> None:
    plain, model = build(name, **options), build(name, **options, token_dropout=0.5)
    given = batch()
    torch.manual_seed(3)
    assert total(model, given) != total(plain, given)
    torch.testing.assert_close(
        total(model.eval(), given), total(plain.eval(), given), rtol=0, atol=0
    )


def test_token_dropout_replaces_the_decoder_input() -> None:
    """START and padding stay; the targets are not changed."""
    model, given = build("transformer", tie="target", token_dropout=0.5), batch()
    found: list[torch.Tensor] = []
    embed = model.target_embedding.embed

    def spy(tokens: torch.Tensor) -> torch.Tensor:
        found.append(tokens)
        embedded: torch.Tensor = embed(tokens)
        return embedded

    model.target_embedding.embed = spy
    torch.manual_seed(0)
    for _ in range(50):
        model.hidden(given.input, given.target.decoder_input)
    before, after = given.target.decoder_input, torch.stack(found)
    changed = after != before
    assert bool((after[changed] == UNKNOWN).all())
    assert not changed[:, (before == START) | (before == PAD)].any()
    assert 0.3 < changed[:, :, 1:2].double().mean() < 0.7


def test_drop_tokens() -> None:
    tokens = torch.arange(4, 9).repeat(200, 1)
    torch.manual_seed(0)
    dropped = drop_tokens(tokens, 0.25, keep=(6,))
    assert bool((dropped[:, 2] == 6).all())
    share = (dropped[:, [0, 1, 3, 4]] == UNKNOWN).double().mean()
    assert 0.2 < share < 0.3


@pytest.mark.parametrize("name", ["transformer", "transformer_recurrent"])
@pytest.mark.parametrize("option", ["ctc_weight", "alignment_weight", "token_dropout"])
@pytest.mark.parametrize("value", [-0.1, 1.0])
def test_invalid_options(name: str, option: str, value: float) -> None:
    with pytest.raises(RegardError, match=option):
        build(name, **{option: value})


aligned = pytest.mark.parametrize(
    ("name", "options"), [("transformer", {"tie": "target"}), ("transformer_recurrent", {})]
)


@aligned
def test_alignment_loss_by_hand(name: str, options: dict[str, Any]) -> None:
    """Against the posteriors that a CTC model of the same encoder and output gives."""
    plain = build(name, **options, ctc_weight=WEIGHT)
    model = build(name, **options, ctc_weight=WEIGHT, alignment_weight=0.5)
    model.load_state_dict(plain.state_dict())
    given = batch()
    cross = model.weights(given.input, given.target.decoder_input)
    head = list(cross.values())[-1][:, 0]
    of_ctc = build("ctc")
    of_ctc.encode, of_ctc.output = model.encode, model.ctc
    of_ctc.encoder_weights = model.encoder_weights
    posteriors = of_ctc.weights(given.input, given.target.decoder_input)["cross/ctc"][:, 0]
    expected = torch.tensor(0.0).double()
    for row, tokens in enumerate(TARGETS):
        for number in range(len(tokens)):
            frames = (int(LENGTHS[row]) + 1) // 2
            log_weights = head[row, number, :frames].log()
            expected -= (posteriors[row, number, :frames] * log_weights).sum()
    difference = total(model, given) - total(plain, given)
    torch.testing.assert_close(difference, 0.5 * expected, rtol=0, atol=1e-10)


@aligned
def test_padding_does_not_change_the_alignment_loss(name: str, options: dict[str, Any]) -> None:
    model = build(name, **options, ctc_weight=WEIGHT, alignment_weight=0.5)
    losses = [total(model, given) for given in (batch(), batch(extra=3, fill=9.0))]
    torch.testing.assert_close(losses[1], losses[0], rtol=0, atol=1e-10)


@aligned
def test_one_head_learns_the_alignment_of_ctc(name: str, options: dict[str, Any]) -> None:
    model = build(name, **options, ctc_weight=WEIGHT, alignment_weight=0.5)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for _ in range(60):
        joint_features = model.joint_features(batch())
        losses.append(joint_features.alignment_loss.item())
        optimizer.zero_grad()
        (joint_features.ctc_loss + joint_features.alignment_loss).backward()
        optimizer.step()
    assert losses[-1] < 0.5 * losses[0]


def test_alignment_needs_ctc_and_attention() -> None:
    with pytest.raises(RegardError, match=r"alignment_weight=0\.5 but ctc_weight=0"):
        build("transformer", tie="target", alignment_weight=0.5)
    with pytest.raises(RegardError, match="cross_mechanism='none'"):
        build("transformer_recurrent", cross_mechanism="none", ctc_weight=0.3, alignment_weight=0.5)
