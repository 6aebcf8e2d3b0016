"""CTC model: loss against PyTorch, padding, every mechanism, decoding, alignment, weights, errors."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.factories.ctc import log_sum, paths_by_output
from torch import Tensor

from regard.core.batches import (
    END,
    PAD,
    START,
    Batch,
    FrameInput,
    FrameSpec,
    ImageInput,
    ImageSpec,
    SequenceTarget,
    TokenInput,
)
from regard.core.counting import training_flops
from regard.core.errors import RegardError
from regard.core.protocols import NonAutoregressiveModel, SequenceModel, is_autoregressive
from regard.layers.names import POSITIONS
from regard.mechanisms import MECHANISMS
from regard.mechanisms.compatibility import compatible_mechanisms
from regard.models.generation.search import decode
from regard.models.seq2seq.ctc import CTC
from regard.models.seq2seq.ctc_alignment import NO_TOKEN
from regard.models.seq2seq.transformer import Transformer
from regard.tasks.sequence import sequence_loss

FEATURES, VOCABULARY, FRAMES = 5, 9, 11
LENGTHS = torch.tensor([11, 6, 9])
TARGETS = [[4, 5, 5, 8], [7, 3], []]
COUNTS = torch.tensor([len(tokens) for tokens in TARGETS])
NUM_PREDICTIONS = 4 + 2 + 0 + 3  # tokens, and END of each row
STEM = {"type": "convolutional", "strides": [1, 2]}


def build(**options: Any) -> CTC:
    torch.manual_seed(0)
    sizes: dict[str, Any] = {
        "source": FrameSpec(FEATURES),
        "target_vocabulary": VOCABULARY,
        "model_dim": 12,
        "num_heads": 3,
        "num_layers": 2,
        "feed_forward_dim": 7,
        "max_length": FRAMES,
    }
    model = CTC(**(sizes | options)).double().eval()
    with torch.no_grad():
        model.output.weight.mul_(4.0)
    return model


def frames(*, extra: int = 0, fill: float = 0.0) -> FrameInput:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(3, FRAMES, FEATURES, generator=generator).double()
    x = F.pad(x, (0, 0, 0, extra))
    padding = torch.arange(FRAMES + extra) >= LENGTHS[:, None]
    return FrameInput(x.masked_fill(padding[:, :, None], fill), LENGTHS)


def target(rows: list[list[int]] = TARGETS) -> SequenceTarget:
    longest = max(map(len, rows))
    tokens = [[START, *row, END, *[PAD] * (longest - len(row))] for row in rows]
    return SequenceTarget(torch.tensor(tokens), torch.tensor([len(row) + 2 for row in rows]))


def batch(**padding: Any) -> Batch:
    return Batch(frames(**padding), target())


@pytest.mark.parametrize("stem", [None, STEM], ids=["linear", "convolutional"])
def test_loss_is_that_of_pytorch(stem: Any) -> None:
    model = build(stem=stem)
    loss = model.sequence_loss(batch())
    scores = model(frames())
    lengths = LENGTHS if stem is None else (LENGTHS + 1) // 2
    concatenated = torch.tensor([token for row in TARGETS for token in row])
    expected = F.ctc_loss(scores.transpose(0, 1), concatenated, lengths, COUNTS, reduction="sum")
    torch.testing.assert_close(loss.total, expected, rtol=0, atol=1e-10)
    assert loss.num_predictions == NUM_PREDICTIONS == target().num_predictions
    assert sequence_loss(model, batch(), label_smoothing=0.1) == loss


def test_loss_is_minus_log_p_of_the_target() -> None:
    """By enumeration; p sums to one over all outputs, as that of a decoder with END."""
    model = build(target_vocabulary=6, stem={"type": "convolutional", "strides": [2, 2]})
    source, expected = frames(), 0.0
    rows = [[4, 5], [3], []]
    scores = model(source).detach()
    for row, tokens in enumerate(rows):
        paths = paths_by_output(scores[row, : -(-int(LENGTHS[row]) // 4)])
        totals = {
            output: log_sum(of_output.values())
            for output, of_output in paths.items()
            if max(of_output.values()) > -math.inf
        }
        assert log_sum(totals.values()) == pytest.approx(0.0, abs=1e-9)
        expected -= totals[tuple(tokens)]
    loss = model.sequence_loss(Batch(source, target(rows)))
    assert loss.total.item() == pytest.approx(expected)


@pytest.mark.parametrize("stem", [None, STEM], ids=["linear", "convolutional"])
def test_padding_changes_neither_loss_nor_gradients(stem: Any) -> None:
    model = build(stem=stem)
    results = []
    for padding in ({}, {"extra": 5}, {"extra": 2, "fill": 9.0}):
        total = model.sequence_loss(batch(**padding)).total
        results.append((total, *torch.autograd.grad(total, list(model.parameters()))))
    rows = [
        model.sequence_loss(batch().select(torch.tensor([row]))).total
        for row in range(len(TARGETS))
    ]
    alone = torch.stack(rows).sum()
    results.append((alone, *torch.autograd.grad(alone, list(model.parameters()))))
    for other in results[1:]:
        torch.testing.assert_close(other, results[0], rtol=0, atol=1e-10)
    assert all(gradient.isfinite().all() for gradient in results[0][1:])


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_mechanism(mechanism: str) -> None:
    usable = compatible_mechanisms(role="self", causal=False, masks=frozenset({"padding"}))
    if mechanism not in usable:
        with pytest.raises(RegardError, match=f"'encoder'.*'?{mechanism}'?"):
            build(mechanism=mechanism)
        return
    model = build(mechanism=mechanism)
    loss = model.sequence_loss(batch())
    loss.total.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
    assert list(model.weights(frames(), target().decoder_input)) == [
        "encoder/0",
        "encoder/1",
        "cross/ctc",
    ]


@pytest.mark.parametrize("position", POSITIONS)
def test_every_position(position: str) -> None:
    assert build(position=position, num_kv_heads=1).sequence_loss(batch()).total.isfinite()


def test_special_tokens_are_never_predicted() -> None:
    model = build()
    scores = model(frames())
    assert torch.equal(scores.isinf().any(dim=1)[0].nonzero()[:, 0], torch.tensor([START, END]))
    torch.testing.assert_close(scores.exp().sum(dim=-1), torch.ones(3, FRAMES).double())
    for beam_size in (1, 3):
        for one in decode(model, frames(), beam_size=beam_size):
            assert not {PAD, START, END} & set(one.tokens)


@pytest.mark.parametrize("beam_size", [1, 4])
def test_decoding_is_independent_of_the_batch(
    beam_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regard.models.seq2seq.encoder.ENCODER_CHUNK_SIZE", 2)
    model = build()
    together = decode(model, frames(), beam_size=beam_size)
    assert together == decode(model, frames(extra=4, fill=3.0), beam_size=beam_size)
    for row in range(3):
        (alone,) = decode(model, frames().select(slice(row, row + 1)), beam_size=beam_size)
        assert alone.tokens == together[row].tokens
        assert alone.score == pytest.approx(together[row].score)
    assert len({one.tokens for one in together}) > 1


def test_beam_search_is_at_least_as_probable() -> None:
    model = build()
    greedy, beam = (decode(model, frames(), beam_size=size) for size in (1, 20))
    for row, both in enumerate(zip(greedy, beam, strict=True)):
        log_p = []
        for one in both:
            part = Batch(frames().select(slice(row, row + 1)), target([list(one.tokens)]))
            log_p.append(-model.sequence_loss(part).total.item())
        assert log_p[1] >= log_p[0] - 1e-9
        assert both[1].score <= log_p[1] + 1e-9


def test_alignment_of_the_decoded_output() -> None:
    """The best path of the greedy output is the greedy path."""
    model = build()
    greedy = decode(model, frames())
    aligned = model.align(frames(), target([list(one.tokens) for one in greedy]).tokens)
    assert aligned.log_probability.tolist() == pytest.approx([one.score for one in greedy])
    path = model(frames()).argmax(dim=-1)
    for row, one in enumerate(greedy):
        for frame in range(int(LENGTHS[row])):
            index = int(aligned.tokens[row, frame])
            token = PAD if index == NO_TOKEN else one.tokens[index]
            assert token == int(path[row, frame])


def test_weights() -> None:
    model, source = build(stem=STEM), frames()
    weights = model.weights(source, target().decoder_input)
    assert weights["encoder/0"].shape == (3, 3, 6, 6)
    cross = weights["cross/ctc"]
    assert cross.shape == (3, 1, 5, 6)
    torch.testing.assert_close(cross.sum(dim=-1), torch.ones(3, 1, 5).double())
    for row, tokens in enumerate(TARGETS):
        frame = -(-int(LENGTHS[row]) // 2)
        assert not cross[row, :, :, frame:].any()
        # After the last token, the last frame.
        assert (cross[row, 0, len(tokens) :, frame - 1] == 1).all()
        # Monotonic: tokens are on average in order.
        centres = (cross[row, 0, : len(tokens)] * torch.arange(6)).sum(dim=-1)
        assert (centres.diff() > 0).all()
    # Also with END and padding in the decoder input, and when the last token is not followed by END.
    again = model.weights(source, target().tokens)["cross/ctc"]
    torch.testing.assert_close(again[:, :, :5], cross)
    torch.testing.assert_close(
        model.weights(source, torch.tensor([[START]] * 3))["cross/ctc"][:, 0, 0].argmax(dim=1),
        torch.tensor([5, 2, 4]),
    )


def test_encoder_weights_are_those_of_a_transformer() -> None:
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"source": FrameSpec(FEATURES), "target_vocabulary": VOCABULARY}
    sizes |= {"model_dim": 12, "num_heads": 3, "num_layers": 2, "feed_forward_dim": 7}
    transformer, model = Transformer(**sizes).double().eval(), build()
    own = {
        name: value
        for name, value in transformer.state_dict().items()
        if name in model.state_dict()
    }
    model.load_state_dict(own, strict=False)
    decoder_input = torch.tensor([[START, 4]] * 3)
    ours, theirs = (each.weights(frames(), decoder_input) for each in (model, transformer))
    for name in ("encoder/0", "encoder/1"):
        assert torch.equal(ours[name], theirs[name])


def test_targets_without_a_path() -> None:
    """The second row has six frames; four equal tokens need three blanks between them."""
    model = build()
    rows = [[4], [5, 5, 5, 5], [6]]
    impossible = Batch(frames(), target(rows))
    with pytest.raises(
        RegardError, match=r"target of 4 tokens .* needs 7 .* source has 6 .*zero_inf"
    ):
        model.sequence_loss(impossible)
    skipping = build(zero_infinity=True)
    loss = skipping.sequence_loss(impossible)
    kept = skipping.sequence_loss(impossible.select(torch.tensor([0, 2])))
    torch.testing.assert_close(loss.total, kept.total)
    assert loss.num_predictions == kept.num_predictions == 4
    loss.total.backward()
    assert all(parameter.grad.isfinite().all() for parameter in skipping.parameters())  # type: ignore[union-attr]
    cross = model.weights(frames(), impossible.target.decoder_input)["cross/ctc"]
    assert not cross[1, 0, :4].any()
    assert torch.equal(skipping.sequence_loss(batch()).total, model.sequence_loss(batch()).total)


def test_empty_targets() -> None:
    model = build()
    loss = model.sequence_loss(Batch(frames(), target([[], [], []])))
    scores = model(frames())[:, :, PAD]
    expected = -sum(scores[row, :length].sum() for row, length in enumerate(LENGTHS.tolist()))
    torch.testing.assert_close(loss.total, expected)
    assert loss.num_predictions == 3


def test_parameters_and_flops() -> None:
    model = build()
    block = 4 * (12 * 12 + 12) + (12 * 7 + 7 + 7 * 12 + 12) + 2 * 24
    stem = (FEATURES * 12 + 12) + 24
    expected = stem + 2 * block + 24 + (12 + 1) * (VOCABULARY - 2)  # not of START and END
    assert sum(parameter.numel() for parameter in model.parameters()) == expected
    flops = training_flops(lambda: model.sequence_loss(batch()).total)
    # Two for each weight of a matrix and frame forwards, and twice as many backwards.
    matrices = sum(each.numel() for each in model.parameters() if each.dim() == 2)
    assert flops > 3 * 2 * 3 * FRAMES * matrices - 2 * 3 * FRAMES * FEATURES * 12
    longer = training_flops(
        lambda: model.sequence_loss(Batch(frames(extra=FRAMES), target())).total
    )
    assert 1.9 < longer / flops < 2.5


@pytest.mark.parametrize(
    ("spec", "source"),
    [
        (13, TokenInput(torch.tensor([[4, 5, 6, END], [7, 12, END, PAD]]), torch.tensor([4, 3]))),
        (ImageSpec(2, 8, 12), ImageInput(torch.ones(2, 2, 8, 12).double())),
    ],
    ids=["tokens", "images"],
)
def test_other_inputs(spec: Any, source: Any) -> None:
    model = build(source=spec)
    loss = model.sequence_loss(Batch(source, target([[4, 5], [6]])))
    assert loss.total.isfinite()
    for beam_size in (1, 2):
        assert len(decode(model, source, beam_size=beam_size)) == 2
    cross = model.weights(source, torch.tensor([[START, 4], [START, 6]]))["cross/ctc"]
    assert cross.shape[:3] == (2, 1, 2)


def test_protocol() -> None:
    model = build()
    assert isinstance(model, NonAutoregressiveModel)
    assert not isinstance(model, SequenceModel)
    assert not is_autoregressive(model)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mechanism": "retention"}, "'encoder'"),
        ({"zero_infinity": 1}, "zero_infinity=1"),
        ({"stem": {"type": "convolutional", "width": 3}}, "'stem.width'.*stem.kernel_size"),
        ({"position": "sinus"}, "'sinus'"),
    ],
)
def test_invalid_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(RegardError, match=message):
        build(**options)


def test_training_learns_a_toy_alignment() -> None:
    """Every frame is a noisy copy of its token's vector; tokens last two frames."""
    torch.manual_seed(3)
    vectors = torch.randn(VOCABULARY, FEATURES)
    tokens = torch.randint(4, VOCABULARY, (24, 4))
    noise = 0.1 * torch.randn(24, 8, FEATURES)
    x = vectors[tokens].repeat_interleave(2, dim=1) + noise
    source = FrameInput(x, torch.full((24,), 8))
    model = build(dropout=0.0).float().train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(60):
        optimizer.zero_grad()
        loss = model.sequence_loss(Batch(source, target(merged(tokens))))
        (loss.total / loss.num_predictions).backward()
        optimizer.step()
    found = decode(model.eval(), source, beam_size=4)
    right = [list(one.tokens) == row for one, row in zip(found, merged(tokens), strict=True)]
    assert sum(right) >= 20


def merged(tokens: Tensor) -> list[list[int]]:
    """Rows without repeats, which the frames do not tell apart."""
    return [
        [token for place, token in enumerate(row) if row[place - 1 : place] != [token]]
        for row in tokens.tolist()
    ]
